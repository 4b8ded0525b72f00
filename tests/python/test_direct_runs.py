"""Session.run without Python in between: the same results as by tensors, whatever the arrays are, and nothing kept."""
import gc
import sys

import numpy as np
import pytest
import smelt
from onnx import TensorProto, helper

NUMBERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
SHAPES = ((), (1,), (0, 3), (5,), (2, 3, 4), (1, 2, 1, 3, 1, 2))


def model_of(onnx_type, rank, op="Identity", second=False):
    """y = op(x); with a second output z = Shape(x)."""
    shape = [f"d{i}" for i in range(rank)]
    nodes = [helper.make_node(op, ["x"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", onnx_type, shape)]
    if second:
        nodes.append(helper.make_node("Shape", ["x"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", TensorProto.INT64, [rank]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx_type, shape)], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def session_of(model):
    return smelt.Session(model, tuning_level=0, threads=1)


def by_tensors(session, feed, names=None):
    return [smelt.session.to_numpy(t) for t in session.run_tensors(names, feed)]


def same(a, b):
    assert type(a) is type(b) is np.ndarray
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a, b)


def numbers(kind, shape):
    a = np.random.default_rng(7).integers(0, 100, shape)
    return np.asarray(a % 2 == 1 if kind == "bool" else a).astype(kind)


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_type_and_rank(kind):
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for shape in SHAPES:
        session, x = session_of(model_of(onnx_type, len(shape), second=True)), numbers(kind, shape)
        direct = session._direct.run({"x": x}, None)
        assert direct is not None
        for a, b in zip(direct, by_tensors(session, {"x": x}), strict=True):
            same(a, b)
            assert a.flags.writeable and a.flags.c_contiguous
        for names in ([], ["z"], ["z", "y"], ["y", "y"]):
            for a, b in zip(session.run(names, {"x": x}), by_tensors(session, {"x": x}, names), strict=True):
                same(a, b)


def test_strings():
    session = session_of(model_of(TensorProto.STRING, 2))
    x = np.array([["a", "", "ü"], ["日本", "x" * 300, "\0"]], dtype=object)
    direct = session._direct.run({"x": x}, None)
    assert direct is not None
    same(direct[0], x)
    for odd in (x.astype("U"), np.array([[b"bytes", "s"]], object), np.array([["\udcff", "s"]], object), x.T):
        [a], [b] = session.run(None, {"x": odd}), by_tensors(session, {"x": odd})
        same(a, b)


@pytest.mark.parametrize("odd", [
    lambda x: x[:, ::-1], np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x.view(np.matrix), lambda x: x.tolist(),
    lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)])
def test_what_is_no_plain_array_runs_as_before(odd):
    session = session_of(model_of(TensorProto.FLOAT, 2))
    x = np.random.default_rng(1).standard_normal((4, 6), np.float32)
    value = odd(x)
    [y] = session.run(None, {"x": value})
    np.testing.assert_array_equal(y, np.asarray(value, np.float32))


def test_read_only_arrays_are_read():
    session = session_of(model_of(TensorProto.FLOAT, 1, "Neg"))
    x = np.arange(5, dtype=np.float32)
    x.flags.writeable = False
    assert session._direct.run({"x": x}, None)[0].tolist() == [-v for v in range(5)]


@pytest.mark.parametrize(("feed", "names"), [
    ({}, None), ({"y": np.zeros(3, np.float32)}, None), ({"x": np.zeros(3, np.float64)}, None), ({"x": None}, None),
    ({"x": np.zeros(3, np.float32), "w": np.zeros(3, np.float32)}, None), ({"x": np.zeros((3, 3), np.float32)}, None),
    ({"x": np.zeros(3, np.float32)}, ["no"]), ({"x": np.zeros(3, np.float32)}, [3])])
def test_what_is_wrong_is_said_as_before(feed, names):
    session = session_of(model_of(TensorProto.FLOAT, 1))
    said = []
    for run in (lambda: session.run(names, feed), lambda: by_tensors(session, feed, names)):
        with pytest.raises((smelt.Error, TypeError)) as e:
            run()
        said.append((type(e.value), str(e.value)))
    assert said[0] == said[1]


def test_nothing_is_kept_and_results_stay():
    session = session_of(model_of(TensorProto.FLOAT, 1))
    x = np.arange(1000, dtype=np.float32)
    before = sys.getrefcount(x)
    results = [session.run(None, {"x": x})[0] for _ in range(100)]
    assert sys.getrefcount(x) == before
    x[:] = -1
    del session
    gc.collect()
    for y in results:
        assert y.base is not None
        np.testing.assert_array_equal(y, np.arange(1000, dtype=np.float32))


def test_an_error_within_a_run_lets_go_of_the_inputs():
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]), helper.make_tensor_value_info("i", TensorProto.INT64, ["m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])])
    session = session_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    x, i = np.zeros(3, np.float32), np.array([7])
    before = sys.getrefcount(x)
    with pytest.raises(smelt.Error):
        session.run(None, {"x": x, "i": i})
    assert sys.getrefcount(x) == before
    assert session.run(None, {"x": x, "i": np.array([2])})[0].tolist() == [0]
