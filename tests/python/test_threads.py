"""Sessions and the threads that they share: what other libraries and processes do beside them."""
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper

ROWS, INNER, COLUMNS = 300, 200, 250


@pytest.fixture
def model(tmp_path):
    """y = softmax(x · w): a product by oneDNN or smelt, and rows."""
    w = np.random.default_rng(1).standard_normal((INNER, COLUMNS), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, INNER])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, COLUMNS])], [numpy_helper.from_array(w, "w")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, w


def checked_run(session, w):
    x = np.random.default_rng(2).standard_normal((ROWS, INNER), np.float32)
    p = x.astype(np.float64) @ w
    e = np.exp(p - p.max(axis=1, keepdims=True))
    np.testing.assert_allclose(np.asarray(session.run(None, {"x": x})[0]), e / e.sum(axis=1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(model, threads, spin):
    path, w = model
    session = smelt.Session(path, threads=threads, spin=spin, tuning_level=0)
    for _ in range(20):
        checked_run(session, w)


def test_onnxruntimes_options_say_whether_threads_spin(model, monkeypatch):
    ort = pytest.importorskip("onnxruntime")
    seen = []
    make = smelt.session.make_options
    monkeypatch.setattr(smelt.session, "make_options", lambda o: seen.append(dict(o)) or make(o))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    smelt.Session(model[0], options, tuning_level=0)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    smelt.Session(model[0], options, tuning_level=0)
    assert [o.get("spin") for o in seen] == [None, False]
    assert [o["threads"] for o in seen] == [2, 2]


def _run_in_child(session, w):
    checked_run(session, w)


def test_a_forked_process_runs_a_session_of_its_parent(model):
    path, w = model
    session = smelt.Session(path, threads=3, tuning_level=0)
    checked_run(session, w)
    child = multiprocessing.get_context("fork").Process(target=_run_in_child, args=(session, w))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_onednn_uses_the_pool_beside_another_openmp(model):
    """PyTorch loads an OpenMP run time for the whole process, before or after smelt."""
    pytest.importorskip("torch")
    path, _ = model
    for order in ("torch, smelt", "smelt, torch"):
        done = subprocess.run([sys.executable, "-c", f"""
import {order}, numpy as np
session = smelt.Session({str(path)!r}, threads=2, tuning_level=0)
x = np.ones(({ROWS}, {INNER}), np.float32)
a = np.asarray(session.run(None, {{"x": x}})[0])
torch.ones(500, 500) @ torch.ones(500, 500)
b = np.asarray(session.run(None, {{"x": x}})[0])
assert np.array_equal(a, b)
"""], env={**os.environ, "SMELT_LOG": "info"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "could not be bound" not in done.stderr
