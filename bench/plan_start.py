"""How soon a plan gives its first result in a fresh container: no tuning cache, no home folder to keep one in.

usage: PYTHONPATH=build/python .venv/bin/python bench/plan_start.py [--models NAME...] [--packages] [--rounds N] [--threads N]
                     [--tuning-level L] [--build BUILD] [--folder F] [--out FILE]

Of each model (graphs of examples/models in fp32, with --packages those of packages.py too; or NAMEs of either) `smelt optimize`
writes a plan. Then, in turn and each in a new process with an environment that holds nothing but paths: the seconds from opening
the plan to its first result, the same of ONNX Runtime with the model, and the seconds that reading the plan and its weights
takes, without the forms that it holds of them for kernels (all pages are in the system's cache). A row has the least of N rounds
in ms; "beyond" is what the first result takes beyond reading and one later run. Exit status 1 where that is above 50 ms, or where
a plan measured anything.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import onnx
import packages
import shared
import user_models

LIMIT_MS = 50

# What one process does: argv is what (plan, model, files), the feeds and the threads; it prints the seconds of each part.
STARTED = """
import json, sys, time
import numpy as np
what, path, feeds, threads = sys.argv[1:]
feeds = dict(np.load(feeds))
if what == "onnxruntime":
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    def opened():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(threads)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
else:
    import smelt
    def opened():
        return smelt.Session(path, threads=int(threads))
begin = time.perf_counter()
session = opened()
ready = time.perf_counter()
session.run(None, feeds)
first = time.perf_counter()
session.run(None, feeds)
print(json.dumps([ready - begin, first - ready, time.perf_counter() - first]))
"""

READ = """
import sys, time
begin = time.perf_counter()
for path, left in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    with open(path, "rb", buffering=0) as f:
        while left > 0 and (some := f.read(min(left, 1 << 24))):
            left -= len(some)
print(time.perf_counter() - begin)
"""


def alone(source, *arguments):
    """What a new process prints, with an empty folder as its home."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        command = [sys.executable, "-c", source, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout), done.stderr


def planned(model, args):
    """The plan's path; made anew."""
    plan = model.with_suffix(".plan.onnx")
    command = [args.build / "smelt", "optimize", model, "-o", plan, "--copy-weights", "--threads", args.threads, "--tuning-level",
               args.tuning_level, "--cache-dir", args.folder / "cache", "--inputs", model.with_suffix(".inputs.npz")]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return plan


def weight_bytes(plan, file):
    """The bytes of one of the plan's files but packed forms of weights, which lie behind all weights (docs/compatibility.md)."""
    metadata = {p.key: p.value for p in onnx.load(plan, load_external_data=False).metadata_props}
    name, *forms = metadata.get("smelt.plan.forms", "").splitlines() or [""]
    return min(int(line.split()[0]) for line in forms) if file.name == name and forms else file.stat().st_size


def least(samples):
    """The sample with the least first result, in ms."""
    return [1e3 * s for s in min(samples, key=lambda s: s[0] + s[1])]


def measure(model, args):
    plan, feeds = planned(model, args), model.with_suffix(".inputs.npz")
    files = list(plan.parent.glob(f"{plan.stem}.*"))
    reads = [item for p in files for item in (p, weight_bytes(plan, p))]
    smelt, peer, read, said = [], [], [], set()
    for _ in range(args.rounds):
        times, stderr = alone(STARTED, "smelt", plan, feeds, args.threads)
        smelt.append(times)
        said.update(line for line in stderr.splitlines() if "measured" in line)
        peer.append(alone(STARTED, "onnxruntime", model, feeds, args.threads)[0])
        read.append(alone(READ, *reads)[0])
    row = {"smelt": least(smelt), "onnxruntime": least(peer), "read": 1e3 * min(read),
           "mib": sum(p.stat().st_size for p in files) / 2**20, "measured": sorted(said)}
    row["beyond"] = sum(row["smelt"][:2]) - row["smelt"][2] - row["read"]
    return row


def text_of(name, r):
    parts = " ".join(f"{ms:9.1f}" for ms in (*r["smelt"], sum(r["smelt"][:2]), sum(r["onnxruntime"][:2]), r["read"], r["beyond"]))
    return f"{name:30} {r['mib']:8.1f} {parts} {'measured' if r['measured'] else ''}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--packages", action="store_true")
    args = user_models.parsed(parser, rounds=5, seconds=0)
    names = args.models or [*(list(packages.MODELS) if args.packages else []),
                            *sorted(p.stem for p in shared.MODELS.glob("*.fp32.onnx"))]
    lines = [f"{shared.cpu_name()}, {args.threads} threads, tuning level {args.tuning_level}, commit {shared.commit()}; ms",
             f"{'plan':30} {'MiB':>8} {'open':>9} {'first run':>9} {'next run':>9} {'first':>9} {'ORT first':>9} {'reading':>9} "
             f"{'beyond':>9}"]
    print("\n".join(lines), flush=True)
    rows, failed = shared.measured_rows(names, lambda name: measure(user_models.filled(name, args.folder), args), text_of, lines)
    shared.write_table(args.out, lines, rows)
    sys.exit(bool(failed) or any(r["beyond"] > LIMIT_MS or r["measured"] for r in rows.values()))


if __name__ == "__main__":
    main()
