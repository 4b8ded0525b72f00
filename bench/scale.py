"""How the time to plan, explain and first run a model grows with its nodes, beside ONNX Runtime's.

usage: .venv/bin/python bench/scale.py [--build FOLDER] [--cases NAME...] [--nodes N...] [--limit SECONDS] [--tuning-level L]
                     [--no-onnxruntime] [--processor]

Each case is a made-up model of about N nodes of one form that grows: a chain, a value with N readers, an If whose branches read N
outer values, and so on. A row gives, in seconds, smelt's Session, its explain and its first run, and ONNX Runtime's
InferenceSession and first run, each model in a process of its own. A process that takes longer than the limit is ended, and its
row says so. `growth` is how many times the row above's total that is. --processor counts the processor's seconds, of all threads,
in place of the clock's: for a machine that has other work.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent

WORKER = """
import json, sys, time
import numpy as np
engine, path, level, cache, clock = sys.argv[1:]
clock = time.process_time if clock == "processor" else time.perf_counter
feeds = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)}
if engine == "smelt":
    import smelt
    open_model = lambda: smelt.Session(path, tuning_level=int(level), cache_dir=cache, use_cache=False)
else:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    open_model = lambda: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
def timed(name, work):
    begin = clock()
    result = work()
    print(json.dumps([name, clock() - begin]), flush=True)
    return result
session = timed("plan", open_model)
timed("run", lambda: session.run(None, feeds))
if engine == "smelt":
    timed("explain", lambda: smelt.explain(path))
"""


def value(name, shape=(8, 8), element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def weight(name, seed):
    matrix = np.eye(8, dtype=np.float32) + np.random.default_rng(seed).uniform(-0.01, 0.01, (8, 8)).astype(np.float32)
    return numpy_helper.from_array(matrix, name)


class Made:
    """Nodes, weights and outputs as they come."""

    def __init__(self):
        self.nodes, self.weights, self.outputs = [], [], []

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output


def chain(m, n):
    """Pointwise nodes of one kind, one after the other."""
    at = "x"
    for i in range(n):
        at = m.add("Sin", [at], f"t{i}")
    m.outputs = [value(at)]


def mixed(m, n):
    """A chain in which pointwise nodes, transposes, reshapes and reductions take turns."""
    m.weights = [numpy_helper.from_array(np.array([64], np.int64), "flat"),
                 numpy_helper.from_array(np.array([8, 8], np.int64), "back"), numpy_helper.from_array(np.float32(0.5), "half")]
    at = "x"
    for i in range(n // 6):
        a = m.add("Mul", [at, "half"], f"a{i}")
        b = m.add("Transpose", [a], f"b{i}", perm=[1, 0])
        c = m.add("Softmax", [b], f"c{i}", axis=1)
        d = m.add("Reshape", [c, "flat"], f"d{i}")
        e = m.add("Reshape", [d, "back"], f"e{i}")
        at = m.add("Add", [e, a], f"f{i}")
    m.outputs = [value(at)]


def matmuls(m, n):
    """A chain of products, each with a weight of its own."""
    at = "x"
    for i in range(n):
        m.weights.append(weight(f"w{i}", i))
        at = m.add("MatMul", [at, f"w{i}"], f"t{i}")
    m.outputs = [value(at)]


def initializers(m, n):
    """A chain of additions, each of a weight of its own."""
    at = "x"
    for i in range(n):
        m.weights.append(weight(f"w{i}", i))
        at = m.add("Add", [at, f"w{i}"], f"t{i}")
    m.outputs = [value(at)]


def wide(m, n):
    """A tree of additions over n / 2 different functions of the input."""
    row = []
    for i in range(n // 2):
        m.weights.append(numpy_helper.from_array(np.float32(i), f"w{i}"))
        row.append(m.add("Mul", ["x", f"w{i}"], f"m{i}"))
    while len(row) > 1:
        row = [m.add("Add", row[i:i + 2], f"a{len(m.nodes)}") if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    m.outputs = [value(row[0])]


def readers(m, n):
    """One computed value with n readers, their results joined by one Concat."""
    m.add("Sin", ["x"], "s")
    for i in range(n):
        m.weights.append(numpy_helper.from_array(np.float32(i), f"w{i}"))
    parts = [m.add("Mul", ["s", f"w{i}"], f"t{i}") for i in range(n)]
    m.add("Concat", parts, "y", axis=0)
    m.outputs = [value("y", (8 * n, 8))]


def identities(m, n):
    """As many Identity nodes that read one value, and one Concat of them."""
    m.add("Sin", ["x"], "s")
    m.add("Concat", [m.add("Identity", ["s"], f"t{i}") for i in range(n)], "y", axis=0)
    m.outputs = [value("y", (8 * n, 8))]


def outputs(m, n):
    """Each node's result is an output of the graph."""
    for i in range(n):
        m.weights.append(numpy_helper.from_array(np.float32(i), f"w{i}"))
        m.outputs.append(value(m.add("Mul", ["x", f"w{i}"], f"t{i}")))


def branch(name, body, output):
    return helper.make_graph(body.nodes, name, [], [output], initializer=body.weights)


def captures(m, n):
    """One If, whose branches have n / 4 nodes each that read outer values, one each."""
    for i in range(n // 2):
        m.weights.append(numpy_helper.from_array(np.float32(i), f"w{i}"))
        m.add("Mul", ["x", f"w{i}"], f"outer{i}")
    m.add("ReduceMax", ["x"], "most", keepdims=0)
    m.weights.append(numpy_helper.from_array(np.float32(0), "zero"))
    m.add("Greater", ["most", "zero"], "positive")
    branches = []
    for b, op in enumerate(("Add", "Sub")):
        body, at = Made(), "x"
        for i in range(n // 4):
            at = body.add(op, [at, f"outer{2 * i + b}"], f"{op}{i}")
        branches.append(branch(op, body, value(at)))
    m.nodes.append(helper.make_node("If", ["positive"], ["y"], name="If", then_branch=branches[0], else_branch=branches[1]))
    m.outputs = [value("y")]


def ifs(m, n):
    """A chain of n / 4 Ifs, each with two branches of a node or two, which read the value before."""
    at = "x"
    m.weights.append(numpy_helper.from_array(np.float32(0), "zero"))
    m.add("ReduceMax", ["x"], "most", keepdims=0)
    m.add("Greater", ["most", "zero"], "positive")
    for i in range(n // 4):
        then, other = Made(), Made()
        then.add("Sin", [at], f"then{i}")
        other.add("Neg", [other.add("Cos", [at], f"cos{i}")], f"else{i}")
        m.nodes.append(helper.make_node("If", ["positive"], [f"y{i}"], name=f"If_{i}",
                                        then_branch=branch("then", then, value(f"then{i}")),
                                        else_branch=branch("else", other, value(f"else{i}"))))
        at = f"y{i}"
    m.outputs = [value(at)]


def shapes(m, n):
    """Arithmetic on shapes: Shape, Gather, Unsqueeze and Concat before each Reshape."""
    m.weights = [numpy_helper.from_array(np.array(i, np.int64), f"i{i}") for i in (0, 1)]
    m.weights.append(numpy_helper.from_array(np.array([0], np.int64), "axes"))
    at = "x"
    for i in range(n // 8):
        shape = m.add("Shape", [at], f"s{i}")
        parts = [m.add("Unsqueeze", [m.add("Gather", [shape, f"i{1 - k}"], f"g{i}_{k}"), "axes"], f"u{i}_{k}") for k in (0, 1)]
        at = m.add("Reshape", [m.add("Sin", [at], f"e{i}"), m.add("Concat", parts, f"c{i}", axis=0)], f"r{i}")
    m.outputs = [value(at, (8, 8))]


CASES = {f.__name__: f for f in
         (chain, mixed, matmuls, initializers, wide, readers, identities, outputs, captures, ifs, shapes)}


def write(case, nodes, path):
    """The model of a case with about so many nodes."""
    made = Made()
    CASES[case](made, nodes)
    graph = helper.make_graph(made.nodes, case, [value("x")], made.outputs, initializer=made.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def measure(engine, path, args):
    """Seconds by part, of the parts that ended within the limit, and what ended the process early."""
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(args.build).resolve() / "python"))
    with tempfile.TemporaryDirectory() as cache:
        clock = "processor" if args.processor else "wall"
        process = subprocess.Popen([sys.executable, "-c", WORKER, engine, str(path), str(args.tuning_level), cache, clock],
                                   env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=args.limit)
            said = err.strip().splitlines()
            why = "" if process.returncode == 0 else said[-1][:100] if said else f"exit {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            why = f"more than {args.limit:.0f} s"
    return dict(json.loads(line) for line in (out or "").splitlines() if line.startswith("[")), why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--nodes", nargs="+", type=int, default=[1000, 10000, 100000])
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--tuning-level", type=int, default=0)
    parser.add_argument("--no-onnxruntime", action="store_true")
    parser.add_argument("--processor", action="store_true")
    args = parser.parse_args()
    print(f"{'case':<14}{'nodes':>8}{'plan':>9}{'explain':>9}{'run':>9}{'growth':>8}{'ORT plan':>10}{'ORT run':>9}")
    for case in args.cases:
        before = None
        for nodes in args.nodes:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / f"{case}.onnx"
                write(case, nodes, path)
                ours, why = measure("smelt", path, args)
                theirs, their_why = ({}, "") if args.no_onnxruntime else measure("onnxruntime", path, args)
            total = sum(ours.values())
            cells = [f"{times[part]:.3f}" if part in times else "-" for times, part in
                     ((ours, "plan"), (ours, "explain"), (ours, "run"), (theirs, "plan"), (theirs, "run"))]
            growth = f"{total / before:.1f}" if before and not why else ""
            print(f"{case:<14}{nodes:>8}{cells[0]:>9}{cells[1]:>9}{cells[2]:>9}{growth:>8}{cells[3]:>10}{cells[4]:>9}"
                  f"{'   ' + why if why else ''}{'   ORT: ' + their_why if their_why else ''}", flush=True)
            before = None if why else total


if __name__ == "__main__":
    main()
