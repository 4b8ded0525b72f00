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


def until(made, holds):
    """What made(seconds) gives once it holds: beside other work short measurements prove little."""
    for seconds in (0.5, 2, 8):
        found = made(seconds)
        if holds(found):
            break
    return found


def check(rows):
    """Beside other work a row's difference may drown in noise, and is left out: tests/report/slower_nodes_test.cpp has made-up times."""
    assert rows and all(r["longer_us"] > 0 for r in rows)
    named = {"conversion": "beside running, which stayed in float", "stayed_in_float": "reads or writes floats"}
    said = [r for r in rows if r["reason"] in named]
    assert said and all(named[r["reason"]] in r["detail"] for r in said)
    assert all(r["before_us"] is None for r in rows if r["reason"] == "conversion")
    assert {n for r in rows for n in r["nodes"]} <= {
        "running", "relu", "x_QuantizeLinear", "x_DequantizeLinear", "s_QuantizeLinear", "s_DequantizeLinear"}


def test_names_what_stayed_in_float_and_the_conversions_beside_it(models):
    in_float, in_8_bits = models
    found = until(lambda seconds: smelt.bench(in_8_bits, in_float, duration=seconds, threads=1, tuning_level=0),
                  lambda found: "slower_nodes" in found.data)
    data = described(json.dumps(found.data))
    assert data["bench"]["speedup"] < 1
    check(data["slower_nodes"])
    assert "Nodes that take longer" in str(found)


def test_says_nothing_of_a_model_that_is_not_slower(models):
    in_float, in_8_bits = models
    found = until(lambda seconds: smelt.bench(in_float, in_8_bits, duration=seconds, threads=1, tuning_level=0),
                  lambda found: found["bench"]["speedup"] > 1)
    assert found["bench"]["speedup"] > 1 and "slower_nodes" not in found.data
    assert "slower_nodes" not in smelt.bench(in_float, duration=0.1, threads=1, tuning_level=0).data


def test_the_command_and_its_report_say_it_too(command, models, tmp_path):
    in_float, in_8_bits = models
    wanted = ("bench", in_8_bits, "--against", in_float, "--threads", "1", "--tuning-level", "0")
    said = until(lambda seconds: command(*wanted, "--duration", seconds).stdout, lambda said: "Nodes that take longer" in said)
    assert "Nodes that take longer" in said and ("stayed in float" in said or "stayed_in_float" in said)
    page = tmp_path / "report.html"
    data = until(lambda seconds: described(command(*wanted, "--report", page, "--json", "--duration", seconds).stdout),
                 lambda data: "slower_nodes" in data)
    check(data["slower_nodes"])
    assert "Nodes that take longer" in page.read_text() and "stayed_in_float" in page.read_text()
