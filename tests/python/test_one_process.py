"""torch, onnx, onnxruntime and smelt in one process, imported in every order, and each of them used."""
import importlib.util
import itertools
import subprocess
import sys

import pytest

MODULES = ["torch", "onnx", "onnxruntime", "smelt"]

PROGRAM = """
import sys, numpy as np
for name in sys.argv[2:]:
    __import__(name)
import onnx, onnxruntime, smelt, torch
path = sys.argv[1]
onnx.checker.check_model(onnx.load(path))
x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
[theirs] = onnxruntime.InferenceSession(path).run(None, {"x": x})
[ours] = smelt.Session(path).run(None, {"x": torch.from_numpy(x)})
assert torch.allclose(torch.from_dlpack(ours), torch.from_numpy(theirs), rtol=1e-5, atol=1e-5)
assert float(torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))) == 9
"""


@pytest.mark.parametrize("order", itertools.permutations(MODULES), ids="-".join)
def test_imports_and_runs_in_this_order(order, small_model):
    assert importlib.util.find_spec("torch"), "torch is among the test requirements: scripts/setup.sh build test"
    subprocess.run([sys.executable, "-c", PROGRAM, str(small_model), *order], check=True, timeout=300)
