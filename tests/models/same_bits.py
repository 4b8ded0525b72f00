#!/usr/bin/env python3
"""Shows that two builds of smelt do the same: equal plans, byte for byte, and equal results, bit for bit.

usage: same_bits.py BEFORE AFTER [--all | --quick | NAME ...] [--kernels] [--only PART,...] [--device gpu] [--work DIR] [--keep]

BEFORE and AFTER are smelt commands, or build folders that hold one. NAME is a graph of examples/models, or a made model
(subjects.py). Of each graph, at tuning level 0 and with an empty cache, both builds give
  explain   what smelt explain prints
  cpu       the plan for the CPU
  sm_90a    the plan for a GPU of this architecture (NVRTC is needed; a GPU is not); with --kernels, its compiled kernels too
  fused     the outputs of smelt run, every size of a symbolic graph
  unfused   the same with --unfused
With --device gpu, fused and unfused run on the first GPU, and are the parts compared where --only names none.
A part that both builds refuse with the same message is equal too, and marked so. Prints a line a graph; exit status 1 when a
part differs. Weights are filled in WORK/NAME and removed when the graph is done (up to 7 GB; --keep leaves everything there).

    tests/models/same_bits.py ../base/build build resnet50.fp32 --only cpu,fused
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

import subjects
from engines import load

RUNS = ["fused", "unfused"]
PARTS = ["explain", "cpu", "sm_90a", *RUNS]


def command_of(path):
    """The smelt command that `path` is or holds."""
    path = pathlib.Path(path).resolve()
    path = path / "smelt" if path.is_dir() else path
    if not path.is_file() or not os.access(path, os.X_OK):
        sys.exit(f"same_bits: {path} is not a command; give a build folder with smelt in it, or the command itself")
    return path


def environment(work):
    """Of the commands: NVRTC from PyTorch's wheels where no toolkit is named, and a cache that nothing else writes."""
    env = dict(os.environ, SMELT_CACHE_DIR=str(work / "cache"))
    for folder in sys.path:
        wheels = pathlib.Path(folder) / "nvidia" / "cu13"
        if "CUDA_PATH" not in env and wheels.is_dir():
            env["CUDA_PATH"] = str(wheels)
    return env


def digest(path):
    """{what: hash} of a file that a build wrote: of each array of an .npz (whose container holds the time), else of the bytes."""
    if path.suffix != ".npz":
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    return {name: f"{x.dtype}{list(x.shape)} " + hashlib.sha256(x.tobytes()).hexdigest() for name, x in load(path).items()}


class Comparison:
    def __init__(self, before, after, work, kernels, device):
        self.builds, self.work = (command_of(before), command_of(after)), pathlib.Path(work).resolve()
        self.kernels, self.device = kernels, device

    def smelt(self, build, arguments, written=()):
        """{what: hash} of what the command printed and wrote, or {"refused": why}; the files are removed."""
        shutil.rmtree(self.work / "cache", ignore_errors=True)
        done = subprocess.run([str(build), *map(str, arguments)], capture_output=True, text=True, env=environment(self.work))
        if done.returncode:
            return {"refused": f"exit {done.returncode}: {done.stderr.strip()}"}
        found = {} if written else {"text": done.stdout}
        for path in written:
            found.update(digest(path))
            path.unlink()
        return found

    def part(self, build, subject, part):
        model, folder = subject.model, subject.model.parent
        options = ["--tuning-level", "0", "--no-cache"]
        if subject.precision and part != "explain":           # which has no such option
            options += ["--precision", subject.precision]
            options += ["--keep-fp32", ",".join(subject.keep_fp32)] if subject.keep_fp32 else []
        if part == "explain":
            return self.smelt(build, ["explain", model, *options])
        if part in ("cpu", "sm_90a"):
            plan = folder / f"{subject.name}.{part}.plan.onnx"
            target = [] if part == "cpu" else ["--arch", part] + (["--embed-kernels"] if self.kernels else [])
            return self.smelt(build, ["optimize", model, "-o", plan, *target, *options], [plan])
        found, outputs = {}, folder / "outputs.npz"
        options += ["--device", self.device] if self.device else []
        for i, inputs in enumerate(subject.inputs):
            run = ["run", model, "--inputs", inputs, "--outputs", outputs, *options] + (["--unfused"] if part == "unfused" else [])
            found.update({f"{key} of size {i}": value for key, value in self.smelt(build, run, [outputs]).items()})
        return found

    def compare(self, name, parts, keep):
        """(a word a part, what differs) of one graph."""
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        words, differences = [], []
        try:
            subject = subjects.subject(name, folder)
            for part in parts:
                before, after = (self.part(build, subject, part) for build in self.builds)
                differing = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
                differences += [f"{part}: {key}: {show(before.get(key))}, then {show(after.get(key))}" for key in differing]
                refused = any(key.startswith("refused") for key in before)
                words.append("DIFFERS" if differing else "refused" if refused else "equal")
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
        return words, differences


def show(value):
    return "nothing" if value is None else f"{len(value.splitlines())} lines" if "\n" in value else value[:200]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="every graph of examples/models")
    parser.add_argument("--quick", action="store_true", help="one graph of each kind, and the small made models")
    parser.add_argument("--kernels", action="store_true", help="embed compiled kernels in the sm_90a plan: minutes a graph")
    parser.add_argument("--only", help=f"parts of {','.join(PARTS)}")
    parser.add_argument("--device", help="where fused and unfused run: gpu")
    parser.add_argument("--work", default=subjects.ROOT / "build" / "same_bits")
    parser.add_argument("--keep", action="store_true", help="leave the filled models in WORK")
    args = parser.parse_args()
    parts = args.only.split(",") if args.only else RUNS if args.device else PARTS
    names = subjects.ALL if args.all else subjects.QUICK if args.quick else args.names
    unknown = [part for part in parts if part not in PARTS] + [name for name in names if name not in subjects.ALL + subjects.MADE]
    if unknown or not names:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "no graph named; --all, --quick, or names")
    comparison = Comparison(args.before, args.after, args.work, args.kernels, args.device)
    print(f"{'graph':34}" + "".join(f"{part:9}" for part in parts) + "seconds", flush=True)
    failed = []
    for name in names:
        begin = time.time()
        words, differences = comparison.compare(name, parts, args.keep)
        print(f"{name:34}" + "".join(f"{word:9}" for word in words) + f"{time.time() - begin:7.0f}", flush=True)
        for line in differences:
            print(f"    {line}", flush=True)
        failed += [name] if differences else []
    print(f"{len(names) - len(failed)} of {len(names)} equal" + (f"; different: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
