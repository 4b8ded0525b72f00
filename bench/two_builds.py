"""Latency of whole models by two builds of smelt, in turn: whether a change that should cost nothing does.

usage: PYTHONPATH=build/python .venv/bin/python bench/two_builds.py BEFORE AFTER [--models NAME...] [--rounds N] [--seconds S]
                     [--threads N] [--device gpu] [--iterations N] [--folder F] [--out FILE]

BEFORE and AFTER are build folders with the Python module in them. Each build runs in a process of its own, and both use one
tuning cache, so that they choose the same kernels; the builds' order changes from round to round, and between batches both
sleep. With --device gpu the folders hold the smelt command, and a batch is the N samples of one `smelt profile --optimized`
(inputs and outputs on the device, one CUDA graph); a row ends with how many of AFTER's steps run by another tactic or with
other settings. A row gives the medians in ms, their ratio with a 95 % bootstrap interval over rounds, and "same" where that
interval holds 1. The last row times BEFORE against itself: how far apart two equal builds come out. Exit status 1 when AFTER
is slower beyond noise.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import shared
from gpu_models import changed_steps, gpu_name
from shared import CPU_MODELS, cpu_name, interval

ON_GPU = (*shared.GPU_MODELS, "sd15_unet.fp16", "llama7b_decode.fp16")

# A build's process.
WORKER = """
import json, sys, time
import numpy as np
import smelt
model, inputs, threads, cache = sys.argv[1:]
session = smelt.Session(model, threads=int(threads), cache_dir=cache)
feeds = dict(np.load(inputs))
pause = 0.2
""" + shared.BATCHES


class Build(shared.Worker):
    """A build on the CPU: a process that keeps its Session."""

    def __init__(self, folder, model, threads, cache):
        super().__init__(f"the process of {folder}", WORKER, [model, model.with_suffix(".inputs.npz"), threads, cache],
                         {"PYTHONPATH": str(pathlib.Path(folder).resolve() / "python"), "PATH": "/usr/bin:/bin"})

    def batch(self, seconds):
        return self.ask(seconds)


class GpuBuild:
    """A build on a GPU: a process a batch. `profile` is that of the last one."""

    def __init__(self, folder, model, args):
        self.command = [str(pathlib.Path(folder).resolve() / "smelt"), "profile", str(model), "--optimized", "--json", "--device",
                        args.device, "--inputs", str(model.with_suffix(".inputs.npz")), "--cache-dir", str(args.folder / "cache"),
                        "--iterations", str(args.iterations)]
        self.batch(0)

    def batch(self, _):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[-500:]}")
        self.profile = json.loads(done.stdout)["after"]
        return [self.profile["latency_us"]["median"] * 1e-6]

    def end(self):
        """Nothing is kept running."""


def compare(before, after, model, args):
    """(ms before, ms after, ratio, its interval, what runs otherwise) of a model; the last on a GPU only."""
    builds = []
    try:
        for folder in (before, after):
            builds.append(GpuBuild(folder, model, args) if args.device else
                          Build(folder, model, args.threads, args.folder / "cache"))
        rounds = [[], []]
        for i in range(args.rounds):
            for k in ((0, 1), (1, 0))[i % 2]:
                rounds[k].append(builds[k].batch(args.seconds))
    finally:
        for build in builds:
            build.end()
    runs = min(len(times) for side in rounds for times in side)
    a, b = (np.array([times[:runs] for times in side]) * 1e3 for side in rounds)
    low, high = interval(b, a)
    changed = ""
    if args.device:
        profiles = [build.profile for build in builds]
        changed = f"  {changed_steps(*profiles, ('name', 'tactic', 'config'))} of {len(profiles[1]['steps'])} steps otherwise"
    return np.median(a), np.median(b), np.median(b) / np.median(a), low, high, changed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", help="gpu, or a GPU's number")
    parser.add_argument("--iterations", type=int, default=30, help="samples a batch on a GPU")
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "demo" / "models")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    models = args.models or (ON_GPU if args.device else CPU_MODELS)
    machine, batch = (gpu_name(), f"{args.iterations} samples") if args.device else (cpu_name(), f"{args.seconds} s")
    lines = [f"{machine}; {shared.commit()}; {args.rounds} rounds of {batch} a build, in turn",
             f"{'model':30} {'before':>9} {'after':>9} {'ratio':>7}  95 % interval"]
    print("\n".join(lines), flush=True)
    slower = []
    for name, after in [(name, args.after) for name in models] + [(models[0], args.before)]:
        a, b, ratio, low, high, changed = compare(args.before, after, shared.filled(name, args.folder), args)
        verdict = "same" if low <= 1 <= high else "slower" if low > 1 else "faster"
        itself = " (before, itself)" if after == args.before else ""
        lines.append(f"{name + itself:30} {a:9.3f} {b:9.3f} {ratio:7.3f}  {low:.3f} – {high:.3f}  {verdict}{changed}")
        print(lines[-1], flush=True)
        slower += [name] if verdict == "slower" and not itself else []
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
