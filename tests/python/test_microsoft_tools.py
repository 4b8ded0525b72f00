"""What ONNX Runtime's tools make of a model runs on kernels."""
import importlib.util

import numpy as np
import onnx
import pytest
from conftest import ROOT
from microsoft_models import check, floats
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.usefixtures("own_numbers")


TRANSFORMER = """<ir_version: 8, opset_import: ["" : 13]> g (float[1, 6, 64] x) => (float[1, 6, 64] y) {
    a = Tanh(x) mean = ReduceMean <axes = [-1]> (a) d = Sub(a, mean) sq = Pow(d, two)
    var = ReduceMean <axes = [-1]> (sq) ve = Add(var, e) s = Sqrt(ve) n = Div(d, s)
    ng = Mul(n, gamma) norm = Add(ng, beta) h0 = MatMul(norm, w1) h1 = Add(h0, b1)
    q = Div(h1, r) er = Erf(q) e1 = Add(er, one) h2 = Mul(h1, e1) h = Mul(h2, half) o0 = MatMul(h, w2) o = Add(o0, b2)
    y = Add(o, a) }"""


IMAGE = """<ir_version: 8, opset_import: ["" : 13]> g (float[1, 8, 12, 12] x) => (float[1, 6] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1) b = Relu(a) c = Conv <pads = [1, 1, 1, 1]> (b, w3, b3) d = Add(c, b) e = Sigmoid(d)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e) m = GlobalAveragePool(p) f = Flatten(m) y = Gemm <transB = 1> (f, w2, b2) }"""


@pytest.fixture(scope="module")
def tools():
    spec = importlib.util.spec_from_file_location("tools", ROOT / "bench/tools.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tool", ["ort_basic", "ort_extended", "transformers", "transformers_fp16", "fp16", "dynamic", "dynamic_s8",
                                  "dynamic_optimised", "qdq_s8", "qdq_optimised", "qoperator", "qoperator_s8",
                                  "qoperator_optimised", "initializers_as_inputs", "opset17", "opset21"])
@pytest.mark.parametrize("text", [TRANSFORMER, IMAGE], ids=["transformer", "image"])
def test_what_tools_write_runs_on_kernels(tmp_path, command, tools, text, tool):
    model = onnx.parser.parse_model(text)
    for i, node in enumerate(model.graph.node):   # the converter to float16 goes by names
        node.name = f"node{i}"
    shapes = {"gamma": [64], "beta": [64], "w1": [64, 128], "b1": [128], "w2": [128, 64], "b2": [64]} if text is TRANSFORMER else \
        {"w1": [8, 8, 3, 3], "b1": [8], "w3": [8, 8, 3, 3], "b3": [8], "w2": [6, 8], "b2": [6]}
    model.graph.initializer.extend(numpy_helper.from_array(floats(*shape) / 8, name) for name, shape in shapes.items())
    numbers = {"two": 2, "e": 1e-5, "r": 2**0.5, "half": 0.5, "one": 1} if text is TRANSFORMER else {}
    model.graph.initializer.extend(numpy_helper.from_array(np.float32(x), name) for name, x in numbers.items())
    source, path = tmp_path / "m.onnx", tmp_path / f"m.{tool}.onnx"
    onnx.save(model, source)
    feeds = {"x": floats(*(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim))}
    np.savez(source.with_suffix(".inputs.npz"), **feeds)
    why = tools.write(source, tool, path)
    if why == "leaves it as it was":
        return
    assert why is None
    check(tmp_path, onnx.load(path), feeds, 2e-5 if tool.startswith(("ort", "opset", "init")) or tool == "transformers" else 5e-2,
          command)


def test_nodes_that_a_tool_left_unsorted(tmp_path):
    """onnxruntime's converter to float16 puts the casts of inputs behind the nodes that read them."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [helper.make_node("Neg", ["b"], ["y"]), helper.make_node("Exp", ["a"], ["b"]), helper.make_node("Abs", ["x"], ["a"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    check(tmp_path, model, {"x": floats(2, 3)})
