#!/usr/bin/env python3
"""Compares the outputs of cases that operator_fuzz kept (--keep FOLDER) with ONNX Runtime's, where it takes them.

usage: compare.py FOLDER [--seconds S]

Prints each case whose outputs differ, and ends with status 1 where there is one. It is no difference where tests/fuzz/operators/known.txt
says of one of the operators that ONNX Runtime does otherwise than ONNX (a line "OPERATOR: why") and ONNX's reference implementation
(reference.py) gives what smelt does. What differs by less than ONNX Runtime's own outputs do, when its inputs move by as much as they round, is
rounding. Cases are left out that hold NaN, infinities or numbers of 1e4 and more, draw random numbers, or quantize by a scale of 0. ONNX
Runtime works in a process of its own, which some odd cases end.
"""
import argparse
import collections
import fnmatch
import multiprocessing
import pathlib
import queue
import sys
import time

import numpy as np
import onnx
import onnxruntime
import reference
from onnx import numpy_helper

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout")
LARGEST = 1e4        # of what is fed: larger numbers overflow in one order of operations and not in another
LARGEST_RESULT = 1e6
PATIENCE_S = 10      # for ONNX Runtime
KNOWN = [line.partition(":")[0] for line in pathlib.Path(__file__).with_name("known.txt").read_text().splitlines()]


def tensors(folder, what, declared=()):
    """What the files hold: tensors, and lists of them where the model declares sequences."""
    found = []
    while (path := folder / "test_data_set_0" / f"{what}_{len(found)}.pb").exists():
        if len(found) < len(declared) and declared[len(found)].type.HasField("sequence_type"):
            found.append(list(onnx.SequenceProto.FromString(path.read_bytes()).tensor_values))
        else:
            found.append(onnx.load_tensor(path))
    return found


def arrays(results):
    """All of them, those of a list in its place."""
    return [a for r in results for a in (r if isinstance(r, list) else [r])]


def moved(feed, chance):
    """The numbers, each two units in its last place up or down at most. Integers do not round."""
    if feed.dtype.kind != "f":
        return feed
    by = 2 * np.finfo(feed.dtype).eps
    with np.errstate(all="ignore"):
        return (feed.astype(np.float64) * (1 + chance.uniform(-by, by, feed.shape))).astype(feed.dtype)


def is_counted(result):
    return isinstance(result, np.ndarray) and result.dtype.kind in "fiub"


def spread(run, feeds, theirs):
    """How far each of ONNX Runtime's results moves with its inputs, times the roundings that add up within an operator."""
    chance, slack = np.random.default_rng(1), [0.0] * len(theirs)
    for _ in range(6):
        for i, (near, result) in enumerate(zip(run({name: moved(f, chance) for name, f in feeds.items()}), theirs)):
            if not is_counted(result):
                continue
            if near.shape != result.shape:
                slack[i] = np.inf
                continue
            with np.errstate(all="ignore"):
                by = 8 * np.abs(near.astype(np.float64) - result.astype(np.float64))
            same = (near == result) | (np.isnan(near) & np.isnan(result)) if result.dtype.kind == "f" else near == result
            slack[i] = np.maximum(slack[i], np.where(same, 0, np.where(np.isfinite(by), by, np.inf)))
    return slack


def difference(ours, theirs, slack=None):
    """What differs, in words; nothing where outputs agree or are not comparable."""
    if len(ours) != len(theirs):
        return f"{len(ours)} tensors, ONNX Runtime's {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if not isinstance(b, np.ndarray):
            continue
        if a.shape != b.shape:
            return f"output {i} has shape {list(a.shape)}, ONNX Runtime's {list(b.shape)}"
        if b.dtype.kind in "OU":
            wrong = np.array([x != y for x, y in zip(a.ravel(), b.ravel())], bool).reshape(b.shape)
        elif is_counted(b):
            wrong = is_wrong(a.astype(np.float64), b.astype(np.float64), b.dtype, slack[i] if slack else 0)
        else:
            continue
        if wrong.any():
            at = tuple(int(k) for k in np.unravel_index(np.argmax(wrong), wrong.shape))
            return f"element {list(at)} of output {i} {list(a.shape)} is {a[at]}, ONNX Runtime's {b[at]}"
    return ""


def is_wrong(a, b, dtype, slack):
    """By element. Where ONNX Runtime's result is a number, ours has to be one near it; where it has none, a NaN or an infinity or what
    is nearly one."""
    # An integer may differ by one, where what was rounded to it lay between two.
    tolerance = 1.01 if dtype.kind != "f" else {2: 5e-2}.get(dtype.itemsize, 2e-3) * np.maximum(1, np.abs(b))
    with np.errstate(all="ignore"):
        far = ~(np.abs(a - b) <= tolerance + slack) & (np.abs(b) < LARGEST_RESULT)
        none = ~np.isfinite(b) & (np.abs(a) < LARGEST_RESULT) & np.isfinite(slack)
    return np.where(np.isfinite(b), far & np.isfinite(tolerance + slack), none)


def is_tame(model, feeds):
    """Whether all numbers are of a size that no order of operations overflows for, and the same each time."""
    if any(n.op_type in RANDOM for n in model.graph.node):
        return False
    try:
        numbers = feeds | {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    except ValueError:   # damaged, as initializers of the corpus are
        return False
    for n in model.graph.node:
        if "Quantize" in n.op_type or "QLinear" in n.op_type or "Integer" in n.op_type:
            for name in n.input[1 if n.op_type.startswith("Quantize") else 0:]:
                if name in numbers and numbers[name].dtype.kind == "f" and (numbers[name] == 0).any():
                    return False
    return all((np.abs(f.astype(np.float64)) < LARGEST).all() for f in numbers.values() if f.dtype.kind == "f")


def compare(folder):
    """"" where outputs agree, what differs, or a word in parentheses that says why there was nothing to compare."""
    model = onnx.load(folder / "model.onnx")
    feeds = {t.name: numpy_helper.to_array(t) for t in tensors(folder, "input")}
    if not is_tame(model, feeds):
        return "(left out)"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {i.name: feeds[i.name] for i in session.get_inputs()}
        theirs = arrays(session.run(None, feeds))
    except Exception:
        return "(refused)"
    ours = [numpy_helper.to_array(t) for t in arrays(tensors(folder, "output", model.graph.output))]
    if not difference(ours, theirs):
        return ""
    try:
        found = difference(ours, theirs, spread(lambda near: arrays(session.run(None, near)), feeds, theirs))
    except Exception:
        return "(refused)"
    return "(known)" if found and is_known(model, feeds, ours) else found


def is_known(model, feeds, ours):
    """Whether ONNX Runtime is known to differ from ONNX in one of the operators, and our outputs are those of ONNX's reference implementation."""
    if not any(fnmatch.fnmatch(n.op_type, op) for n in model.graph.node for op in KNOWN):
        return False
    try:
        said = reference.run(model, feeds)
    except Exception:
        return False
    return not difference(ours, [np.asarray(a) for a in arrays(said)])


def work(todo, done):
    while folder := todo.get():
        done.put(compare(folder))


class Comparer:
    """Compares in a process of its own, which is replaced when a case ends it."""

    def __init__(self):
        self.process = None

    def __call__(self, folder):
        if self.process is None or not self.process.is_alive():
            self.todo, self.done = multiprocessing.Queue(), multiprocessing.Queue()
            self.process = multiprocessing.Process(target=work, args=(self.todo, self.done), daemon=True)
            self.process.start()
        self.todo.put(folder)
        begin = time.monotonic()
        while True:
            try:
                return self.done.get(timeout=0.2)
            except queue.Empty:
                if not self.process.is_alive() or time.monotonic() - begin > PATIENCE_S:
                    self.process.kill()
                    self.process.join()
                    return "(crashed)"


def compare_all(root, seconds=1e9):
    """Counts by what came of the cases below `root`, and a line for each that differs and is not known."""
    counts, lines, end, compared = collections.Counter(), [], time.monotonic() + seconds, Comparer()
    for folder in sorted(root.iterdir()):
        if time.monotonic() > end:
            break
        result = compared(folder)
        what = "agree" if not result else result.strip("()") if result[0] == "(" else "differ"
        if what == "differ":
            model = onnx.load(folder / "model.onnx")
            lines.append(f"{folder}: {'>'.join(n.op_type for n in model.graph.node)[:80]}: {result}")
            print(lines[-1], flush=True)
        counts[what] += 1
    return counts, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    a = parser.parse_args()
    counts, lines = compare_all(a.folder, a.seconds)
    print(", ".join(f"{counts[what]} {what}" for what in ("agree", "differ", "known", "left out", "refused", "crashed")))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
