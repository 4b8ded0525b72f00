"""Models made here: quantised by ONNX Runtime's quantizer, written by hand with onnx.helper, converted to a lower precision."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# --- by hand ----------------------------------------------------------------------------------------------------------

def _constant(rng, name, *shape, scale=1.0):
    return numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), name)


def odd():
    """A graph of what exporters seldom write together: two symbolic dimensions, an If and a Loop whose bodies read the outer
    graph, a local function, com.microsoft operators, optional inputs left out, a negative-step Slice, integer outputs."""
    rng = np.random.default_rng(1)
    f32, i64, boolean = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    node, info = helper.make_node, helper.make_tensor_value_info
    weights = [_constant(rng, "w", 24, 32, scale=0.2), _constant(rng, "b", 32), _constant(rng, "gamma", 32),
               _constant(rng, "beta", 32), _constant(rng, "skip_bias", 32), _constant(rng, "small", 32, 32, scale=0.1)]
    ints = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in
            [("minus_one", [-1]), ("very_low", [-(2**62)]), ("axis1", [1]), ("zero", 0), ("three", 3)]]
    halve = helper.make_function("local", "Halve", ["v"], ["h"],
                                 [node("Constant", [], ["two"], value_float=2.0), node("Div", ["v", "two"], ["h"])],
                                 [helper.make_opsetid("", 17)])
    then_branch = helper.make_graph([node("Gelu", ["normed"], ["then_out"], domain="com.microsoft", name="then_gelu")],
                                    "then", [], [info("then_out", f32, None)])
    else_branch = helper.make_graph([node("Halve", ["normed"], ["else_out"], domain="local", name="else_halve")],
                                    "else", [], [info("else_out", f32, None)])
    body = helper.make_graph(
        [node("MatMul", ["state", "small"], ["moved"], name="loop_product"), node("Tanh", ["moved"], ["bent"]),
         node("Add", ["bent", "picked"], ["next"]), node("ReduceMean", ["next"], ["row"], axes=[0, 1], keepdims=0),
         node("Identity", ["go"], ["go_on"])],
        "body", [info("i", i64, []), info("go", boolean, []), info("state", f32, None)],
        [info("go_on", boolean, []), info("next", f32, None), info("row", f32, None)])
    nodes = [
        node("FusedMatMul", ["x", "w"], ["product"], domain="com.microsoft", name="product", alpha=0.5),
        node("BiasGelu", ["product", "b"], ["gelu"], domain="com.microsoft", name="bias_gelu"),
        node("SkipLayerNormalization", ["gelu", "residual", "gamma", "beta", "skip_bias"], ["normed"], domain="com.microsoft",
             name="norm", epsilon=1e-5),
        node("ReduceSum", ["normed"], ["total"], keepdims=0, name="total"),
        node("Sub", ["total", "total"], ["nothing"]),
        node("ReduceMax", ["x"], ["x_max"], keepdims=0),
        node("Greater", ["x_max", "nothing"], ["condition"]),
        node("If", ["condition"], ["picked"], name="choose", then_branch=then_branch, else_branch=else_branch),
        node("Loop", ["three", "", "picked"], ["state_out", "rows"], name="three_times", body=body),
        node("Slice", ["state_out", "minus_one", "very_low", "axis1", "minus_one"], ["reversed"], name="backwards"),
        node("Clip", ["reversed", "", "limit"], ["y"], name="upper_limit_only"),
        node("Shape", ["y"], ["extents"], start=0, end=2),
        node("ArgMax", ["y"], ["best"], axis=-1, keepdims=0)]
    graph = helper.make_graph(
        nodes, "odd", [info("x", f32, ["rows", "steps", 24]), info("residual", f32, ["rows", "steps", 32])],
        [info("y", f32, ["rows", "steps", 32]), info("rows", f32, [3, 32]), info("extents", i64, [2]),
         info("best", i64, ["rows", "steps"])],
        weights + ints + [numpy_helper.from_array(np.float32(1.5), "limit")])
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("com.microsoft", 1), ("local", 1))]
    return helper.make_model(graph, opset_imports=opsets, functions=[halve], ir_version=8, producer_name="onnx.helper")


def odd_inputs():
    sizes = [{"rows": 1, "steps": 3}, {"rows": 4, "steps": 17}, {"rows": 2, "steps": 1}]
    made = []
    for i, s in enumerate(sizes):
        rng = np.random.default_rng(i)
        shape = (s["rows"], s["steps"])
        made.append({"x": rng.standard_normal((*shape, 24)).astype(np.float32),
                     "residual": rng.standard_normal((*shape, 32)).astype(np.float32)})
    return sizes, made


def products():
    """Two products with bias and ReLU between, and a product of two computed operands: what a quantizer finds in an encoder."""
    rng = np.random.default_rng(2)
    node, info = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("MatMul", ["x", "w1"], ["m1"]), node("Add", ["m1", "b1"], ["a1"]), node("Relu", ["a1"], ["r1"]),
         node("MatMul", ["r1", "w2"], ["m2"]), node("Add", ["m2", "b2"], ["a2"]),
         node("Transpose", ["a2"], ["t"], perm=[0, 2, 1]), node("MatMul", ["a2", "t"], ["scores"]),
         node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "a2"], ["y"])],
        "products", [info("x", TensorProto.FLOAT, [2, 19, 48])], [info("y", TensorProto.FLOAT, [2, 19, 40])],
        [_constant(rng, "w1", 48, 96, scale=0.15), _constant(rng, "b1", 96), _constant(rng, "w2", 96, 40, scale=0.1),
         _constant(rng, "b2", 40)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# --- quantised ---------------------------------------------------------------------------------------------------------

class _Samples:
    """Calibration data for onnxruntime.quantization: the model's inputs, drawn anew a few times."""

    def __init__(self, draw, count=3):
        self.left = [draw(i) for i in range(100, 100 + count)]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantise(source, target, draw, form, activations, per_channel):
    """QDQ or QOperator form of a float model by ONNX Runtime's quantizer; u8 or s8 activations, s8 weights."""
    import onnxruntime.quantization as q
    q.quantize_static(str(source), str(target), _Samples(draw),
                      quant_format=q.QuantFormat.QDQ if form == "qdq" else q.QuantFormat.QOperator,
                      activation_type=q.QuantType.QUInt8 if activations == "u8" else q.QuantType.QInt8,
                      weight_type=q.QuantType.QInt8, per_channel=per_channel)


QUANTISED = {f"{base}.{form}.{kind}s8": (base, form, kind) for base, form, kind in [
    ("products", "qdq", "u8"), ("products", "qdq", "s8"), ("products", "qlinear", "u8"), ("resnet50.fp32", "qdq", "u8"),
    ("resnet50.fp32", "qdq", "s8"), ("mobilenet_v3_large.fp32", "qdq", "u8"), ("mobilenet_v3_large.fp32", "qlinear", "u8")]}

# name: (base, precision, kept in fp32)
CONVERTED = {
    "bert_base.fp32.as_bf16": ("bert_base.fp32", "bf16", ()),
    "resnet50.fp32.as_fp16": ("resnet50.fp32", "fp16", ()),
    "resnet50.fp32.as_fp16.layer4_kept": ("resnet50.fp32", "fp16", ("*layer4*",)),
    "mobilenet_v3_large.fp32.as_bf16": ("mobilenet_v3_large.fp32", "bf16", ()),
}


def write(name, work):
    """(model path, sizes, one set of inputs a size) of a made float model."""
    path = pathlib.Path(work) / f"{name}.onnx"
    if name == "odd":
        onnx.save(odd(), path)
        return path, *odd_inputs()
    onnx.save(products(), path)
    return path, [{}], [{"x": np.random.default_rng(0).standard_normal((2, 19, 48)).astype(np.float32)}]
