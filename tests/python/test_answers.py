"""Small models whose answers were once wrong, against ONNX Runtime without its optimisations."""
import json

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
import pytest
import smelt
from conftest import trust_all_timings
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def saved(folder, nodes, inputs, outputs, constants, opset=17):
    of = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.uint8): TensorProto.UINT8,
          np.dtype(np.int8): TensorProto.INT8, np.dtype(np.int16): TensorProto.INT16, np.dtype(np.int64): TensorProto.INT64}
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

    assert plan("--tactics=-onednn")["measured"] > 0
    assert plan()["measured"] > 0
    trust_all_timings(tmp_path / "cache")
    assert plan()["measured"] == 0
    assert plan("--tactics=-onednn")["measured"] == 0


def dequantize(node_inputs, output):
    return helper.make_node("DequantizeLinear", node_inputs, [output])


def quantize(node_inputs, output):
    return helper.make_node("QuantizeLinear", node_inputs, [output])


@pytest.mark.parametrize("tail", [[("Sigmoid", ["d"], "s"), ("Mul", ["d", "s"], "t")], [("Relu", ["d"], "t")],
                                  [("Add", ["d", "e"], "s"), ("Sigmoid", ["s"], "u"), ("Mul", ["s", "u"], "t")]])
def test_activations_of_several_nodes_behind_a_quantized_convolution(tmp_path, tail):
    """The epilogue takes x * sigmoid(x) whole or not at all: dropping one of its nodes at a time once went on for ever."""
    nodes = [quantize(["x", "s1", "z"], "q"), dequantize(["q", "s1", "z"], "xd"), dequantize(["w", "s2", "z2"], "wd"),
             helper.make_node("Conv", ["xd", "wd"], ["c"]), quantize(["c", "s3", "z"], "cq"), dequantize(["cq", "s3", "z"], "d"),
             *([dequantize(["q2", "s3", "z"], "e"), quantize(["r", "s3", "z"], "q2")][::-1] if "e" in tail[0][1] else []),
             *[helper.make_node(op, inputs, [output]) for op, inputs, output in tail], helper.make_node("Neg", ["t"], ["y"])]
    constants = {"s1": np.float32(0.05), "s2": np.float32(0.02), "s3": np.float32(0.1), "z": np.uint8(128), "z2": np.int8(0),
                 "w": RNG.integers(-100, 100, (4, 3, 1, 1), dtype=np.int8)}
    inputs = [("x", np.float32, [1, 3, 5, 5])] + [("r", np.float32, [1, 4, 5, 5])] * ("e" in tail[0][1])
    path = saved(tmp_path, nodes, inputs, [("y", np.float32)], {k: np.asarray(v) for k, v in constants.items()})
    check(path, {k: floats(*shape) for k, _, shape in inputs}, 0.11)   # a step of s3


@pytest.mark.parametrize("last", ["Add", "Mul"])
def test_a_normalised_sum_that_meets_the_sum_again(tmp_path, last):
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("LayerNormalization", ["s", "g"], ["n"]),
             helper.make_node("Sigmoid", ["s"], ["t"]), helper.make_node(last, ["n", "t"], ["y"])]
    path = saved(tmp_path, nodes, [("a", np.float32, [2, 8]), ("b", np.float32, [2, 8])], [("y", np.float32)], {"g": floats(8)})
    check(path, {"a": floats(2, 8), "b": floats(2, 8)}, 1e-4)


def test_quantized_products_of_halves_are_halves(tmp_path):
    nodes = [dequantize(["xq", "s", "z"], "x"), dequantize(["w", "s", "z"], "wd"), helper.make_node("MatMul", ["x", "wd"], ["c"]),
             helper.make_node("Reshape", ["c", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    constants = {"s": np.float16(0.01), "z": np.int8(0), "w": RNG.integers(-99, 99, (8, 6), dtype=np.int8), "to": np.array([3, 2, 2])}
    path = saved(tmp_path, nodes, [("xq", np.int8, [2, 8])], [("c", np.float16), ("y", np.float16)],
                 {k: np.asarray(v) for k, v in constants.items()}, opset=19)
    check(path, {"xq": RNG.integers(-99, 99, (2, 8), dtype=np.int8)}, 2e-3)


@pytest.mark.parametrize("kind", [np.int8, np.int16])
@pytest.mark.parametrize("op", ["MaxPool", "crop"])
def test_what_moves_integers_and_what_does_not(tmp_path, kind, op):
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1.0}
    moved = (helper.make_node("MaxPool", ["d"], ["m"], kernel_shape=[2, 2]) if op == "MaxPool" else
             helper.make_node("Resize", ["d", "roi", "", "sizes"], ["m"], **attributes))
    nodes = [dequantize(["q", "s", "z"], "d"), moved, quantize(["m", "s", "z"], "y")]
    constants = {"s": np.float32(0.1), "z": kind(5), "roi": np.array([0, 0, -0.5, -0.5, 1, 1, 1.5, 1.5], np.float32),
                 "sizes": np.array([1, 2, 8, 8])}
    if op == "MaxPool":
        del constants["roi"], constants["sizes"]
    path = saved(tmp_path, nodes, [("q", kind, [1, 2, 4, 4])], [("y", kind)], {k: np.asarray(v) for k, v in constants.items()}, opset=21)
    feeds = {"q": RNG.integers(-90, 90, (1, 2, 4, 4)).astype(kind)}
    np.testing.assert_array_equal(smelt.Session(path).run(None, feeds)[0], smelt.Session(path, optimize=False).run(None, feeds)[0])


def test_an_output_that_is_a_shape_keeps_its_name(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Shape", ["r"], ["of"])]
    for shape in ([2, 3], ["N", 3], ["N"]):
        path = saved(tmp_path, nodes, [("x", np.float32, shape)], [("r", np.float32), ("of", np.int64)], {})
        x = floats(*[4 if isinstance(d, str) else d for d in shape])
        session = smelt.Session(path)
        assert [o.name for o in session.get_outputs()] == ["r", "of"]
        np.testing.assert_array_equal(session.run(["of"], {"x": x})[0], x.shape)


def test_constants_of_more_axes_raise_the_rank(tmp_path):
    """x [3, 8] beside constants of shape [1, 1, 1]: GELU and RMSNorm in their parts give [1, 3, 8]."""
    half, root, one, eps = (np.full((1, 1, 1), v, np.float32) for v in (0.5, np.sqrt(2), 1, 1e-5))
    gelu = [helper.make_node("Div", ["x", "root"], ["a"]), helper.make_node("Erf", ["a"], ["b"]), helper.make_node("Add", ["b", "one"], ["c"]),
            helper.make_node("Mul", ["x", "c"], ["d"]), helper.make_node("Mul", ["d", "half"], ["y"])]
    path = saved(tmp_path, gelu, [("x", np.float32, [3, 8])], [("y", np.float32)], {"root": root, "one": one, "half": half})
    check(path, {"x": floats(3, 8)}, 1e-5)
    norm = [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("ReduceMean", ["a"], ["b"], axes=[-1]),
            helper.make_node("Add", ["b", "eps"], ["c"]), helper.make_node("Sqrt", ["c"], ["d"]), helper.make_node("Div", ["x", "d"], ["y"])]
    path = saved(tmp_path, norm, [("x", np.float32, [3, 8])], [("y", np.float32)], {"eps": eps})
    check(path, {"x": floats(3, 8)}, 1e-5)


def test_an_image_resized_to_its_own_extents_is_still_sampled(tmp_path):
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    path = saved(tmp_path, [node], [("x", np.float32, [1, 1, 5, 5])], [("y", np.float32)], {"s": np.array([1, 1, 1.15, 1.15], np.float32)})
    x = {"x": floats(1, 1, 5, 5)}
    want = onnx.reference.ReferenceEvaluator(str(path)).run(None, x)[0]
    np.testing.assert_allclose(smelt.Session(path).run(None, x)[0], want, rtol=1e-4, atol=1e-5)


def test_the_power_of_one_half_is_no_root(tmp_path):
    nodes = [helper.make_node("Pow", ["x", "h"], ["p"]), helper.make_node("Add", ["p", "p"], ["y"])]
    path = saved(tmp_path, nodes, [("x", np.float32, [4])], [("y", np.float32)], {"h": np.float32(0.5).reshape(())})
    check(path, {"x": np.array([-np.inf, -0.0, 4, np.inf], np.float32)}, 1e-6)


@pytest.mark.parametrize("op", ["Celu", "HardSigmoid", "Relu", "Elu", "Softplus", "HardSwish"])
def test_nan_stays_nan_by_every_tactic(tmp_path, op):
    path = saved(tmp_path, [helper.make_node(op, ["x"], ["y"])], [("x", np.float32, [3])], [("y", np.float32)], {})
    x = np.array([np.nan, 1, -1], np.float32)
    for options in ({}, {"optimize": False}, {"optimize": False, "tactics": "-all,+reference"}):
        assert np.isnan(smelt.Session(path, **options).run(None, {"x": x})[0]).tolist() == [True, False, False]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("zero", [None, (), (32,)], ids=["no zero point", "one", "one a channel"])
@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_integer_convolutions_over_constant_weights(tmp_path, types, zero, kernel, group):
    """Every kernel runs, for at level 3 all are measured."""
    random = np.random.default_rng(0)
    x, w = (random.integers(0 if t == np.uint8 else -100, 100, shape).astype(t)
            for t, shape in zip(types, ((1, 24, 14, 14), (32, 24 // group, kernel, kernel)), strict=True))
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(7, types[0]), "xz")]
    if zero is not None:
        constants.append(numpy_helper.from_array(random.integers(1, 9, zero).astype(types[1]), "wz"))
    node = helper.make_node("ConvInteger", ["x", "w", "xz", *(["wz"] if zero is not None else [])], ["y"], group=group,
                            pads=[kernel // 2] * 4)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)], constants)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    wide = [c.astype(np.int64) for c in (x, w)]
    zeros = numpy_helper.to_array(constants[2]).astype(np.int64).reshape(-1, 1, 1, 1) if zero is not None else 0
    image = np.pad(wide[0] - 7, ((0, 0), (0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), (2, 3))
    each = 24 // group
    expected = np.concatenate([np.einsum("nchwij,ocij->nohw", windows[:, g * each:(g + 1) * each], (wide[1] - zeros)[g * 32 // group:(g + 1) * 32 // group])
                               for g in range(group)], axis=1)
    for level in (0, 3):
        y, = smelt.Session(model, tuning_level=level, cache_dir=tmp_path / str(level)).run(None, {"x": x})
        np.testing.assert_array_equal(y, expected)
