"""Models of one operator each, for operators.py: every one of ONNX that computes, over types, axes, ranks, broadcasting.

A tensor is written as its type and extents, "f32 8x128x56x56"; an array is a constant of the model. Sizes are such that an
operator moves some megabytes or multiplies some hundreds of millions of numbers: what a step costs, not what a call costs.
"""

import dataclasses
import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "i16": TensorProto.INT16,
    "u16": TensorProto.UINT16,
    "i32": TensorProto.INT32,
    "u32": TensorProto.UINT32,
    "i64": TensorProto.INT64,
    "u64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}
IMAGE, ROWS = "8x64x56x56", "4096x384"  # 1.6 million elements each


@dataclasses.dataclass
class Case:
    op: str
    inputs: tuple
    attributes: dict
    domain: str
    opset: int
    outputs: int
    low: float
    high: float

    @property
    def name(self):
        shown = [i if isinstance(i, str) else constant(i) for i in self.inputs if i is not None]
        # The attributes that tell apart: no tables of trees.
        kept = {k: v for k, v in self.attributes.items() if not isinstance(v, list) or len(v) <= 8}
        return " ".join([self.op, *shown, *(f"{k}={v}".replace(" ", "") for k, v in kept.items())])

    def feeds(self):
        rng = np.random.default_rng(1)
        return {f"in{i}": random(rng, t, self.low, self.high) for i, t in enumerate(self.inputs) if isinstance(t, str)}

    def model(self):
        inputs, constants, names = [], [], []
        for i, t in enumerate(self.inputs):
            names.append("" if t is None else f"in{i}")
            if isinstance(t, str):
                kind, shape = parse(t)
                inputs.append(helper.make_tensor_value_info(f"in{i}", TYPES[kind], shape))
            elif t is not None:
                constants.append(numpy_helper.from_array(t, f"in{i}"))
        outputs = [f"out{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, "node", domain=self.domain, **self.attributes)
        infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph([node], "case", inputs, infos, constants)
        opsets = [helper.make_opsetid("", self.opset)] + (
            [helper.make_opsetid(self.domain, 3 if self.domain == "ai.onnx.ml" else 1)] if self.domain else []
        )
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        if self.domain in ("", "ai.onnx.ml"):  # ONNX Runtime asks for the outputs' types
            model = onnx.shape_inference.infer_shapes(model)
            for output in model.graph.output:  # functions are not followed: as the first input
                if not output.type.WhichOneof("value"):
                    output.type.CopyFrom(inputs[0].type)
        elif self.domain == "com.microsoft":  # no shape is known
            own = inputs[0].type.tensor_type.elem_type if inputs else TensorProto.FLOAT
            kind = {
                "MatMulIntegerToFloat": TensorProto.FLOAT,
                "QAttention": TensorProto.FLOAT,
                "QLinearWhere": TensorProto.UINT8,
                "EmbedLayerNormalization": TensorProto.FLOAT,
                "DequantizeLinear": TensorProto.FLOAT,
                "MatMulInteger16": TensorProto.INT32,
                "NGramRepeatBlock": TensorProto.FLOAT,
                "DynamicTimeWarping": TensorProto.INT32,
                "QuantizeLinear": TYPES.get(name_of(self.inputs[-1]), own),
            }.get(self.op, own)
            for i, output in enumerate(model.graph.output):
                of_places = {"EmbedLayerNormalization": TensorProto.INT32, "Unique": TensorProto.INT64} if i else {}
                output.type.tensor_type.elem_type = of_places.get(self.op, kind)
        return model


def constant(a):
    return (
        f"{a.dtype}{a.flatten().tolist()}".replace(" ", "") if a.size <= 4 else f"const {a.dtype} {'x'.join(map(str, a.shape))}"
    )


def name_of(a):
    """The element type of an input, as tensors are written."""
    return a.partition(" ")[0] if isinstance(a, str) else a.dtype.kind + str(8 * a.dtype.itemsize) if a is not None else "f32"


def parse(text):
    kind, _, shape = text.partition(" ")
    return kind, [int(d) for d in shape.split("x")] if shape else []


def random(rng, text, low, high):
    kind, shape = parse(text)
    kind = np.dtype({"f": "float", "i": "int", "u": "uint", "b": "bool"}[kind[0]] + kind[1:] if kind != "bool" else "bool")
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)  # without axes too an array
    if kind.kind in "iu":
        return np.asarray(rng.integers(max(low, 0) if kind.kind == "u" else low, high + 1, shape)).astype(kind)
    return np.asarray(rng.uniform(low, high, shape)).astype(kind)


def case(op, *inputs, opset=21, domain="", outputs=1, low=-4, high=4, **attributes):
    return Case(op, inputs, attributes, domain, opset, outputs, low, high)


def own(op, *inputs, **attributes):
    return case(op, *inputs, domain="com.microsoft", **attributes)


def scalar(value, kind=np.float32):
    return np.array(value, kind)


def words(text):
    return text.split()


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


def weights(*shape, kind=np.float32):
    rng = np.random.default_rng(3)
    if np.dtype(kind).kind in "iu":
        return rng.integers(1, 9, shape).astype(kind)
    return rng.uniform(-0.1, 0.1, shape).astype(kind)


def pointwise():
    for op in words(
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN "
        "LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Identity "
        "ThresholdedRelu"
    ):
        yield case(op, f"f32 {IMAGE}", **({"low": 0.1, "high": 0.9} if op.startswith("A") or op == "Log" else {}))
    yield case("Acosh", f"f32 {IMAGE}", low=1, high=4)
    for kind, ops in (
        ("f64", "Abs Neg Sign Relu Exp Sqrt Sigmoid Tanh Floor"),
        ("f16", "Abs Neg Sign Relu Exp Sqrt Sigmoid Tanh Floor Erf"),
        ("i32", "Abs Neg Sign Relu"),
        ("i64", "Abs Neg Sign"),
        ("i8", "Abs Neg Sign Relu"),
    ):
        for op in words(ops):
            yield case(op, f"{kind} {IMAGE}", low=0, high=4)
    yield case("Gelu", f"f32 {IMAGE}", approximate="tanh")
    yield case("Shrink", f"f32 {IMAGE}", lambd=0.5, bias=0.1)
    for kind in ("u8", "i32", "i64"):
        yield case("BitwiseNot", f"{kind} {IMAGE}")
    yield case("Not", f"bool {IMAGE}")
    for source, to in itertools.permutations(("f32", "f64", "f16", "i32", "i64", "u8", "i8", "bool"), 2):
        yield case("Cast", f"{source} {IMAGE}", to=TYPES[to], low=0)
    for kind in ("f32", "f64", "f16", "i32", "i64", "u8", "i8"):
        limits = (np.array(v, np.dtype(random(np.random.default_rng(), f"{kind} 1", 0, 1).dtype)) for v in (1, 3))
        yield case("Clip", f"{kind} {IMAGE}", *limits, low=0)


BROADCASTS = (
    (IMAGE, IMAGE),
    (IMAGE, "1x64x1x1"),
    (IMAGE, "1"),
    (IMAGE, "8x64x1x1"),
    (IMAGE, "56"),
    (IMAGE, "8x1x56x56"),
    (ROWS, "384"),
    (ROWS, "4096x1"),
    ("4096x1", "1x384"),
    ("64x1x384", "1x64x384"),
    ("64x64x384x1", "1x384x64"),
    ("16x1x96x1x8", "1x128x1x8x8"),
)


def binary():
    for op, (a, b) in itertools.product(words("Add Mul Div Sub"), BROADCASTS):
        yield case(op, f"f32 {a}", f"f32 {b}", low=1)
    for op, (a, b) in itertools.product(words("Max Min Pow PRelu Mean Sum Greater Equal"), BROADCASTS[:8:2]):
        yield case(op, f"f32 {a}", f"f32 {b}", low=1)
    for op, kind in itertools.product(
        words("Add Mul Div Sub Max Greater Equal LessOrEqual"), ("f64", "f16", "i32", "i64", "u8", "i8")
    ):
        for a, b in (BROADCASTS[0], BROADCASTS[1]):
            yield case(op, f"{kind} {a}", f"{kind} {b}", low=1)
    for op, kind in itertools.product(words("Pow Mod"), ("i32", "i64", "f32", "u8")):
        yield case(op, f"{kind} {IMAGE}", f"{kind} {IMAGE}", low=1, **({"fmod": 1} if op == "Mod" and kind == "f32" else {}))
    yield case("Pow", f"f32 {IMAGE}", floats(2.0))
    yield case("Pow", f"f32 {IMAGE}", floats(0.5), low=0)
    yield case("Pow", f"f32 {IMAGE}", floats(1.7), low=0)
    for op in ("And", "Or", "Xor"):
        yield case(op, f"bool {IMAGE}", f"bool {IMAGE}")
    for op, kind in itertools.product(("BitwiseAnd", "BitwiseXor"), ("i32", "u8", "i64")):
        yield case(op, f"{kind} {IMAGE}", f"{kind} {IMAGE}")
    yield case("BitShift", f"u32 {IMAGE}", f"u32 {IMAGE}", direction="LEFT", low=0)
    for kind in ("f32", "i64", "u8", "f16", "bool"):
        yield case("Where", f"bool {IMAGE}", f"{kind} {IMAGE}", f"{kind} {IMAGE}")
        yield case("Where", "bool 8x1x56x56", f"{kind} {IMAGE}", f"{kind} 1")
    for op in ("Sum", "Max", "Mean"):
        yield case(op, *[f"f32 {IMAGE}"] * 4)


def reductions():
    names = words("Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare")
    for name, axes in itertools.product(names, ((2, 3), (1,), (0,), (3,), (0, 1, 2, 3), (0, 2))):
        yield case(f"Reduce{name}", f"f32 {IMAGE}", ints(*axes), low=0.5, high=1.1)
    for name, kind, axes in itertools.product(("Sum", "Mean", "Max", "Prod"), ("f64", "f16", "i32", "i64"), ((2, 3), (1,))):
        yield case(f"Reduce{name}", f"{kind} {IMAGE}", ints(*axes), low=1, high=2)
    for name, axis in itertools.product(("Max", "Mean", "Sum"), (0, 1)):
        yield case(f"Reduce{name}", f"f32 {ROWS}", ints(axis), keepdims=0)
    for op, kind, axis in itertools.product(("ArgMax", "ArgMin"), ("f32", "i32", "u8", "f64", "i64"), (0, 1, 3)):
        yield case(op, f"{kind} {IMAGE}", axis=axis)
    yield case("ArgMax", f"f32 {IMAGE}", axis=1, select_last_index=1, keepdims=0)
    for op, kind, axis in itertools.product(("Softmax", "LogSoftmax", "Hardmax"), ("f32", "f16", "f64"), (1, 2, 3)):
        yield case(op, f"{kind} {IMAGE}", axis=axis)
    for axis, kind in itertools.product((0, 1, 3), ("f32", "i32", "i64", "f64")):
        yield case("CumSum", f"{kind} {IMAGE}", ints(axis)[0].reshape(()))
    yield case("CumSum", f"f32 {IMAGE}", np.array(1), reverse=1, exclusive=1)
    for k, axis, sort, kind in itertools.product((5, 200), (0, 1), (0, 1), ("f32", "i64")):
        yield case("TopK", f"{kind} 1024x1536", ints(k), axis=axis, sorted=sort, outputs=2, low=-(10**6), high=10**6)
    yield case("TopK", "f32 1000000", ints(1000), outputs=2)
    yield case("TopK", "f32 1000000", ints(1000000), outputs=2)


def norms():
    for kind in ("f32", "f16", "f64"):
        yield case("LayerNormalization", f"{kind} {ROWS}", f"{kind} 384", f"{kind} 384")
        yield case("RMSNormalization", f"{kind} {ROWS}", f"{kind} 384", opset=23)
        yield case("LpNormalization", f"{kind} {IMAGE}", axis=1)
    for kind in ("f32", "f16"):
        yield case("InstanceNormalization", f"{kind} {IMAGE}", f"{kind} 64", f"{kind} 64")
        yield case("GroupNormalization", f"{kind} {IMAGE}", f"{kind} 64", f"{kind} 64", num_groups=8)
        yield case("BatchNormalization", f"{kind} {IMAGE}", *[f"{kind} 64"] * 4, low=0.5)
    yield case("LayerNormalization", f"f32 {IMAGE}", "f32 56x56", None, axis=2)
    yield case("LayerNormalization", "f32 16x32x32x96", "f32 96", "f32 96")
    yield case("InstanceNormalization", "f32 8x64x12544", "f32 64", "f32 64")
    yield case("LpNormalization", f"f32 {ROWS}", axis=-1, p=1)
    yield case("MeanVarianceNormalization", f"f32 {IMAGE}")
    yield case("LRN", f"f32 {IMAGE}", size=5)
    yield case("Dropout", f"f32 {IMAGE}")
    yield case("NegativeLogLikelihoodLoss", "f32 4096x1000", "i64 4096", low=0, high=9)
    yield case("SoftmaxCrossEntropyLoss", "f32 4096x1000", "i64 4096", low=0, high=9)
    yield case("Normalizer", f"f32 {ROWS}", domain="ai.onnx.ml", norm="L2")
    yield case("Scaler", f"f32 {ROWS}", domain="ai.onnx.ml", offset=[0.5], scale=[2.0])


FAMILIES = (pointwise, binary, reductions, norms)
