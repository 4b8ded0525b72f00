"""Builds beside neighbours that want the same cores: how much longer than alone they take, and whether they choose the same.

usage: .venv/bin/python bench/noisy_builds.py [--build FOLDER] [--models NAME...] [--neighbours KIND...] [--rounds N]
                     [--threads N] [--tuning-level L] [--folder F] [--out FILE]

A model is a name in examples/models (without .onnx) or a path to an .onnx file. The kinds of neighbours are those of
bench/neighbours.py. A round builds the model once beside each kind, each time in a process of its own with an empty tuning cache,
by `smelt explain --kernels`.

A row gives the median seconds of such a process and how many times the median alone that is, the shares of steps whose tactic is
that of the first build alone ("tactic"), whose tactic, settings and layout are ("same"), and whose tactic takes at most 5% longer
than that build's by its own measurements ("near"), and of problems that are marked as measured beside other work. The rows
"alone" compare a later build alone with the first one: how well two quiet builds agree.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import shared
from neighbours import neighbours

# A small CNN, a larger one, a transformer and a recurrent network.
DEFAULT = ("mobilenet_v3_large.fp32", "resnet50.fp32", "segformer.fp32", "crnn.fp32")


class Build:
    """A model's build with an empty cache: its seconds, each step's problem and tactic, and what was measured."""

    def __init__(self, model, args):
        smelt = pathlib.Path(args.build) / "smelt"
        with tempfile.TemporaryDirectory() as cache:
            options = ["--cache-dir", cache]
            begin = time.perf_counter()
            out = subprocess.run([smelt, "explain", model, "--kernels", "--summary", "--json", "--tuning-level",
                                  str(args.tuning_level), "--threads", str(args.threads), *options],
                                 check=True, capture_output=True, text=True).stdout
            self.seconds = time.perf_counter() - begin
            entries = json.loads(subprocess.run([smelt, "cache", "export", *options], check=True, capture_output=True,
                                                text=True).stdout)["entries"]
        rows = json.loads(out)["tactics"]
        self.steps = {row["step"]: (row["problem"], row["tactic"]) for row in rows if row["result"] == "runs"}
        self.times = {(e["problem"], f"{t['tactic']} {t['config']}".strip()): t["min_us"]
                      for e in entries for t in e["timings"] if t["samples"] > 0}
        self.problems = len(entries)
        self.under_load = sum(any(t.get("under_load") for t in e["timings"]) for e in entries)

    def agreement(self, first):
        """The shares of steps with first's tactic, with its settings and layout too, and at most 5% slower by first's figures."""
        tactic = same = near = 0
        for step, (problem, wanted) in first.steps.items():
            mine = self.steps.get(step, (None, None))
            equal = mine == (problem, wanted)
            tactic += mine[1] is not None and mine[1].split()[0] == wanted.split()[0]
            times = first.times.get(mine), first.times.get((problem, wanted))
            same += equal
            near += equal or (None not in times and times[0] <= 1.05 * times[1])
        return tactic / len(first.steps), same / len(first.steps), near / len(first.steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--models", nargs="+", default=DEFAULT)
    parser.add_argument("--neighbours", nargs="+", default=["1", "2", "compiler"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "demo" / "models")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    lines = [f"{shared.cpu_name()}, {len(os.sched_getaffinity(0))} cores, {args.threads} threads; {shared.commit()}; "
             f"tuning level {args.tuning_level}, {args.rounds} rounds",
             f"{'model':26} {'neighbours':13} {'seconds':>8} {'of alone':>9} {'steps':>6} {'tactic':>6} {'same':>6} {'near':>6} "
             f"{'marked':>7}"]
    print("\n".join(lines), flush=True)
    for name in args.models:
        model = pathlib.Path(name) if name.endswith(".onnx") else shared.filled(name, args.folder)
        kinds = ["alone", *(k for k in args.neighbours if k != "alone")]
        builds = {kind: [] for kind in kinds}
        first = Build(model, args)
        for _ in range(args.rounds):
            for kind in kinds:
                with neighbours(kind):
                    builds[kind].append(Build(model, args))
        alone = np.median([b.seconds for b in (first, *builds["alone"])])
        for kind in kinds:
            seconds = np.median([b.seconds for b in builds[kind]])
            tactic, same, near = np.mean([b.agreement(first) for b in builds[kind]], axis=0)
            marked = np.mean([b.under_load / max(b.problems, 1) for b in builds[kind]])
            lines.append(f"{model.stem:26} {kind:13} {seconds:8.2f} {seconds / alone:9.2f} {len(first.steps):6} {tactic:6.1%} "
                         f"{same:6.1%} {near:6.1%} {marked:7.1%}")
            print(lines[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
