"""Latency of whole models on the CPU: smelt against ONNX Runtime, the same threads, in one run.

usage: PYTHONPATH=build/python .venv/bin/python bench/cpu_models.py     (after make test, which installs onnxruntime)
                     [--threads N] [--int8] [--models NAME...] [--tuning-level L] [--seconds S] [--out FOLDER]

A model is a name in examples/models (without .onnx: resnet50.fp32) or a path to a filled .onnx with its .inputs.npz beside it.
Without --models: the eight fp32 graphs; with --int8: QDQ models that ONNX Runtime's quantizer makes of four of them. What is
missing is filled, and quantized, into --folder first.

A round is one batch of each engine, in alternating order: the first run of a batch is dropped, and between batches the process
sleeps, so that no engine is timed while the other one's threads still spin. The figure is the ratio of the medians, with a 95 %
bootstrap interval over rounds. Also printed: each engine's largest error against ONNX Runtime without its optimisations (every
operator on its own, in float32), relative to the largest value: integer kernels that saturate show there.
Writes cpu-models-DATE-TIME.txt and .json (or cpu-int8-…; the time in UTC) into --out.
"""
import argparse
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import time

import numpy as np
import onnxruntime
import shared
import smelt
from int8_models import QUANTIZED, quantize
from shared import CPU_MODELS, cpu_name, interval


def filled(name, folder):
    """The path of a model with weights and inputs; made when it is missing."""
    return pathlib.Path(name) if name.endswith(".onnx") else shared.filled(name, folder)


def quantized(name, folder):
    path = folder / f"{name}.int8.onnx"
    if not path.with_suffix(".inputs.npz").exists():
        source = filled(QUANTIZED[name].source, folder)
        print(f"quantizing {name} into {folder}", flush=True)
        quantize(source, path, QUANTIZED[name])
    return path


def onnxruntime_session(path, threads, optimised=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def batch(run, runs, pause):
    """Seconds of each run but the first."""
    time.sleep(pause)
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def error(found, expected):
    """The largest difference over the largest value, of all outputs."""
    worst = 0.0
    for f, e in zip(found, expected):
        f, e = np.asarray(f, np.float64), np.asarray(e, np.float64)
        if f.shape != e.shape:
            return math.inf
        if e.size:
            worst = max(worst, float(np.abs(f - e).max() / max(np.abs(e).max(), 1e-30)))
    return worst


def measure(path, args):
    feeds = dict(np.load(path.with_suffix(".inputs.npz")))
    expected = onnxruntime_session(path, args.threads, optimised=False).run(None, feeds)
    start = time.perf_counter()
    peer = onnxruntime_session(path, args.threads)
    peer_build = time.perf_counter() - start
    start = time.perf_counter()
    own = smelt.Session(str(path), threads=args.threads, tuning_level=args.tuning_level, tune_new_shapes=True)
    own.run(None, feeds)
    own_build = time.perf_counter() - start
    errors = {"smelt": error(own.run(None, feeds), expected), "onnxruntime": error(peer.run(None, feeds), expected)}
    engines = {"smelt": lambda: own.run(None, feeds), "onnxruntime": lambda: peer.run(None, feeds)}
    single = sum(batch(engines[e], 1, args.pause)[0] for e in engines)
    runs = int(min(10, max(1, 1.0 // single)))
    times = {name: [] for name in engines}
    order = list(engines)
    begin = time.perf_counter()
    while time.perf_counter() - begin < args.seconds or len(times["smelt"]) < 5:
        for name in order:
            times[name].append(batch(engines[name], runs, args.pause))
        order.reverse()
    t = {name: np.asarray(values) * 1e3 for name, values in times.items()}
    low, high = interval(t["smelt"], t["onnxruntime"])
    row = {"model": path.name, "rounds": len(t["smelt"]), "runs": runs, "low": low, "high": high}
    for name, build in (("smelt", own_build), ("onnxruntime", peer_build)):
        row[name] = {"median_ms": float(np.median(t[name])), "p90_ms": float(np.percentile(t[name], 90)),
                     "min_ms": float(t[name].min()), "build_s": build, "error": errors[name]}
    row["ratio"] = row["smelt"]["median_ms"] / row["onnxruntime"]["median_ms"]
    return row


def text_of(r):
    rounds = f"{r['rounds']}x{r['runs']}"
    spread = f"{r['low']:.3f} – {r['high']:.3f}"
    return (f"{r['model']:30} {r['smelt']['median_ms']:9.2f} {r['onnxruntime']['median_ms']:9.2f} {r['ratio']:7.3f}  {spread:15} "
            f"{r['smelt']['error']:8.1e} {r['onnxruntime']['error']:8.1e} {rounds:>7} {r['smelt']['build_s']:8.1f} "
            f"{r['onnxruntime']['build_s']:7.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+",
                        help="names or paths; default: the eight fp32 graphs, with --int8 the four QDQ models")
    parser.add_argument("--int8", action="store_true", help="QDQ models by onnxruntime.quantization instead of fp32 graphs")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of rounds a model")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of sleep before each batch")
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "build" / "bench-models",
                        help="where filled models are kept")
    parser.add_argument("--out", type=pathlib.Path, default=shared.ROOT / "bench" / "results")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)

    head = {"cpu": cpu_name(), "threads": args.threads, "tuning level": args.tuning_level, "onnxruntime": onnxruntime.__version__,
            "onnx": importlib.metadata.version("onnx"), "smelt": smelt.__version__, "commit": shared.commit(),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    lines = ["  ".join(f"{k}: {v}" for k, v in head.items()), "",
             f"{'model':30} {'smelt ms':>9} {'ORT ms':>9} {'ratio':>7}  {'95 % interval':15} {'error':>8} {'ORT':>8} "
             f"{'rounds':>7} {'build s':>8} {'ORT s':>7}"]
    print("\n".join(lines), flush=True)
    rows = []
    for name in args.models or (list(QUANTIZED) if args.int8 else CPU_MODELS):
        rows.append(measure((quantized if args.int8 and not name.endswith(".onnx") else filled)(name, args.folder), args))
        lines.append(text_of(rows[-1]))
        print(lines[-1], flush=True)
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    lines += ["", f"geometric mean of the ratios: {mean:.3f}; largest: {max(r['ratio'] for r in rows):.3f}"]
    print("\n".join(lines[-2:]))
    args.out.mkdir(parents=True, exist_ok=True)
    stem = f"cpu-{'int8' if args.int8 else 'models'}-{head['date'][:16].replace('T', '-').replace(':', '')}"
    (args.out / f"{stem}.txt").write_text("\n".join(lines) + "\n")
    (args.out / f"{stem}.json").write_text(json.dumps({**head, "geometric_mean": mean, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
