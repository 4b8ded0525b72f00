"""Latency of whole models on the CPU by two builds of smelt, in turn: whether a change that should cost nothing does.

usage: PYTHONPATH=build/python .venv/bin/python bench/two_builds.py BEFORE AFTER [--models NAME...] [--rounds N] [--seconds S]
                     [--threads N] [--folder F] [--out FILE]

BEFORE and AFTER are build folders with the Python module in them. Each build runs in a process of its own, and both use one
tuning cache, so that they choose the same kernels; the builds' order changes from round to round, and between batches both
sleep. A row gives the medians in ms, their ratio with a 95 % bootstrap interval over rounds, and "same" where that interval
holds 1. The last row times BEFORE against itself: how far apart two equal builds come out. Exit status 1 when AFTER is slower
beyond noise.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import shared
from cpu_models import FP32, cpu_name, interval

# A build's process: reads a number of seconds a line, answers with the seconds of each run in a batch that long.
WORKER = """
import json, sys, time
import numpy as np
import smelt
model, inputs, threads, cache = sys.argv[1:]
session = smelt.Session(model, threads=int(threads), cache_dir=cache)
feeds = dict(np.load(inputs))
session.run(None, feeds)
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    time.sleep(0.2)
    session.run(None, feeds)
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < float(line):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)
"""


class Build:
    def __init__(self, folder, model, threads, cache):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(model), str(model.with_suffix(".inputs.npz")), str(threads), str(cache)],
            env={"PYTHONPATH": str(pathlib.Path(folder).resolve() / "python"), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a build's process ended with status {self.process.wait()}")
        return json.loads(line)

    def batch(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(before, after, model, args):
    """(ms before, ms after, ratio, its interval) of a model."""
    builds = []
    try:
        for folder in (before, after):
            builds.append(Build(folder, model, args.threads, args.folder / "cache"))
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
    return np.median(a), np.median(b), np.median(b) / np.median(a), low, high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--models", nargs="+", default=FP32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "demo" / "models")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    lines = [f"{cpu_name()}; {shared.commit()}; {args.rounds} rounds of {args.seconds} s a build, in turn",
             f"{'model':30} {'before':>9} {'after':>9} {'ratio':>7}  95 % interval"]
    print("\n".join(lines), flush=True)
    slower = []
    for name, after in [(name, args.after) for name in args.models] + [(args.models[0], args.before)]:
        a, b, ratio, low, high = compare(args.before, after, shared.filled(name, args.folder), args)
        verdict = "same" if low <= 1 <= high else "slower" if low > 1 else "faster"
        itself = " (before, itself)" if after == args.before else ""
        lines.append(f"{name + itself:30} {a:9.2f} {b:9.2f} {ratio:7.3f}  {low:.3f} – {high:.3f}  {verdict}")
        print(lines[-1], flush=True)
        slower += [name] if verdict == "slower" and not itself else []
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
