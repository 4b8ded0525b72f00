"""torch, onnx, onnxruntime and smelt in one process, imported in every order, and each of them used."""
import importlib.util
import itertools
import subprocess
import sys

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None

PROGRAM = """
import sys, numpy as np
for name in sys.argv[2:]:
    __import__(name)
import onnx, onnxruntime, smelt
path = sys.argv[1]
onnx.checker.check_model(onnx.load(path))
x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
[theirs] = onnxruntime.InferenceSession(path).run(None, {"x": x})
if "torch" in sys.argv:
    import torch
    [ours] = smelt.Session(path).run(None, {"x": torch.from_numpy(x)})
    assert torch.allclose(torch.from_dlpack(ours), torch.from_numpy(theirs), rtol=1e-5, atol=1e-5)
    assert float(torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))) == 9
else:
    [ours] = smelt.Session(path).run(None, {"x": x})
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
try:
    smelt.Session(path + ".none")
    raise SystemExit("no error for a missing file")
except smelt.Error:
    pass
"""


def run(order, model):
    subprocess.run([sys.executable, "-c", PROGRAM, str(model), *order], check=True, timeout=300)


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed (scripts/setup.sh build test installs it where 12 GB are "
                                          "free); the orders of the other three run")
@pytest.mark.parametrize("order", list(itertools.permutations(["torch", "onnx", "onnxruntime", "smelt"])), ids="-".join)
def test_imports_and_runs_in_this_order(order, small_model):
    run(order, small_model)


@pytest.mark.skipif(HAS_TORCH, reason="the orders with torch run, which hold these")
@pytest.mark.parametrize("order", list(itertools.permutations(["onnx", "onnxruntime", "smelt"])), ids="-".join)
def test_imports_and_runs_in_this_order_without_torch(order, small_model):
    run(order, small_model)
