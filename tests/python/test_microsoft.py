"""Operators of com.microsoft, as ONNX Runtime's tools write them: what ONNX Runtime computes, on kernels, or a refusal that says why."""
import numpy as np
import onnxruntime as ort
import pytest
import smelt
from microsoft_models import RNG, B, S, check_node, floats
from onnx import TensorProto, helper

pytestmark = pytest.mark.usefixtures("own_numbers")


@pytest.mark.parametrize("given", [(), ("segments",), ("segments", "mask"), ("mask", "places")])
def test_embed_layer_normalization(tmp_path, command, given):
    ids = {n: RNG.integers(0, 4, (B, S)).astype(np.int32) for n in ("ids", "segments", "places")}
    inputs = {"ids": ids["ids"], "segments": ids["segments"] if "segments" in given else None, "word": floats(9, 16),
              "position": floats(8, 16), "segment": floats(4, 16) if "segments" in given else None, "gamma": floats(16),
              "beta": floats(16), "mask": np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32) if "mask" in given else None,
              "places": ids["places"] if "places" in given else None}
    check_node(tmp_path, "EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=3 if "mask" in given else 2,
               constants=("word", "position", "segment", "gamma", "beta"), command=command)


@pytest.mark.parametrize("form", ["", "beta", "bias", "sum"])
def test_skip_layer_normalization(tmp_path, command, form):
    inputs = {"x": floats(B, S, 16), "skip": floats(B, S, 16), "gamma": floats(16), "beta": floats(16) if form else None,
              "bias": floats(16) if form in ("bias", "sum") else None}
    check_node(tmp_path, "SkipLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=[1, 0, 0, 1] if form == "sum" else 1,
               constants=("gamma", "beta", "bias"), command=command)


@pytest.mark.parametrize("op, domain, opset", [("LayerNormalization", "", 13), ("SimplifiedLayerNormalization", "", 13),
                                               ("SkipSimplifiedLayerNormalization", "com.microsoft", 13)])
def test_norms_before_onnx_had_them(tmp_path, command, op, domain, opset):
    inputs = {"x": floats(B, S, 16), "gamma": floats(16), "beta": floats(16)}
    if op.startswith("Skip"):
        inputs = {"x": floats(B, S, 16), "skip": floats(B, S, 16), "gamma": floats(16)}
    elif op.startswith("Simplified"):
        del inputs["beta"]
    check_node(tmp_path, op, inputs, {"epsilon": 1e-5}, constants=("gamma", "beta"), domain=domain, opset=opset, command=command)


@pytest.mark.parametrize("activation, parameters", [("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.3]),
                                                    ("Clip", [0.0, 6.0]), ("HardSigmoid", [0.3, 0.6])])
def test_fused_convolutions_run_on_kernels(tmp_path, command, activation, parameters):
    inputs = {"x": floats(1, 16, 9, 9), "w": floats(16, 16, 3, 3) / 10, "b": floats(16),
              "z": floats(1, 16, 9, 9) if activation == "Relu" else None}
    attributes = {"activation": activation, "pads": [1, 1, 1, 1]}
    if parameters:
        attributes["activation_params"] = parameters
    check_node(tmp_path, "FusedConv", inputs, attributes, constants=("w", "b"), command=command)


@pytest.mark.parametrize("flags", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5}, {"transBatchA": 1}, {"transBatchB": 1, "transB": 1}])
def test_fused_matmul(tmp_path, command, flags):
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    for x, name in (("a", "A"), ("b", "B")):
        value = a if x == "a" else b
        if flags.get(f"trans{name}"):
            value = value.swapaxes(-1, -2)
        if flags.get(f"transBatch{name}"):
            value = np.moveaxis(value, -2, 0)
        a, b = (value, b) if x == "a" else (a, value)
    check_node(tmp_path, "FusedMatMul", {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b)}, flags, command=command)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_of_rows(tmp_path, command, metric, kind):
    a, b = (floats(n, 16).astype({"f32": np.float32, "f64": np.float64}[kind]) for n in (9, 13))
    check_node(tmp_path, "CDist", {"a": a, "b": b}, {"metric": metric}, command=command, tolerance=1e-4)


@pytest.mark.parametrize("attributes", [{}, {"mode": "bicubic"}, {"mode": "nearest", "padding_mode": "border", "align_corners": 1}])
def test_samples_of_a_grid(tmp_path, command, attributes):
    given = {"x": floats(B, 3, 6, 7), "grid": floats(B, 4, 5, 2)}
    check_node(tmp_path, "GridSample", given, attributes, command=command)


def test_values_in_the_order_in_which_they_are_met(tmp_path):
    check_node(tmp_path, "Unique", {"x": RNG.integers(0, 6, 40).astype(np.float32)}, {}, outputs=3)


def strings(op, texts, attributes, domain="com.microsoft"):
    value = helper.make_tensor_value_info("x", TensorProto.STRING, [len(texts)])
    node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    model = helper.make_model(helper.make_graph([node], "g", [value], [helper.make_empty_tensor_value_info("y")]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
    feeds = {"x": np.array(texts, dtype=object)}
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    got = smelt.Session(model, tuning_level=0).run(None, feeds)[0]
    assert got.shape == want.shape and np.array_equal(got, want)


def random_expression(draw, depth=1):
    parts = ["a", "b", "c", "x", "[ab]", "[^a]", "[[:alpha:]]", ".", "\\w", "\\s", "\\pL", "\\d", "\\b", "^", "$", "é", "(?i)A"]
    expression = ""
    for _ in range(draw.integers(1, 4)):
        nested = depth and draw.integers(3) == 0
        expression += f"(?:{random_expression(draw, 0)}|{random_expression(draw, 0)})" if nested else draw.choice(parts)
        expression += draw.choice(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
    return expression


@pytest.mark.parametrize("seed", range(40))
def test_expressions_of_re2(seed):
    draw = np.random.default_rng(seed)
    texts = ["".join(draw.choice(list("abcAé -x1\n"), draw.integers(0, 10))) for _ in range(6)]
    strings("RegexFullMatch", texts, {"pattern": random_expression(draw)}, domain="")
    given = {"mark": int(draw.integers(2)), "mincharnum": int(draw.integers(1, 3)), "pad_value": "#"}
    strings("Tokenizer", texts, {"tokenexp": random_expression(draw), **given})
    strings("Tokenizer", texts, {"separators": [random_expression(draw) for _ in range(draw.integers(1, 4))], **given})


EARLY = {"Affine": {"alpha": 2.0, "beta": 3.0}, "ScaledTanh": {"alpha": 2.0, "beta": 0.5}, "Scale": {"scale": 3.0},
         "ParametricSoftplus": {"alpha": 2.0, "beta": 0.5}, "ImageScaler": {"scale": 2.0, "bias": [1.0, 2.0, 3.0]},
         "Crop": {"border": [1, 0, 2, 1]}, "ThresholdedRelu": {"alpha": 0.5}}


@pytest.mark.parametrize("op", EARLY)
def test_operators_that_onnx_had_for_trial(tmp_path, op):
    check_node(tmp_path, op, {"x": floats(2, 3, 5, 6)}, EARLY[op], domain="", opset=9)


def test_early_operators_with_other_inputs(tmp_path):
    check_node(tmp_path, "Crop", {"x": floats(2, 3, 5, 6)}, {"border": [1, 0, 2, 1], "scale": [2, 3]}, domain="", opset=9)
    given = {"x": floats(4, 5), "starts": np.array([1, 0], np.int64), "ends": np.array([3, -1], np.int64),
             "axes": np.array([0, 1], np.int64)}
    check_node(tmp_path, "DynamicSlice", given, {}, domain="", opset=9)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5, 7, 7)])
def test_inverse(tmp_path, shape):
    check_node(tmp_path, "Inverse", {"x": floats(*shape) + 3 * np.eye(shape[-1], dtype=np.float32)}, {}, tolerance=1e-4)
    check_node(tmp_path, "Inverse", {"x": floats(*shape).astype(np.float64)}, {}, tolerance=1e-9)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (9, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_crop_and_resize(tmp_path, mode, size, known):
    inputs = {"x": floats(2, 3, 6, 7), "boxes": RNG.uniform(-0.2, 1.2, (5, 4)).astype(np.float32),
              "images": np.array([0, 1, 1, 0, 1], np.int32), "size": np.array(size, np.int32)}
    check_node(tmp_path, "CropAndResize", inputs, {"mode": mode, "extrapolation_value": 0.5}, constants=("size",) if known else ())


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_ngram_repeat_block(tmp_path, size):
    inputs = {"ids": RNG.integers(0, 4, (3, 8)), "scores": floats(3, 5)}
    check_node(tmp_path, "NGramRepeatBlock", inputs, {"ngram_size": size})


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
def test_murmur_hash(tmp_path, positive, kind):
    check_node(tmp_path, "MurmurHash3", {"x": RNG.integers(0, 1 << 30, (3, 4)).astype(kind)}, {"positive": positive, "seed": 7})
    strings("MurmurHash3", ["", "a", "ab", "abc", "abcd", "abcde", "longer text, é"], {"positive": positive})


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (6, 9), (1, 7, 5)])
@pytest.mark.parametrize("ties", [False, True])
def test_dynamic_time_warping(tmp_path, shape, ties):
    check_node(tmp_path, "DynamicTimeWarping", {"x": np.round(floats(*shape)) if ties else floats(*shape)}, {})


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("size, step", [(1, 1), (3, 2), (4, 1)])
def test_unfold_tensor(tmp_path, dim, size, step):
    check_node(tmp_path, "UnfoldTensor", {"x": floats(4, 6, 5)}, {"dim": dim, "size": size, "step": step})


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_transposed_convolution_with_pads_as_input(tmp_path, axes, known):
    inputs = {"x": floats(1, 4, *[6, 7][:axes]), "w": floats(4, 3, *[3, 4][:axes]),
              "pads": np.array([1, 0, 2, 1] if axes == 2 else [1, 2], np.int64), "b": floats(3)}
    check_node(tmp_path, "ConvTransposeWithDynamicPads", inputs, {"strides": [2] * axes, "output_padding": [1] * axes},
               constants=("w", "b", "pads") if known else ("w", "b"))


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("text", [False, True])
def test_category_mapper(tmp_path, version, text):
    x = np.array(["b", "a", "zz", "c"], dtype=object) if text else np.array([7, 0, 5, -9], np.int64)
    value = helper.make_tensor_value_info("x", TensorProto.STRING if text else TensorProto.INT64, [4])
    node = helper.make_node("CategoryMapper", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b", "c"], cats_int64s=[5, 0, 7],
                            **({"default_int64": -3} if text else {"default_string": "?"}))
    model = helper.make_model(helper.make_graph([node], "g", [value], [helper.make_empty_tensor_value_info("y")]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)])
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    got = smelt.Session(model, tuning_level=0).run(None, {"x": x})[0]
    assert got.dtype == want.dtype and np.array_equal(got, want)
