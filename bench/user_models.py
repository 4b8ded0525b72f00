"""Models as users bring them, on the CPU: smelt, the same model unfused, and ONNX Runtime, in one table.

usage: PYTHONPATH=build/python .venv/bin/python bench/user_models.py [--models NAME...] [--packages] [--graphs] [--rounds N]
                     [--seconds S] [--threads N] [--cpu-time] [--tuning-level L] [--folder F] [--out FILE]

NAME is a model of packages.py (trained models that PyPI's packages ship), a graph of examples/models (crnn.fp32), or a path to
a model with its .inputs.npz beside it. --packages: all of the first; --graphs: all fp32 graphs of the second; without any: both.

Each engine runs in a process of its own, in turn, and sleeps before each batch, so that no engine is timed while another one's
threads still spin. A batch drops its first two runs. The figure of a batch is its median; that of a row the lowest of its
batches (a neighbour only ever adds). A row gives milliseconds, the ratio of smelt to unfused and to ONNX Runtime, the largest
difference from ONNX Runtime without optimisations over the largest value, the share of smelt's time in reference kernels, and
seconds until the first result. --cpu-time: the figure of a batch is the least time that a run took of the processor; on a machine
with other work it repeats where the other does not. Only with one thread: threads that wait take time too. Ends with the
geometric means. Exit status 1 where an engine fails or a result is wrong.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import packages
import shared

ENGINES = ("smelt", "unfused", "onnxruntime")

# A process of one engine: reads "seconds" a line, answers with the seconds of each run of a batch that long.
WORKER = """
import json, sys, time
import numpy as np
engine, model, feeds, threads, level, cache, results, clock = sys.argv[1:]
clock = getattr(time, clock)
feeds = dict(np.load(feeds))
begin = time.perf_counter()
if engine.startswith("onnxruntime"):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    if engine == "onnxruntime.plain":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
else:
    import smelt
    session = smelt.Session(model, threads=int(threads), tuning_level=int(level), cache_dir=cache, optimize=engine == "smelt",
                            tune_new_shapes=True)
def run():
    start = clock()
    out = session.run(None, feeds)
    return clock() - start, out
out = run()[1]
first = time.perf_counter() - begin
np.savez(results, *out)
print(json.dumps(first), flush=True)
for line in sys.stdin:
    time.sleep(0.1)
    run(), run()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < float(line) or len(times) < 3:
        times.append(run()[0])
    print(json.dumps(times), flush=True)
"""


class Engine(shared.Worker):
    def __init__(self, name, model, args, label=None):
        cpu_time = getattr(args, "cpu_time", False)
        self.results = args.folder / f"results.{label or name}.{os.getpid()}.npz"   # several drivers may share the folder
        super().__init__(label or name, WORKER, [name, model, model.with_suffix(".inputs.npz"), args.threads, args.tuning_level,
                                                 args.folder / "cache", self.results,
                                                 "process_time" if cpu_time else "perf_counter"])
        self.batches, self.figure = [], np.min if cpu_time else np.median

    def outputs(self):
        """Of a type that NumPy lacks a file of arrays keeps the bytes alone: two of them are bfloat16's."""
        return [a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for a in np.load(self.results).values()]

    def end(self):
        super().end()
        self.results.unlink(missing_ok=True)

    def batch(self, seconds):
        self.batches.append(float(self.figure(self.ask(seconds))) * 1e3)

    def ms(self):
        return min(self.batches)


def error(found, expected):
    """The largest difference over the largest value, of all outputs."""
    worst = 0.0
    for f, e in zip(found, expected, strict=True):
        f, e = np.asarray(f, np.float64), np.asarray(e, np.float64)
        if f.shape != e.shape or (np.isnan(f) != np.isnan(e)).any() or (f[np.isinf(e)] != e[np.isinf(e)]).any():
            return math.inf
        f, e = np.where(np.isinf(e), 0, f), np.where(np.isinf(e), 0, e)
        if e.size:
            worst = max(worst, float(np.nanmax(np.abs(f - e), initial=0) / max(np.nanmax(np.abs(e), initial=0), 1e-30)))
    return worst


def reference_steps(model, args):
    """({kind of step: share}, share) of the time that smelt's optimised plan spends in reference kernels."""
    command = [str(args.build / "smelt"), "profile", str(model), "--optimized", "--json", "--top", "0", "--iterations", "5",
               "--inputs", str(model.with_suffix(".inputs.npz")), "--threads", str(args.threads), "--tuning-level",
               str(args.tuning_level), "--cache-dir", str(args.folder / "cache"), "--print-only"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {f"profile: {done.stderr.strip()[:80]}": 1.0}, math.nan
    profile = json.loads(done.stdout)["after"]
    total = sum(s["us"]["median"] for s in profile["steps"]) or 1
    times = [(s["op"], s["tactic"], s["us"]["median"]) for s in profile["steps"]]
    times += [(s["op"], s["tactic"], s["us"]) for s in profile.get("inside", [])]    # of bodies
    kinds = {}
    for op, tactic, us in times:
        if tactic in ("reference", ""):
            kinds[op] = kinds.get(op, 0) + us / total
    return kinds, sum(us for _, tactic, us in times if tactic == "reference") / total


def started(name, model, args):
    """The engine; None where it is ONNX Runtime and takes no such model (bfloat16, say)."""
    try:
        return Engine(name, model, args)
    except RuntimeError:
        if not name.startswith("onnxruntime"):
            raise
        return None


def measure(model, args):
    """A row. Without ONNX Runtime, where that refuses the model, errors are those beside smelt's own steps one by one."""
    engines = [e for name in args.engines if (e := started(name, model, args))]
    plain = started("onnxruntime.plain", model, args) or Engine("unfused", model, args, "expected")
    expected = plain.outputs()
    plain.end()
    row = {"errors": {e.name: error(e.outputs(), expected) for e in engines}, "first_s": {e.name: e.ready for e in engines}}
    order = list(engines)
    for _ in range(args.rounds):
        for engine in order:
            engine.batch(args.seconds)
        order.reverse()
    row["ms"] = {e.name: e.ms() for e in engines}
    row["batches_ms"] = {e.name: e.batches for e in engines}
    for e in engines:
        e.end()
    row["reference"], row["reference_share"] = reference_steps(model, args) if args.shares else ({}, math.nan)
    return row


def text_of(name, r):
    ms = r["ms"]
    kinds = ", ".join(f"{k} {v:.0%}" for k, v in sorted(r["reference"].items(), key=lambda x: -x[1])[:4] if v >= 0.01)
    columns = " ".join(f"{ms[e]:9.3f}" if e in ms else f"{'':9}" for e in ENGINES)
    return (f"{name:26} {columns} {ms['smelt'] / ms.get('unfused', math.nan):8.3f} "
            f"{ms['smelt'] / ms.get('onnxruntime', math.nan):7.3f} {r['errors']['smelt']:8.1e} {r['reference_share']:6.1%} "
            f"{r['first_s']['smelt']:7.2f} {r['first_s'].get('onnxruntime', math.nan):6.2f}  {kinds}")


def filled(name, folder):
    """The path of a model with its .inputs.npz beside it."""
    if name.endswith(".onnx"):
        return pathlib.Path(name)
    return packages.fetch(name, folder) if name in packages.MODELS else shared.filled(name, folder)


def parsed(parser, rounds, seconds):
    """The arguments of a driver of Engines, with those that every such driver takes; --folder is made."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of a batch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu-time", action="store_true", help="time the processor's time; with --threads 1")
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--no-shares", dest="shares", action="store_false", help="do not profile")
    parser.add_argument("--build", type=pathlib.Path, default=shared.ROOT / "build")
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "build" / "bench-models")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the table; .json beside it has every batch")
    args = parser.parse_args()
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time needs --threads 1")
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    return args


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--packages", action="store_true")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    args = parsed(parser, rounds=5, seconds=0.5)
    names = list(args.models)
    if args.packages or not (args.graphs or names):
        names += packages.MODELS
    if args.graphs or not (args.packages or args.models):
        names += sorted(p.stem for p in shared.MODELS.glob("*.fp32.onnx"))
    lines = [f"{shared.cpu_name()}, {args.threads} threads, tuning level {args.tuning_level}, commit {shared.commit()}",
             f"{'model':26} {'smelt ms':>9} {'unfused':>9} {'ORT ms':>9} {'/unfused':>8} {'/ORT':>7} {'error':>8} {'ref':>6} "
             f"{'first s':>7} {'ORT s':>6}  steps without a kernel of their own"]
    print("\n".join(lines), flush=True)
    rows, failed = shared.measured_rows(names, lambda name: measure(filled(name, args.folder), args), text_of, lines)
    for what in ENGINES[1:]:
        ratios = [r["ms"]["smelt"] / r["ms"][what] for r in rows.values() if what in r["ms"]]
        if ratios:
            lines.append(f"smelt / {what}: geometric mean {math.exp(np.mean(np.log(ratios))):.3f}, largest {max(ratios):.3f}")
            print(lines[-1])
    shared.write_table(args.out, lines, rows)
    sys.exit(bool(failed) or any(r["errors"]["smelt"] > 0.05 for r in rows.values()))


if __name__ == "__main__":
    main()
