"""Sessions of one model in one process: the weights, the mapped files and what kernels made of them are there once."""
import subprocess
import sys

import numpy as np
import onnx
import pytest
import smelt
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper

MIB = 1 << 20
# Private memory and open files after each of a few sessions that live at once.
SESSIONS = """
import os, sys
import numpy as np
import smelt
kept = []
for i in range(4):
    kept.append(smelt.Session(sys.argv[1], tuning_level=0, use_cache=False, threads=1))
    kept[-1].run(None, {"x": np.ones((1, 64, 8, 8), np.float32)})
    private = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private")) << 10
    print(private, len(os.listdir("/proc/self/fd")))
"""


@pytest.fixture(params=["in the file", "beside it"])
def wide(request, tmp_path):
    """Eight convolutions of 64 channels to 64 by 9 x 9: 10.6 MiB of weights, which kernels want in another order."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((64, 64, 9, 9)).astype(np.float32) * 0.01, f"w{i}") for i in range(8)]
    nodes = [helper.make_node("Conv", ["x" if i == 0 else f"y{i - 1}", f"w{i}"], ["y" if i == 7 else f"y{i}"], pads=[4, 4, 4, 4])
             for i in range(8)]
    model = model_of(nodes, [("x", TensorProto.FLOAT, (1, 64, 8, 8))], [("y", TensorProto.FLOAT, (1, 64, 8, 8))], weights)
    path = tmp_path / "wide.onnx"
    if request.param == "beside it":
        onnx.save(model, path, save_as_external_data=True, location="wide.data")
    else:
        onnx.save(model, path)
    return path


def test_further_sessions_of_a_model_take_little_memory_and_no_file(wide):
    rows = subprocess.run([sys.executable, "-c", SESSIONS, str(wide)], check=True, capture_output=True, text=True).stdout.split("\n")
    (first, files), *_, (last, files_at_last) = (map(int, row.split()) for row in rows if row)
    assert files_at_last == files
    weights = 8 * 64 * 64 * 81 * 4   # bytes; each session has its own copy of what lies inside a model's file
    limit = (1 if wide.with_name("wide.data").exists() else 4) * weights
    assert last - first < limit, f"{(last - first) / MIB:.1f} MiB for three further sessions"


def test_a_model_exported_anew_in_place_is_read_anew(wide):
    x = np.ones((1, 64, 8, 8), np.float32)
    old = smelt.Session(wide, tuning_level=0, use_cache=False)
    before = old.run(None, {"x": x})[0]
    model = onnx.load(wide)
    for i, w in enumerate(model.graph.initializer):
        model.graph.initializer[i].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(w) * 2, w.name))
    if wide.with_name("wide.data").exists():
        wide.with_name("wide.data").write_bytes(b"".join(numpy_helper.to_array(w).tobytes() for w in model.graph.initializer))
    else:
        onnx.save(model, wide)
    now = smelt.Session(wide, tuning_level=0, use_cache=False).run(None, {"x": x})[0]
    np.testing.assert_allclose(now, before * 2.0 ** 8, rtol=1e-4, atol=1e-5)
