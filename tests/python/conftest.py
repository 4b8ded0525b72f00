"""Shared by the Python tests: the build under test, filled models, small models made by hand."""
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

# A shell's background job ignores interrupts, and so would the commands that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="the build folder whose command is tested")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Every test run starts with an empty tuning cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["SMELT_CACHE_DIR"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def command(request):
    path = pathlib.Path(request.config.getoption("--build")) / "smelt"
    assert path.exists(), f"{path}: build first (make build-test)"

    def run(*args, code=0, cwd=None, timeout=300, **kwargs):
        result = subprocess.run([str(path), *map(str, args)], capture_output=True, text=True, cwd=cwd, timeout=timeout, **kwargs)
        said = f"exit {result.returncode}, expected {code}\n{result.stdout}\n{result.stderr}"
        assert code is None or result.returncode == code, said
        return result

    run.path = path
    return run


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


def model_of(nodes, inputs, outputs, initializers=(), opset=17, **kwargs):
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                              [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **kwargs)


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
