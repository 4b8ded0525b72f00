"""RNN, GRU, LSTM and DynamicQuantizeLSTM against ONNX Runtime."""
import numpy as np
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4, "DynamicQuantizeLSTM": 4}
STEPS, BATCH, INPUT = 6, 3, 20


def check(folder, op, constants, order, feeds, hidden, tolerance, **attributes):
    """One node whose inputs are `order`: names of constants and feeds, empty where left out."""
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    outputs = ["y", "y_h", "y_c"][:3 if GATES[op] == 4 else 2]
    node = helper.make_node(op, order, outputs, domain="com.microsoft" if "Quantize" in op else "", hidden_size=hidden, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(k, types[v.dtype], v.shape) for k, v in feeds.items()],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    want = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    for threads in (1, 2):
        got = smelt.Session(path, threads=threads, tuning_level=0).run(None, feeds)
        for g, w in zip(got, want, strict=True):
            assert (g.shape, g.dtype) == (w.shape, w.dtype)
            np.testing.assert_allclose(g, w, rtol=0, atol=tolerance)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("hidden", [13, 64])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_floats(tmp_path, op, hidden, direction):
    rng = np.random.default_rng(hidden)
    directions, rows = (2 if direction == "bidirectional" else 1), GATES[op] * hidden

    def floats(*shape):
        return rng.uniform(-0.4, 0.4, shape).astype(np.float32)

    constants = {"w": floats(directions, rows, INPUT), "r": floats(directions, rows, hidden), "b": floats(directions, 2 * rows)}
    feeds = {"x": 3 * floats(STEPS, BATCH, INPUT), "lengths": np.array([6, 2, 4], np.int32), "h": floats(directions, BATCH, hidden)}
    order = ["x", "w", "r", "b", "lengths", "h"]
    if op == "LSTM":
        feeds["c"], constants["p"] = floats(directions, BATCH, hidden), floats(directions, 3 * hidden)
        order += ["c", "p"]
    variants = {"GRU": [{}, {"linear_before_reset": 1}], "LSTM": [{}, {"clip": 0.8}], "RNN": [{}, {"clip": 0.8}]}
    for attributes in variants[op]:
        check(tmp_path, op, constants, order, feeds, hidden, 2e-6, direction=direction, **attributes)


# One item: ONNX Runtime quantises the state of several items with one range or with several, as its threads have them.
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("weight_type", [np.int8, np.uint8])
@pytest.mark.parametrize("by_column", [False, True])
def test_bytes(tmp_path, weight_type, direction, by_column):
    rng = np.random.default_rng(2)
    hidden, directions = 45, 2 if direction == "bidirectional" else 1

    def floats(*shape, low=-0.4, high=0.4):
        return rng.uniform(low, high, shape).astype(np.float32)

    # ONNX Runtime adds two products of u8 and s8 in 16 bits where the processor has no dot products of bytes (AVX2): larger
    # weights than these saturate there.
    low, high = (-64, 64) if weight_type == np.int8 else (0, 255)
    columns = [directions] + [4 * hidden] * by_column
    zero = np.full(columns, 131 if weight_type == np.uint8 else 0, weight_type)
    constants = {"b": floats(directions, 8 * hidden), "w_scale": floats(*columns, low=0.001, high=0.003),
                 "r_scale": floats(*columns, low=0.001, high=0.003), "w_zero": zero, "r_zero": zero}
    for name, k in (("w", INPUT), ("r", hidden)):
        constants[name] = rng.integers(low, high, (directions, k, 4 * hidden), weight_type, endpoint=True)
    feeds = {"x": 3 * floats(STEPS, 1, INPUT), "h": floats(directions, 1, hidden), "c": floats(directions, 1, hidden)}
    order = ["x", "w", "r", "b", "", "h", "c", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    # A value at the border of two levels may fall to either side: about a hundredth of a gate.
    check(tmp_path, "DynamicQuantizeLSTM", constants, order, feeds, hidden, 4e-3, direction=direction)
