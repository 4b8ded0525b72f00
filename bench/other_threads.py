"""What a plan keeps with another number of threads: graphs of examples/models, built with one count and opened with another.

usage: PYTHONPATH=build/python .venv/bin/python bench/other_threads.py [--models NAME...] [--counts N M] [--tuning-level L]
                     [--build BUILD] [--folder F] [--out FILE]

Of each graph `smelt optimize` writes a plan with N threads. It is opened with M, with an empty tuning cache; and so is the model
itself, which is a fresh build. Then the same from M to N. A row has the problems that were measured, and those that were taken
from the other count's timings; the seconds of measuring, and those of a fresh build; and the least time of a run over a fresh
build's, of runs in turn (above 1: slower).
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import shared

ROOT = pathlib.Path(__file__).resolve().parents[1]

# argv is a path, the threads and the cache's folder of each of two, and the rounds; it prints the least time of each in ms.
IN_TURN = """
import sys, time
import numpy as np
import smelt
level, rounds, feeds, *which = sys.argv[1:]
feeds = dict(np.load(feeds))
sessions = [smelt.Session(path, threads=int(threads), tuning_level=int(level), cache_dir=folder) for path, threads, folder in
            zip(which[::3], which[1::3], which[2::3])]
least = [float("inf")] * len(sessions)
for _ in range(int(rounds)):
    for i, session in enumerate(sessions):
        for _ in range(3):
            begin = time.perf_counter()
            session.run(None, feeds)
            least[i] = min(least[i], time.perf_counter() - begin)
print(*least)
"""


def build_of(args, path, threads, cache, feeds):
    """The numbers of opening a model or a plan, in a new process."""
    command = [args.build / "smelt", "profile", path, "--optimized", "--print-only", "--iterations", 1, "--threads", threads,
               "--tuning-level", args.tuning_level, "--cache-dir", cache, "--inputs", feeds]
    said = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    measured = re.search(r"(\d+) measured in ([\d.]+) (µs|ms|s)\b", said)
    others = re.search(r"(\d+) problems were decided by timings with another number of threads, and of (\d+)", said)
    return {"measured": int(measured[1]), "tuning_s": float(measured[2]) * {"µs": 1e-6, "ms": 1e-3, "s": 1}[measured[3]],
            "reused": int(others[1]) if others else 0, "narrowed": int(others[2]) if others else 0}


def in_turn(args, feeds, *which):
    """The least ms of each, a few runs of one after a few of the other."""
    command = [sys.executable, "-c", IN_TURN, args.tuning_level, args.rounds, feeds]
    for path, threads, cache in which:
        command += [path, threads, cache]
    return list(map(float, subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.split()))


def row_of(args, model, feeds, first, then, folder):
    plan = folder / f"{model.stem}.{first}.plan.onnx"
    command = [args.build / "smelt", "optimize", model, "-o", plan, "--copy-weights", "--threads", first, "--tuning-level",
               args.tuning_level, "--cache-dir", folder / f"built{first}", "--inputs", feeds]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    opened, fresh = folder / f"opened{then}", folder / f"fresh{then}"
    reused = build_of(args, plan, then, opened, feeds)
    anew = build_of(args, model, then, fresh, feeds)
    times = in_turn(args, feeds, (plan, then, opened), (model, then, fresh))
    return (f"{model.stem:32} {first} to {then}  measured {reused['measured']:4} of {anew['measured']:4}  "
            f"reused {reused['reused']:4}  narrowed {reused['narrowed']:4}  "
            f"{reused['tuning_s']:6.2f} s of {anew['tuning_s']:6.2f}  "
            f"{1e3 * times[0]:8.3f} ms, {times[0] / times[1]:.3f} of a fresh build's")


def main():
    parser = argparse.ArgumentParser(usage=re.search(r"usage: (.*?)\n\n", __doc__, re.S)[1])
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--counts", nargs=2, type=int, default=[2, 1])
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    kept = tempfile.TemporaryDirectory() if args.folder is None else None
    args.folder = args.folder or pathlib.Path(kept.name)
    names = args.models or sorted(p.stem for p in (ROOT / "examples/models").glob("*fp32.onnx"))
    lines = []
    for name in names:
        model = shared.filled(name, args.folder)
        feeds = model.with_suffix(".inputs.npz")
        for first, then in (args.counts, args.counts[::-1]):
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                lines.append(row_of(args, model, feeds, first, then, pathlib.Path(folder)))
            print(lines[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
