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
