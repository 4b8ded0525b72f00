"""Models and feeds that were once answered by a crash, memory of others or a hang (test_hostile_models.py, tests/repro/README.md).

GROUPS gives, by name, models and what they are fed; check() runs some of them one after the other in a process of its own.

usage: hostile.py FOLDER   writes all of them in the form of ONNX's own test cases, for tests/gpu/hostile_test.cpp and operator_fuzz
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
# Of the processor, for a build and a run; code with sanitizers takes some ten times as long (scripts/sanitized_tests.sh).
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
LIMIT_S = 20.0 if SANITIZED else 2.0


def array(name, values):
    return numpy_helper.from_array(np.asarray(values), name)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def made(op, feeds, weights=(), outputs=1, opset=17, **attributes):
    """One node; every extent of what it is fed is a symbol, which only the run knows. A feed of None is left out."""
    given = {n: np.asarray(a) for n, a in feeds.items() if a is not None}
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), [f"{n}_{i}" for i in range(a.ndim)])
              for n, a in given.items()]
    names = [n if feeds[n] is not None else "" for n in feeds] + [w.name for w in weights]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, name="odd", **attributes)], "g", inputs,
                              [helper.make_tensor_value_info(r, INT64 if op == "TopK" and r == "y1" else FLOAT, None) for r in results],
                              list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return model, given


def slices():
    least = np.array([-(2**63)], np.int64)
    for shape in ((0,), (0, 4), (0, 4096), (0, 1 << 20)):
        weights = [array("s", np.array([-1])), array("e", least), array("a", np.array([0])), array("t", np.array([-1]))]
        yield f"slice backwards of {shape}", made("Slice", {"x": np.zeros(shape, np.float32)}, weights)


def attentions():
    same = {"q": (1, 2, 4, 8), "k": (1, 2, 4, 8), "v": (1, 2, 4, 8)}
    odd = {"past of another batch": {"q": (4, 2, 4, 8), "k": (4, 2, 4, 8), "v": (4, 2, 4, 8), "pk": (1, 2, 3, 8), "pv": (1, 2, 3, 8)},
           "past of fewer heads": same | {"pk": (1, 1, 3, 8), "pv": (1, 1, 3, 8)},
           "past values longer than keys": same | {"pk": (1, 2, 3, 8), "pv": (1, 2, 300, 8)},
           "past of another width": same | {"pk": (1, 2, 3, 4), "pv": (1, 2, 3, 4)},
           "values of fewer heads": same | {"v": (1, 1, 4, 8)},
           "fewer values than keys": same | {"v": (1, 2, 2, 8)},
           "keys of another batch": same | {"k": (2, 2, 4, 8)}}
    for opset in (23, 24):
        for what, shapes in odd.items():
            feeds = {n: numbers(*shapes[n]) if n in shapes else None for n in ("q", "k", "v", "mask", "pk", "pv")}
            if "pk" not in shapes:
                feeds = {n: feeds[n] for n in ("q", "k", "v")}
            yield f"attention {opset}, {what}", made("Attention", feeds, outputs=3 if "pk" in shapes else 1, opset=opset)
    many = {n: numbers(4, 2, 4, 8) for n in ("q", "k", "v")} | {"mask": None, "pk": None, "pv": None}
    for what, lengths in (("too few lengths", [4]), ("lengths beyond the keys", [400000, -5, 1, 1])):
        yield f"attention 24, {what}", made("Attention", many | {"lengths": np.array(lengths)}, opset=24)


def images():
    region, first = np.array([[0, 0, 3, 3]], np.float32), np.zeros(1, np.int64)
    for shape, ratio in (((1, 1, 4, 4), 2**31 - 1), ((1, 1, 4, 4), 65536), ((1, 1, 0, 4), 2), ((1, 1, 4, 0), 2), ((1, 1, 0, 0), 0)):
        feeds = {"x": np.ones(shape, np.float32), "r": region, "b": first}
        yield f"RoiAlign of {shape}, {ratio} samples", made("RoiAlign", feeds, sampling_ratio=ratio, output_height=2, output_width=2)
    for what, r, b in (("a huge region", [[0, 0, 1e9, 1e9]], [0]), ("no such image", [[0, 0, 1, 1]], [7]),
                       ("NaN", [[0, 0, np.nan, np.inf]], [0])):
        yield f"RoiAlign, {what}", made(
            "RoiAlign", {"x": np.ones((1, 1, 4, 4), np.float32), "r": np.array(r, np.float32), "b": np.array(b)})
    wild = np.array([1e30, -1e30, np.nan, np.inf, -np.inf, 2**31, -(2**31), 1e18], np.float32).reshape(1, 2, 2, 2)
    for padding in ("zeros", "border", "reflection"):
        for mode in ("linear", "nearest", "cubic"):
            for shape in ((1, 1, 0, 4), (1, 1, 4, 0), (1, 1, 4, 4)):
                yield f"GridSample of {shape}, {padding}, {mode}", made(
                    "GridSample", {"x": np.ones(shape, np.float32), "g": np.zeros_like(wild) if 0 in shape else wild}, opset=20,
                    mode=mode, padding_mode=padding)


def windows():
    x, w = numbers(1, 1, 8, 8), [array("w", numbers(1, 1, 3, 3))]
    for p in (2**30, 2**62):
        for pads in ([p] * 4, [p, 0, 0, 0]):
            yield f"Conv padded by {pads}", made("Conv", {"x": x}, w, pads=pads)
            yield f"Conv padded by {pads}, strided", made("Conv", {"x": x}, w, pads=pads, strides=[2**28] * 2)
            for op in ("MaxPool", "AveragePool", "LpPool"):
                yield f"{op} padded by {pads}", made(op, {"x": x}, kernel_shape=[3, 3], pads=pads, strides=[2**28] * 2)
            yield f"Pad by {pads}", made("Pad", {"x": x, "p": np.array([0, 0, pads[0], 0, 0, 0, 0, pads[3]])})
        yield f"ConvTranspose strided by {p}", made("ConvTranspose", {"x": x}, w, strides=[p, p])
        yield f"Conv dilated by {p}", made("Conv", {"x": x}, w, dilations=[p, p], pads=[1] * 4)
    for op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        more = {} if op.startswith("Conv") else {"kernel_shape": [3, 3]}
        yield f"{op} with an unknown auto_pad", made(op, {"x": x}, [] if more else w, auto_pad="FROB", **more)


def indices():
    x = numbers(4, 4)
    yield "Gather far outside", made("Gather", {"x": x, "i": np.array([2**40, -(2**40)])})
    yield "GatherElements far outside", made("GatherElements", {"x": x, "i": np.full((2, 4), 2**62)})
    yield "GatherND far outside", made("GatherND", {"x": x, "i": np.array([[2**50, 1]])})
    yield "ScatterElements far outside", made("ScatterElements", {"x": x, "i": np.full((2, 4), -(2**62)), "u": numbers(2, 4)})
    yield "ScatterND far outside", made("ScatterND", {"x": x, "i": np.array([[2**50]]), "u": numbers(1, 4)})
    few = np.zeros((6, 4), np.int64)
    yield "GatherElements at more places than there are", made("GatherElements", {"x": x, "i": few}, axis=1)
    yield "ScatterElements at more places than there are", made("ScatterElements", {"x": x, "i": few, "u": numbers(6, 4)}, axis=1)
    pooled = {"x": numbers(1, 1, 2, 2), "i": np.zeros((1, 1, 1, 2), np.int64)}
    yield "MaxUnpool of fewer indices than elements", made("MaxUnpool", pooled, kernel_shape=[2, 2], strides=[2, 2])
    none = np.zeros(0, np.int64)
    yield "Trilu from no diagonal", made("Trilu", {"x": x, "k": none})
    yield "CumSum along no axis", made("CumSum", {"x": x, "a": none})
    yield "ReverseSequence of more than there is", made("ReverseSequence", {"x": x, "i": np.array([2**40, -1, 5, 1])})
    yield "TopK of fewer than none", made("TopK", {"x": numbers(4), "k": np.array([-5])}, outputs=2)
    yield "TopK of more than there is", made("TopK", {"x": numbers(4), "k": np.array([2**40])}, outputs=2)


def growths():
    x = numbers(1, 1, 8, 8)
    for scales in ([1, 1, 1e18, 1e18], [1, 1, np.nan, 1], [1, 1, -1, 1]):
        yield f"Resize by {scales}", made("Resize", {"x": x, "roi": None, "s": np.array(scales, np.float32)})
    for a, b, c in ((0, np.inf, 1), (0, 5, 0), (0, 1e30, 1e-30), (np.nan, 1, 1)):
        yield f"Range {a} {b} {c}", made("Range", {"a": np.float32(a), "b": np.float32(b), "c": np.float32(c)})
    yield "OneHot of 2^45", made("OneHot", {"i": np.array([1]), "d": np.array([2**45]), "v": numbers(2)})
    yield "Tile by 2^80", made("Tile", {"x": numbers(2, 2), "r": np.array([2**40, 2**40])})
    yield "Expand to 2^45", made("Expand", {"x": numbers(1), "s": np.array([2**45])})
    yield "MatMul to 4 TB", made("MatMul", {"x": np.ones((2**20, 1), np.float32), "z": np.ones((1, 2**20), np.float32)})
    for low, high in ((np.inf, 1), (0, np.inf), (1e30, 3e38), (-700, 1), (np.nan, 1)):
        feeds = {"n": np.int64(3), "d": np.int64(8), "r": np.int64(8000), "l": np.float32(low), "h": np.float32(high)}
        yield f"MelWeightMatrix from {low} to {high}", made("MelWeightMatrix", feeds)


def functions():
    """Calls that grow with each level, or go deeper than a stack is."""
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for levels, calls in ((40, 2), (10, 10), (100_000, 1)):
        bodies = []
        for level in range(levels):
            op, domain = ("Sin", "") if level + 1 == levels else (f"F{level + 1}", "own")
            nodes = [helper.make_node(op, [f"t{i}"], [f"t{i + 1}"], domain=domain) for i in range(calls)]
            bodies.append(helper.make_function("own", f"F{level}", ["t0"], [f"t{calls}"], nodes, domains))
        x, y = (helper.make_tensor_value_info(n, FLOAT, [2]) for n in "xy")
        graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], name="odd", domain="own")], "g", [x], [y])
        yield f"{levels} functions that call the next one {calls} times", (
            helper.make_model(graph, opset_imports=domains, ir_version=9, functions=bodies), {"x": numbers(2)})


GROUPS = {"slices": slices, "attentions": attentions, "images": images, "windows": windows, "indices": indices, "growths": growths,
          "functions": functions}


def run_all(paths, optimize):
    """In the child: a line before each case, and one with what came of it."""
    import smelt
    for path in paths:
        print(json.dumps({"begins": path}), flush=True)
        feeds = dict(np.load(path + ".npz"))
        begin = time.process_time()
        try:
            session = smelt.Session(path, tuning_level=0, use_cache=False, optimize=optimize, threads=2)
            outputs = session.run(None, feeds)
            said = "ran: " + ", ".join(str(np.asarray(o).shape) for o in outputs)
        except smelt.Error as e:
            said = f"{type(e).__name__}: {e}"
        print(json.dumps({"said": said, "seconds": time.process_time() - begin}), flush=True)


def check(paths, optimize):
    """What came of each: {path: (text, seconds)}. Fails where the process ends before all is done."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import hostile; hostile.run_all(sys.argv[3:], sys.argv[2] == '1')"
    done = subprocess.run([sys.executable, "-c", script, str(pathlib.Path(__file__).parent), str(int(optimize)), *map(str, paths)],
                          capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1] if lines else ''} ended the process: {done.returncode} {done.stderr[-500:]}"
    return {b["begins"]: (e["said"], e["seconds"]) for b, e in zip(lines[::2], lines[1::2])}


def write_cases(folder):
    for group in GROUPS.values():
        for name, (model, feeds) in group():
            case = folder / re.sub("[^a-z0-9.-]+", "_", name.lower())
            data = case / "test_data_set_0"
            data.mkdir(parents=True, exist_ok=True)
            (case / "model.onnx").write_bytes(model.SerializeToString())
            for i, (feed, values) in enumerate(feeds.items()):
                (data / f"input_{i}.pb").write_bytes(array(feed, values).SerializeToString())


if __name__ == "__main__":
    write_cases(pathlib.Path(sys.argv[1]))
