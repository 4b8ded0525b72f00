"""Operators between convolutions read and write channels-last images: a list names those around which images are reordered."""
import collections
import warnings

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test import loader

# Operators that want their image plain, and why; for those in `SOME` only some of ONNX's cases do.
PLAIN = {
    "AffineGrid": "its rows are matrices", "Attention": "heads and tokens, not channels and pixels", "CenterCropPad": "rare",
    "Col2Im": "columns of windows", "DFT": "its last axis holds complex numbers",
    "GroupNormalization": "a group's channels and pixels are one row of plain memory", "InstanceNormalization": "as GroupNormalization",
    "LRN": "a channel's rows are folded with its neighbours'", "LayerNormalization": "rows of the last axes", "LpPool": "rare",
    "MatMul": "rows of the last axis", "NegativeLogLikelihoodLoss": "training", "RMSNormalization": "rows of the last axes",
    "RotaryEmbedding": "as Attention", "ScatterND": "places in row-major order", "SoftmaxCrossEntropyLoss": "training",
    "TensorScatter": "as Attention",
}
SOME = {
    "BatchNormalization": "training", "Dropout": "training", "Flatten": "channels and pixels become one axis", "Reshape": "as Flatten",
    "Squeeze": "other axes become channels", "Unsqueeze": "other axes become channels", "Transpose": "other axes become channels",
    "Softmax": "few channels: short rows take longer than columns", "LogSoftmax": "as Softmax", "ArgMax": "over the batch",
    "ArgMin": "over the batch", "AveragePool": "windows that end behind the padding that they count", "Gather": "of scalars",
}


def identity(channels, rank, name):
    """A convolution's weights that leave an image as it is."""
    return numpy_helper.from_array(np.eye(channels, dtype=np.float32).reshape(channels, channels, *[1] * (rank - 2)), name)


def is_image(a):
    return isinstance(a, np.ndarray) and a.dtype == np.float32 and 3 <= a.ndim <= 5 and a.shape[1] > 1 and np.prod(a.shape[2:]) > 1


def between(case):
    """(model, image, expected, has an image as its result): the case's node behind a convolution, and before another."""
    graph, (inputs, outputs) = case.model.graph, case.data_sets[0]
    node = graph.node[0]
    x, y = inputs[0], outputs[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for field in ("node", "input", "output"):
        del getattr(model.graph, field)[:]
    model.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, x.shape))
    model.graph.initializer.append(identity(x.shape[1], x.ndim, "first.weights"))
    for info, value in list(zip(graph.input, inputs, strict=True))[1:]:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
    model.graph.node.append(helper.make_node("Conv", ["image", "first.weights"], [graph.input[0].name]))
    model.graph.node.append(node)
    if is_image(y):
        model.graph.initializer.append(identity(y.shape[1], y.ndim, "last.weights"))
        model.graph.node.append(helper.make_node("Conv", [graph.output[0].name, "last.weights"], ["result"]))
        model.graph.output.append(helper.make_tensor_value_info("result", TensorProto.FLOAT, y.shape))
    else:
        model.graph.output.append(graph.output[0])
    return model, x, y


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # the cases overflow and divide by zero on purpose
        found = loader.load_model_tests(kind="node")
    for case in found:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.node[0].domain not in ("", "ai.onnx") or any(a.HasField("g") for a in graph.node[0].attribute):
            continue
        inputs, outputs = case.data_sets[0]
        whole = len(inputs) == len(graph.input) and len(outputs) == len(graph.output)
        first = graph.input and graph.node[0].input[:1] == [graph.input[0].name] and graph.node[0].output[0] == graph.output[0].name
        plain = all(isinstance(v, (np.ndarray, np.generic)) for v in (*inputs, *outputs))
        if whole and first and plain and is_image(inputs[0]) and np.isfinite(inputs[0]).all():
            yield case


def test_operators_between_convolutions(tmp_path):
    """Every operator of ONNX's node cases: it is right there, and no image is reordered around it but for the listed ones."""
    around, fine, wrong = collections.Counter(), collections.Counter(), []
    for case in cases():
        model, x, expected = between(case)
        op = case.model.graph.node[0].op_type
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        found = smelt.Session(path, tuning_level=0).run(None, {"image": x})[0]
        same = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-3, atol=1e-5, equal_nan=True)
        if not same and op not in ("Dropout", "Bernoulli"):
            wrong.append(case.name)
        rows = smelt.explain(path, kernels=True, tuning_level=0)["tactics"]
        reorders = sum(r["problem"].startswith("reorder:") for r in rows if r["result"] == "runs")
        (around if reorders > 2 else fine)[op] += 1   # of the graph's input and of its result
    assert not wrong
    assert len(fine) > 80
    assert {op for op in around if op not in fine} <= PLAIN.keys()
    assert {op for op in around if op in fine} <= SOME.keys() | PLAIN.keys()
    assert PLAIN.keys() <= around.keys(), "the list names operators around which nothing is reordered"


def model_of(nodes, constants, shape, opset=20):
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
                              [helper.make_empty_tensor_value_info("result")],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9))


RANDOM = np.random.default_rng(1)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


FORMS = {   # of operators that ONNX's cases have of one channel, or along other axes only
    "Resize of two axes": ("Resize", ["", "list"], {"list": np.array([1, 1, 1.5, 2], np.float32)}, {"mode": "linear"}, 2),
    "Resize of one axis": ("Resize", ["", "list"], {"list": np.array([1, 1, 1.5], np.float32)}, {"mode": "linear"}, 1),
    "Resize of three axes": ("Resize", ["", "", "list"], {"list": np.array([1, 24, 7, 9, 5])}, {"mode": "linear"}, 3),
    "MaxPool along one axis": ("MaxPool", [], {}, {"kernel_shape": [3], "pads": [1, 1]}, 1),
    "MaxPool along three axes": ("MaxPool", [], {}, {"kernel_shape": [3, 2, 3], "pads": [1, 0, 1, 1, 1, 1]}, 3),
    "Gather of channels": ("Gather", ["list"], {"list": RANDOM.permutation(24)}, {"axis": 1}, 2),
    "Gather of rows": ("Gather", ["list"], {"list": np.array([3, 1, 3, -1])}, {"axis": -2}, 2),
    "CumSum": ("CumSum", ["list"], {"list": np.array(2)}, {}, 2),
    "TopK of channels": ("TopK", ["list"], {"list": np.array([5])}, {"axis": 1}, 2),
    "Expand": ("Expand", ["list"], {"list": np.array([3, 1, 1, 1])}, {}, 2),
    "Concat with a constant's channels": ("Concat", ["list"], {"list": floats(1, 5, 6, 7)}, {"axis": 1}, 2),
    "Concat with a constant's rows": ("Concat", ["list"], {"list": floats(1, 24, 5, 7)}, {"axis": 2}, 2),
    "DeformConv": ("DeformConv", ["list", "offsets"], {"list": floats(24, 24, 3, 3), "offsets": floats(1, 18, 4, 5)}, {}, 2),
    "QuantizeLinear of channels": ("QuantizeLinear", ["list"], {"list": abs(floats(24)) + 0.1}, {"axis": 1}, 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_between_convolutions(form, tmp_path):
    op, inputs, constants, attributes, axes = FORMS[form]
    shape = (1, 24, 6, 7, 5)[:2 + axes]
    outputs = ["middle", "places"] if op == "TopK" else ["middle"]
    nodes = [helper.make_node("Conv", ["image", "first"], ["before"]), helper.make_node(op, ["before", *inputs], outputs, **attributes)]
    if op == "QuantizeLinear":
        nodes.append(helper.make_node("DequantizeLinear", ["middle", "list"], ["after"], axis=1))
    channels = {"TopK of channels": 5, "Concat with a constant's channels": 29}.get(form, 24)
    nodes.append(helper.make_node("Conv", ["after" if op == "QuantizeLinear" else "middle", "last"], ["result"]))
    model = model_of(nodes, {**constants, "first": floats(24, 24, *[1] * axes), "last": floats(16, channels, *[1] * axes)}, shape)
    onnx.save(model, tmp_path / "model.onnx")
    image = floats(*shape)
    found, expected = (smelt.Session(tmp_path / "model.onnx", tuning_level=0, optimize=o).run(None, {"image": image})[0]
                       for o in (True, False))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    rows = smelt.explain(tmp_path / "model.onnx", kernels=True, tuning_level=0)["tactics"]
    reorders = [r["problem"] for r in rows if r["result"] == "runs" and r["problem"].startswith("reorder:")]
    assert len(reorders) <= 2, reorders
