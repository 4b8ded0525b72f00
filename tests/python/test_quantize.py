"""smelt quantize: a model in 8 bits by calibration, its error, and what stayed in float."""
import json
import os
import sys

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper
from test_limits import described

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """Two convolutions, a mean, a product and a softmax; and a folder of batches."""
    folder = tmp_path_factory.mktemp("classifier")
    rng = np.random.default_rng(0)

    def weights(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32), name)

    nodes = [helper.make_node("Conv", ["x", "w1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
             helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv2", pads=[1, 1, 1, 1]),
             helper.make_node("GlobalAveragePool", ["c2"], ["g"], name="pool"),
             helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
             helper.make_node("Gemm", ["f", "w3"], ["l"], name="classes", transB=1),
             helper.make_node("Softmax", ["l"], ["y"], name="softmax")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 12, 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 10])],
                              [weights("w1", 16, 3, 3, 3), weights("w2", 32, 16, 3, 3), weights("w3", 10, 32)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "float.onnx")
    (folder / "data").mkdir()
    for i in range(3):
        np.savez(folder / "data" / f"{i}.npz", x=rng.standard_normal((2, 3, 12, 12)).astype(np.float32))
    return folder


def test_writes_a_model_in_8_bits_and_says_what_that_cost(classifier, tmp_path):
    made = smelt.quantize(classifier / "float.onnx", tmp_path / "int8.onnx", classifier / "data", threads=1)
    assert described(json.dumps(made.data))["batches"] == 3
    [y] = made["outputs"]
    assert y["output"] == "y" and 0 < y["rms_relative"] < 0.1 and 0 <= y["same_first"] <= 1
    assert "What it cost" in str(made)
    kinds = {n.op_type for n in onnx.load(os.fspath(made)).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    x = dict(np.load(classifier / "data" / "0.npz"))
    [from_plan] = smelt.Session(made, threads=1, tuning_level=0).run(None, x)
    assert from_plan.shape == (2, 10)


def test_names_the_nodes_that_stay_in_float_and_why(classifier, tmp_path):
    made = smelt.quantize(classifier / "float.onnx", tmp_path / "int8.onnx", classifier / "data", exclude=["conv2"], threads=1)
    reasons = {n["node"]: n["reason"] for n in made["float_nodes"]}
    assert reasons["conv2"] == "it was excluded"
    assert "conv1" not in reasons and "classes" not in reasons
    assert "conv2" in str(made)


def test_refuses_what_it_cannot_calibrate_with(classifier, tmp_path):
    out, model = tmp_path / "int8.onnx", classifier / "float.onnx"
    (tmp_path / "empty").mkdir()
    with pytest.raises(smelt.UsageError, match=r"no .npz or .npy file"):
        smelt.quantize(model, out, tmp_path / "empty")
    with pytest.raises(smelt.UsageError, match="has no input 'x'"):
        smelt.quantize(model, out, [{"z": np.zeros(1, np.float32)}])
    with pytest.raises(smelt.UsageError, match="no node 'nowhere'"):
        smelt.quantize(model, out, classifier / "data", exclude=["nowhere"])
    with pytest.raises(smelt.UsageError, match="expected one of u8, s8"):
        smelt.quantize(model, out, classifier / "data", activations="u4")
    assert not out.exists()


def test_says_what_of_the_data_does_not_fit(classifier, tmp_path):
    out, model = tmp_path / "int8.onnx", classifier / "float.onnx"
    x = np.zeros((2, 3, 12, 12), np.float32)
    for batch, expected in (({"x": x[0]}, r"batch 0: 'x' has shape \[3, 12, 12\], expected \[2, 3, 12, 12\]"),
                            ({"x": x.astype(np.int64)}, "'x' is int64, expected float32")):
        with pytest.raises(smelt.UsageError, match=expected):
            smelt.quantize(model, out, [batch])
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(smelt.UsageError, match=r"cut.npz: it cannot be read"):
        smelt.quantize(model, out, folder)
    (folder / "cut.npz").unlink()
    (folder / "cat.jpg").write_bytes(b"")
    with pytest.raises(smelt.UsageError) as refused:
        smelt.quantize(model, out, folder)
    assert "only you know" in refused.value.next_step
    with pytest.raises(smelt.UsageError, match="no such folder"):
        smelt.quantize(model, out, tmp_path / "nowhere")
    with pytest.raises(smelt.UsageError, match="no such file"):
        smelt.quantize(tmp_path / "nothing.onnx", out, [{"x": x}])
    with pytest.raises(smelt.UsageError, match="there is no folder"):
        smelt.quantize(model, tmp_path / "no" / "int8.onnx", [{"x": x}])
    assert not out.exists()


def test_takes_numpy_s_own_floats_and_refuses_a_second_time(classifier, tmp_path):
    x = np.random.default_rng(1).standard_normal((2, 3, 12, 12))   # f64
    made = smelt.quantize(classifier / "float.onnx", tmp_path / "int8.onnx", [{"x": x}], threads=1)
    with pytest.raises(smelt.UsageError, match="quantised already"):
        smelt.quantize(made, tmp_path / "again.onnx", [{"x": x}])


def test_says_what_nodes_in_float_cost(classifier, tmp_path):
    made = smelt.quantize(classifier / "float.onnx", tmp_path / "int8.onnx", classifier / "data", exclude=["conv2"], threads=1)
    costs = {n["node"]: n["cost_us"] for n in made["float_nodes"]}
    assert costs["conv2"] > 0
    explained = {n: row for row in smelt.explain(made)["float_nodes"] for n in row["nodes"]}
    assert explained["conv2"]["op"].endswith("Conv") and explained["conv2"]["cost_us"] > 0 and explained["conv2"]["detail"]


def graph_of(nodes, shape, weights, outputs=("y",), opset=17):
    """A model of x in floats; weights: shapes by name, or arrays."""
    rng = np.random.default_rng(3)
    constants = [numpy_helper.from_array(w if isinstance(w, np.ndarray) else
                                         (rng.standard_normal(w) / np.prod(w[1:]) ** 0.5).astype(np.float32), n)
                 for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], constants)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))


def squeezed():
    """A depthwise convolution, hard-swish, and what a mean of each channel leaves of it."""
    n = helper.make_node
    return graph_of([n("Conv", ["x", "w1"], ["a"], "depthwise", group=8, pads=[1, 1, 1, 1]), n("HardSwish", ["a"], ["b"], "swish"),
                     n("GlobalAveragePool", ["b"], ["c"], "mean"), n("Conv", ["c", "w2"], ["d"], "squeeze"),
                     n("Sigmoid", ["d"], ["e"], "gate"), n("Mul", ["b", "e"], ["f"], "gated"),
                     n("Conv", ["f", "w3"], ["y"], "last")],
                    [1, 8, 10, 10], {"w1": (8, 1, 3, 3), "w2": (8, 8, 1, 1), "w3": (4, 8, 1, 1)})


def block():
    """A transformer's products, softmax and normalisation; its nodes have no names."""
    n = helper.make_node
    return graph_of([n("MatMul", ["x", "w1"], ["q"]), n("Transpose", ["q"], ["k"], perm=[0, 2, 1]), n("MatMul", ["q", "k"], ["s"]),
                     n("Softmax", ["s"], ["p"]), n("MatMul", ["p", "q"], ["o"]), n("Add", ["o", "x"], ["r"]),
                     n("LayerNormalization", ["r", "g"], ["l"]), n("MatMul", ["l", "w2"], ["y"])],
                    [2, 12, 16], {"w1": (16, 16), "g": np.ones(16, np.float32), "w2": (16, 16)})


def upsampled(batch=1):
    """Two scales of an image joined; with a name for its batch, extents are not known."""
    n = helper.make_node
    scales = np.array([1, 1, 2, 2], np.float32)
    return graph_of([n("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]), n("Relu", ["a"], ["b"], "relu"),
                     n("AveragePool", ["b"], ["c"], "half", kernel_shape=[2, 2], strides=[2, 2]),
                     n("Resize", ["c", "", "s"], ["d"], "whole", mode="linear"), n("Concat", ["b", "d"], ["e"], "joined", axis=1),
                     n("ConvTranspose", ["e", "w2"], ["f"], "larger", strides=[2, 2]), n("Tanh", ["f"], ["y"], "tanh")],
                    [batch, 3, 8, 8], {"w1": (6, 3, 3, 3), "w2": (12, 4, 2, 2), "s": scales})


def assert_both_say_the_same(made):
    """quantize's nodes in float are explain's, with the same costs, and the text says of how many nodes they are."""
    converts = {n.name for n in onnx.load(os.fspath(made)).graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")}
    rows = smelt.explain(made).data.get("float_nodes", [])
    assert {n["node"] for n in made["float_nodes"]} == {n for r in rows for n in r["nodes"]} - converts
    assert all(n["reason"] for n in made["float_nodes"])
    assert sum(n["cost_us"] for n in made["float_nodes"]) == pytest.approx(sum(r["cost_us"] or 0 for r in rows))
    count = len(made["float_nodes"])
    assert (f"In float: {count} of" if count else "is in float") in str(made)


@pytest.mark.parametrize("model", [squeezed, block, upsampled, lambda: upsampled("n")], ids=["squeezed", "block", "upsampled", "unknown"])
@pytest.mark.parametrize("activations", ["u8", "s8"])
def test_small_graphs_have_the_float_nodes_that_explain_lists(model, activations, tmp_path):
    onnx.save(model(), tmp_path / "float.onnx")
    shape = [d.dim_value or 2 for d in model().graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    made = smelt.quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", [{"x": x}], activations=activations, threads=1)
    assert_both_say_the_same(made)
    if model is not squeezed:   # the others have a softmax, a linear Resize, a Tanh at the end
        assert made["float_nodes"]


@pytest.mark.parametrize(("name", "side"), [("unet.fp32", 64), ("mobilenet_v3_large.fp32", 64), ("detector.fp32", 64)])
def test_exported_graphs_have_the_float_nodes_that_explain_lists(filled, name, side, tmp_path):
    model = onnx.load(filled(name))
    extents = model.graph.input[0].type.tensor_type.shape.dim
    extents[2].dim_value = extents[3].dim_value = side
    del model.graph.value_info[:]
    for o in model.graph.output:
        o.type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "float.onnx")
    x = np.random.default_rng(1).standard_normal([d.dim_value for d in extents]).astype(np.float32)
    made = smelt.quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", [{model.graph.input[0].name: x}], threads=2)
    assert_both_say_the_same(made)


def test_the_command_does_the_same(command, classifier, tmp_path):
    env = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
           "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = command("quantize", classifier / "float.onnx", "-o", tmp_path / "int8.onnx", "--data", classifier / "data", "--exclude",
                  "conv2", "--threads", "1", "--json", env=env).stdout
    made = json.loads(out)
    assert made["batches"] == 3 and "conv2" in {n["node"] for n in made["float_nodes"]}
    missing = command("quantize", classifier / "float.onnx", "-o", tmp_path / "no.onnx", "--data", tmp_path / "none", code=2, env=env)
    assert "no such folder" in missing.stderr


def test_a_build_is_run_by_the_first_python_of_path(command, tmp_path):
    """As an activated environment has it, which knows smelt; the system's own does not."""
    first = tmp_path / "python3"
    first.write_text("#!/bin/sh\necho first of PATH\n")
    first.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert command("quantize", "m.onnx", "-o", "q.onnx", "--data", ".", cwd=tmp_path, env=env).stdout == "first of PATH\n"
