"""Models as users bring them, on a GPU: whether each runs, how far it is from ONNX Runtime on the processor, and its time.

usage: python bench/gpu_packages.py strip OUT MODEL.onnx...
       python bench/gpu_packages.py run SMELT FOLDER [--jobs N] [--tuning-level L] [--models NAME...] [--out FILE]

strip writes each model to OUT with its large weights of floats taken out: what is left travels to a machine with a GPU. The
inputs are those of packages.py, or MODEL.inputs.npz where it does not know the name. run makes up such weights again (normal, of
the mean and the deviation that they had), builds and runs each model of FOLDER on GPU 0 and compares every output with ONNX
Runtime's CPU provider without optimisations: the largest difference over the largest value; outputs of integers count the share
that differs. us, unfused: smelt bench, the medians of the optimised model and of the model as it stands; with --jobs above 1
other builds run beside, which adds to both. ONNX Runtime's CUDA provider is timed beside (bench/ort_gpu.py) where it is there.
Exit status 1 where a model does not run or a result of floats is off by 3%.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import packages
from onnx import numpy_helper

FLOATS = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.FLOAT16: np.float16}
LEAST = 16384     # bytes of a weight that is taken out
TOLERANCE = 0.03     # of quantised ones; others are far below


def all_graphs(graph):
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in [a.g, *a.graphs]:
                if inner.node:
                    yield from all_graphs(inner)


def weights(model):
    """Every tensor of the model that is an initializer or a Constant's value."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        yield from (a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value")


def strip(path, out):
    model = onnx.load(path)
    for i, t in enumerate(weights(model)):
        if t.data_type not in FLOATS or np.prod(t.dims, dtype=np.int64) * 4 < LEAST:
            continue
        x = numpy_helper.to_array(t).astype(np.float64)
        if not np.isfinite(x).all():
            continue
        for field in ("raw_data", "float_data", "int32_data"):
            t.ClearField(field)
        t.doc_string = f"stripped {i} {x.mean()} {x.std()}"
    onnx.save(model, out / path.name)
    if path.stem not in packages.MODELS:
        shutil.copy(path.with_suffix(".inputs.npz"), out)


def fill(path, out):
    model = onnx.load(path)
    for t in weights(model):
        if not t.doc_string.startswith("stripped "):
            continue
        _, i, mean, deviation = t.doc_string.split()
        seed = int.from_bytes(hashlib.sha256(f"{path.name} {i}".encode()).digest()[:8], "little")
        x = np.random.default_rng(seed).standard_normal(tuple(t.dims), dtype=np.float32)
        t.raw_data = (x * np.float32(deviation) + np.float32(mean)).astype(FLOATS[t.data_type]).tobytes()
        t.doc_string = ""
    onnx.save(model, out / path.name)
    return out / path.name


def reference(path, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def distance(got, want):
    """The largest difference over the largest value of floats; the share of integers that differ."""
    if got.shape != want.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float(np.mean(got != want))
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (np.isnan(got) & np.isnan(want)) | (got == want)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=1e-30)
    return float(np.max(np.where(same, 0, np.abs(got - want)), initial=0) / largest)


def run_smelt(command, *options):
    done = subprocess.run([command, *map(str, options)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(f"smelt {options[0]} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1][:300]}")
    return done.stdout


def row(command, path, level, cache):
    """The model's line of the table, as a dictionary."""
    found = {"model": path.stem}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            model, inputs = fill(path, folder), folder / (path.stem + ".inputs.npz")
            if path.stem in packages.MODELS:
                np.savez(inputs, **packages.MODELS[path.stem].feeds())
            else:
                shutil.copy(path.with_suffix(".inputs.npz"), inputs)
            feeds = dict(np.load(inputs))
            want = reference(model, feeds)
            device = ["--device", "gpu", "--tuning-level", level, "--cache-dir", cache, "--inputs", inputs]
            try:
                run_smelt(command, "run", model, *device, "--outputs", folder / "out.npz")
            except RuntimeError as error:
                found["refused"] = str(error)
                device.append("--allow-fallback")
                run_smelt(command, "run", model, *device, "--outputs", folder / "out.npz")
            with np.load(folder / "out.npz") as got:
                floats = [distance(got[n], w) for n, w in want.items() if w.dtype.kind == "f"]
                others = [distance(got[n], w) for n, w in want.items() if w.dtype.kind != "f"]
            found |= {"error": max(floats, default=0), "integers": max(others, default=0)}
            bench = json.loads(run_smelt(command, "bench", model, *device, "--duration", 0.5, "--json"))["bench"]
            found["us"], found["unfused_us"] = (1000 * bench[side]["ms"]["median"] for side in ("after", "before"))
            if "CUDAExecutionProvider" in ort.get_available_providers():
                here = pathlib.Path(__file__).resolve().parent
                done = subprocess.run([sys.executable, str(here / "ort_gpu.py"), str(model)], capture_output=True, text=True)
                figures = [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]
                found["ort_us"] = min((f["us"] for f in figures if "us" in f), default=None)
        except Exception as error:  # what fails is a row of the table
            found["failed"] = f"{type(error).__name__}: {error}"[:300]
    return found


def line(r):
    if "failed" in r:
        return f"{r['model']:34} failed: {r['failed']}"
    ort_us = f"{r['ort_us']:10.1f}" if r.get("ort_us") else " " * 10
    said = f"  with --allow-fallback: {r['refused']}" if "refused" in r else ""
    return f"{r['model']:34} {r['error']:9.1e} {r['integers']:8.4f} {r['us']:10.1f} {r['unfused_us']:10.1f} {ort_us}{said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    stripping = modes.add_parser("strip")
    stripping.add_argument("out", type=pathlib.Path)
    stripping.add_argument("models", nargs="+", type=pathlib.Path)
    running = modes.add_parser("run")
    running.add_argument("smelt", type=os.path.abspath)
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--tuning-level", type=int, default=1)
    running.add_argument("--models", nargs="+")
    running.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    if a.mode == "strip":
        a.out.mkdir(parents=True, exist_ok=True)
        for path in a.models:
            strip(path, a.out)
        return 0
    models = [p for p in sorted(a.folder.glob("*.onnx")) if not a.models or p.stem in a.models]
    head = f"{'model':34} {'error':>9} {'integers':>8} {'us':>10} {'unfused':>10} {'ORT CUDA':>10}"
    print(head, flush=True)
    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        rows = []
        waiting = [pool.submit(row, a.smelt, p, a.tuning_level, cache) for p in models]
        for w in concurrent.futures.as_completed(waiting):
            rows.append(w.result())
            print(line(rows[-1]), flush=True)
    if a.out:
        a.out.write_text("\n".join([head, *map(line, sorted(rows, key=lambda r: r["model"]))]) + "\n")
    return 1 if any("failed" in r or r["error"] > TOLERANCE for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
