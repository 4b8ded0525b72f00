#!/usr/bin/env python3
"""Compares the outputs of cases that operator_fuzz kept (--keep FOLDER) with ONNX Runtime's, where it takes them.

usage: compare.py FOLDER [--seconds S]

Prints each case whose outputs differ, and ends with status 1 where there is one that tests/fuzz/operators/known.txt does not list: a line
"OPERATOR TEXT: why", TEXT being in the node's attributes or inputs, for what ONNX leaves open or ONNX Runtime does otherwise than ONNX
says. What differs by less than ONNX Runtime's own outputs do, when its inputs move by as much as they round, is rounding. Cases are left
out that are fed numbers whose squares overflow, and outputs without elements. ONNX Runtime works in a process of its own,
which some odd cases end.
"""
import argparse
import multiprocessing
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def tensors(folder, what):
    found = []
    while (path := folder / "test_data_set_0" / f"{what}_{len(found)}.pb").exists():
        found.append(onnx.load_tensor(path))
    return found


def moved(feed, chance):
    """The numbers, each two units in its last place up or down at most. Integers do not round."""
    if feed.dtype.kind != "f":
        return feed
    by = 2 * np.finfo(feed.dtype).eps
    with np.errstate(all="ignore"):
        return (feed.astype(np.float64) * (1 + chance.uniform(-by, by, feed.shape))).astype(feed.dtype)


def spread(run, feeds, theirs):
    """How far each of ONNX Runtime's results moves with its inputs, times the roundings that add up within an operator."""
    chance, slack = np.random.default_rng(1), [0.0] * len(theirs)
    for _ in range(6):
        for i, (near, result) in enumerate(zip(run({name: moved(f, chance) for name, f in feeds.items()}), theirs)):
            if isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
                if near.shape != result.shape:
                    slack[i] = np.inf
                    continue
                with np.errstate(all="ignore"):
                    by = 8 * np.abs(near.astype(np.float64) - result.astype(np.float64))
                slack[i] = np.maximum(slack[i], np.where(np.isfinite(by), by, np.inf))
    return slack


def difference(ours, theirs, slack=None):
    """What differs, in words; nothing where outputs agree or are not comparable."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if not isinstance(b, np.ndarray) or b.dtype.kind not in "fiub" or a.size == 0:
            continue
        if a.shape != b.shape:
            return f"output {i} has shape {list(a.shape)}, ONNX Runtime's {list(b.shape)}"
        a, b = a.astype(np.float64), b.astype(np.float64)
        whole = theirs[i].dtype.kind != "f"   # by one, where what was rounded to them lay between two
        tolerance = 1.01 if whole else {2: 5e-2}.get(theirs[i].dtype.itemsize, 2e-3) * np.maximum(1, np.abs(b))
        counts = np.isfinite(a) & np.isfinite(b) & (np.abs(b) < 1e6)
        wrong = counts & (np.abs(a - b) > tolerance + (slack[i] if slack else 0))
        if wrong.any():
            at = tuple(int(k[0]) for k in np.nonzero(wrong))
            return f"element {list(at)} of output {i} {list(a.shape)} is {a[at]}, ONNX Runtime's {b[at]}"
    return ""


def compare(folder):
    model = onnx.load(folder / "model.onnx")
    if any(not n.domain and n.op_type in ("RandomNormal", "RandomUniform", "Dropout") for n in model.graph.node):
        return ""
    inputs, ours = tensors(folder, "input"), tensors(folder, "output")
    feeds = {t.name: numpy_helper.to_array(t) for t in inputs}
    if any(f.dtype.kind == "f" and not (np.abs(f.astype(np.float64)) < 1e4).all() for f in feeds.values()):
        return ""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {i.name: feeds[i.name] for i in session.get_inputs()}
        theirs = session.run(None, feeds)
        results = [numpy_helper.to_array(t) for t in ours]
        if not difference(results, theirs):
            return ""
        return difference(results, theirs, spread(lambda near: session.run(None, near), feeds, theirs))
    except Exception:  # refused: odd as the case is
        return None


def work(todo, done):
    while folder := todo.get():
        done.put((folder, compare(folder)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    a = parser.parse_args()
    known_file = pathlib.Path(__file__).with_name("known.txt")
    known = [line.split(":")[0].partition(" ")[::2] for line in known_file.read_text().splitlines() if line.strip()]
    end = time.monotonic() + a.seconds
    counts = {"agree": 0, "differ": 0, "refused": 0, "crashed": 0, "known": 0}
    process = None
    for folder in sorted(a.folder.iterdir()):
        if time.monotonic() > end:
            break
        if process is None or not process.is_alive():
            todo, done = multiprocessing.Queue(), multiprocessing.Queue()
            process = multiprocessing.Process(target=work, args=(todo, done), daemon=True)
            process.start()
        todo.put(folder)
        result, waited = "", time.monotonic()
        while True:
            try:
                result = done.get(timeout=0.2)[1]
                break
            except Exception:
                if not process.is_alive() or time.monotonic() - waited > 10:
                    process.kill()
                    process.join()
                    result = "crashed"
                    break
        if result == "crashed" or result is None:
            counts["refused" if result is None else "crashed"] += 1
        elif result == "":
            counts["agree"] += 1
        else:
            nodes = onnx.load(folder / "model.onnx").graph.node
            ops = [n.op_type for n in nodes]
            listed = any(n.op_type == op and text in str(n) for n in nodes for op, text in known)
            counts["known" if listed else "differ"] += 1
            if not listed:
                print(f"{folder}: {'>'.join(ops)[:80]}: {result}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return counts["differ"] > 0


if __name__ == "__main__":
    sys.exit(main())
