"""smelt bench --against: which nodes make a model slower than another, and why."""
import json

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper
from test_limits import described

SHAPE = [48, 65536]   # a pass over it takes milliseconds, so that passes more are beyond noise


def written(path, nodes, constants):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A running sum in float, and the same between Quantize and Dequantize as ONNX Runtime's quantizer names them: it has no form in
    8 bits, so that the model in 8 bits converts twice and computes as before."""
    folder = tmp_path_factory.mktemp("sums")
    node, axis = helper.make_node, {"axis": np.int64(0)}
    in_float = written(folder / "float.onnx", [node("CumSum", ["x", "axis"], ["s"], "running"), node("Relu", ["s"], ["y"], "relu")], axis)
    scale, zero = {"s0": np.float32(0.03), "s1": np.float32(0.2)}, {"z": np.uint8(128)}
    in_8_bits = written(folder / "int8.onnx", [
        node("QuantizeLinear", ["x", "s0", "z"], ["x_QuantizeLinear_Output"], "x_QuantizeLinear"),
        node("DequantizeLinear", ["x_QuantizeLinear_Output", "s0", "z"], ["x_DequantizeLinear_Output"], "x_DequantizeLinear"),
        node("CumSum", ["x_DequantizeLinear_Output", "axis"], ["s"], "running"),
        node("QuantizeLinear", ["s", "s1", "z"], ["s_QuantizeLinear_Output"], "s_QuantizeLinear"),
        node("DequantizeLinear", ["s_QuantizeLinear_Output", "s1", "z"], ["s_DequantizeLinear_Output"], "s_DequantizeLinear"),
        node("Relu", ["s_DequantizeLinear_Output"], ["y"], "relu")], axis | scale | zero)
    return in_float, in_8_bits


def test_names_the_conversions_beside_the_node_that_stayed_in_float(models):
    in_float, in_8_bits = models
    found = smelt.bench(in_8_bits, in_float, duration=0.5, threads=1, tuning_level=0)
    data = described(json.dumps(found.data))
    assert data["bench"]["speedup"] < 1
    rows = data["slower_nodes"]
    assert all(r["longer_us"] > 0 for r in rows)
    first = rows[0]
    assert first["reason"] == "conversion" and first["before_us"] is None
    assert "beside running, which stayed in float" in first["detail"]
    assert {"x_QuantizeLinear", "x_DequantizeLinear"} & set(first["nodes"])
    assert "Nodes that take longer" in str(found)


def test_says_nothing_of_a_model_that_is_not_slower(models):
    in_float, in_8_bits = models
    found = smelt.bench(in_float, in_8_bits, duration=0.3, threads=1, tuning_level=0)
    assert found["bench"]["speedup"] > 1 and "slower_nodes" not in found.data
    assert "slower_nodes" not in smelt.bench(in_float, duration=0.1, threads=1, tuning_level=0).data


def test_the_command_and_its_report_say_it_too(command, models, tmp_path):
    in_float, in_8_bits = models
    wanted = ("bench", in_8_bits, "--against", in_float, "--duration", "0.3", "--threads", "1", "--tuning-level", "0")
    said = command(*wanted).stdout
    assert "Nodes that take longer" in said and "stayed in float" in said
    page = tmp_path / "report.html"
    data = described(command(*wanted, "--report", page, "--json").stdout)
    assert data["slower_nodes"][0]["reason"] == "conversion"
    assert "Nodes that take longer" in page.read_text() and "beside running, which stayed in float" in page.read_text()
