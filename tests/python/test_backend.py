"""smelt as a backend of ONNX's own tests."""
import numpy as np
import pytest
import smelt


def test_the_backend_runs_one_node():
    from onnx import helper
    from smelt import backend

    x, y = np.array([1, 5], np.float32), np.array([2, 2], np.float32)
    [z] = backend.run_node(helper.make_node("Sub", ["x", "y"], ["z"]), [x, y])
    assert z.tolist() == [-1, 3]
    clip = helper.make_node("Clip", ["x", "", "high"], ["z"])
    for inputs in ([x, None, np.float32(2)], [x, np.float32(2)], {"x": x, "high": np.float32(2)}):
        assert backend.run_node(clip, inputs, opset_version=13, outputs_info=[(np.float32, (2,))])[0].tolist() == [1, 2]
    values, index = backend.run_node(helper.make_node("TopK", ["x", "k"], ["v", "i"]), [x, np.array([1])])
    assert values.tolist() == [5] and index.tolist() == [1]
    with pytest.raises(smelt.UsageError, match="found 1 of the inputs, expected 2: x, y"):
        backend.run_node(helper.make_node("Sub", ["x", "y"], ["z"]), [x])


def test_the_backend_refuses_other_devices_and_surplus_inputs(small_model):
    import onnx
    from smelt import backend

    model, x = onnx.load(small_model), np.ones((1, 3, 8, 8), np.float32)
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA:99")
    with pytest.raises(smelt.UsageError, match="device is CUDA:99, expected CPU"):
        backend.prepare(model, "CUDA:99")
    assert backend.run_model(model, [x])[0].shape == (1, 8, 8, 8)
    with pytest.raises(smelt.UsageError, match="found 2 inputs, expected 1: x"):
        backend.run_model(model, [x, x])
