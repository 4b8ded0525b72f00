"""Small models whose answers were once wrong, against ONNX Runtime without its optimisations."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt

RNG = np.random.default_rng(0)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def saved(folder, nodes, inputs, outputs, constants, opset=17):
    of = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.uint8): TensorProto.UINT8}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(k, of[np.dtype(t)], s) for k, t, s in inputs],
                              [helper.make_tensor_value_info(k, of[np.dtype(t)], None) for k, t in outputs],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def check(path, feeds, tolerance, **options):
    peer_options = ort.SessionOptions()
    peer_options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(str(path), peer_options).run(None, feeds)
    for optimize in (True, False):
        got = smelt.Session(path, optimize=optimize, **options).run(None, feeds)
        for g, w in zip(got, want, strict=True):
            assert (g.shape, g.dtype) == (w.shape, w.dtype)
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
@pytest.mark.parametrize("dilations", [[2, 1], [1, 2], [3, 1]])
def test_windows_dilated_along_one_axis(tmp_path, channels, dilations):
    node = helper.make_node("Conv", ["x", "w"], ["y"], dilations=dilations, pads=[1, 1, 1, 1])
    path = saved(tmp_path, [node], [("x", np.float32, [1, channels, 11, 16])], [("y", np.float32)], {"w": floats(8, channels, 3, 3)})
    check(path, {"x": floats(1, channels, 11, 16)}, 1e-4)


def test_padding_worked_out_by_a_fused_convolution_of_symbolic_extents(tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]), helper.make_node("Relu", ["c"], ["y"])]
    path = saved(tmp_path, nodes, [("x", np.float32, ["N", 3, "H", "W"])], [("y", np.float32)], {"w": floats(4, 3, 3, 3)})
    for extent in (7, 8):
        check(path, {"x": floats(1, 3, extent, extent)}, 1e-4)


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_one_channel_joined_with_many(tmp_path, order):
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"]), helper.make_node("Conv", ["x", "w2"], ["b"]),
             helper.make_node("Concat", order, ["j"], axis=1), helper.make_node("Relu", ["j"], ["y"])]
    path = saved(tmp_path, nodes, [("x", np.float32, [1, 6, 5, 7])], [("y", np.float32)],
                 {"w1": floats(1, 6, 1, 1), "w2": floats(19, 6, 1, 1)})
    check(path, {"x": floats(1, 6, 5, 7)}, 1e-4)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"])
def test_halves_reduced_are_halves(tmp_path, op):
    axes = {"axes": np.array([1], np.int64)} if op == "ReduceSum" else {}
    node = helper.make_node(op, ["x", *axes], ["s"], **({} if axes else {"axes": [1]}))
    nodes = [helper.make_node("Mul", ["x0", "x0"], ["x"]), node, helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)]
    path = saved(tmp_path, nodes, [("x0", np.float16, [6, 700])], [("s", np.float16), ("y", np.float32)], axes)
    check(path, {"x0": floats(6, 700, dtype=np.float16)}, 2e-3)


def test_a_slice_backwards_from_before_the_beginning(tmp_path):
    constants = {"b": np.array([-7]), "e": np.array([np.iinfo(np.int64).min]), "a": np.array([0]), "s": np.array([-1])}
    path = saved(tmp_path, [helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])], [("x", np.float32, [4])],
                 [("y", np.float32)], constants)
    check(path, {"x": floats(4)}, 0)


def test_zero_points_of_channels_in_the_reference(tmp_path):
    constants = {"xs": np.float32(0.1), "xz": np.uint8(120), "w": RNG.integers(0, 255, (4, 1, 4, 1), dtype=np.uint8),
                 "ws": np.full(4, 0.02, np.float32), "wz": np.array([100, 110, 120, 130], np.uint8), "ys": np.float32(0.1),
                 "yz": np.uint8(128)}
    path = saved(tmp_path, [helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])],
                 [("x", np.uint8, [1, 1, 9, 4])], [("y", np.uint8)], {k: np.asarray(v) for k, v in constants.items()})
    feeds = {"x": RNG.integers(0, 255, (1, 1, 9, 4), dtype=np.uint8)}
    exact = smelt.Session(path).run(None, feeds)[0]
    by_definition = smelt.Session(path, optimize=False, tactics="-all,+reference").run(None, feeds)[0]
    np.testing.assert_array_equal(exact, by_definition)


def test_an_error_in_a_run_names_its_node(tmp_path):
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="pick")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
                                            helper.make_tensor_value_info("i", TensorProto.INT64, [1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(smelt.Error, match="'pick' .Gather.: index 3 is outside"):
        smelt.Session(path).run(None, {"x": floats(3), "i": np.array([3])})


def test_what_another_filter_left_out_is_measured_and_kept(tmp_path, command):
    path = saved(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [("x", np.float32, [1, 32, 28, 28])],
                 [("y", np.float32)], {"w": floats(32, 32, 3, 3)})

    def plan(*options):
        text = command("optimize", path, "-o", tmp_path / "p.onnx", "--cache-dir", tmp_path / "cache", "--json", *options).stdout
        return json.loads(text)["plan"][0]

    assert plan("--tactics=-onednn")["measured"] == 1
    assert plan()["measured"] == 1
    assert plan()["measured"] == 0
    assert plan("--tactics=-onednn")["measured"] == 0
