"""bench/gpu_never_slower.py on the processor: models travel without their large weights, and what is wrong is in the table's end."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
gpu_never_slower = pytest.importorskip("gpu_never_slower")


def product(path, inner=512, columns=600):
    """y = x · w with w of a megabyte and more, b of 8 bits as large, and a small c."""
    random = np.random.default_rng(1)
    w = random.standard_normal((inner, columns)).astype(np.float32) * 3 + 1
    b = random.integers(-90, 90, (1, inner, columns), np.int8)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, c]) for n, c in (("x", inner), ("y", columns))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "c"], ["q"]),
             helper.make_node("Cast", ["b"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("ReduceMean", ["f"], ["m"], axes=[1, 2], keepdims=0), helper.make_node("Add", ["q", "m"], ["y"])]
    weights = [numpy_helper.from_array(t, n) for t, n in ((w, "w"), (b, "b"), (np.ones(columns, np.float32), "c"))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9), path)
    np.savez(path.with_suffix(".inputs.npz"), x=random.standard_normal((2, inner)).astype(np.float32))
    return {"w": w, "b": b, "c": np.ones(columns, np.float32)}


def test_large_weights_are_made_up_again_with_their_mean_and_deviation(tmp_path):
    given = product(tmp_path / "m.onnx")
    for folder in ("out", "one", "two"):
        (tmp_path / folder).mkdir()
    gpu_never_slower.strip(tmp_path / "m.onnx", tmp_path / "out")
    assert (tmp_path / "out" / "m.onnx").stat().st_size < 10000 < (tmp_path / "m.onnx").stat().st_size
    paths = [gpu_never_slower.fill(tmp_path / "out" / "m.onnx", tmp_path / folder) for folder in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found = {t.name: numpy_helper.to_array(t) for t in onnx.load(paths[0]).graph.initializer}
    for name, x in given.items():
        assert found[name].dtype == x.dtype and found[name].shape == x.shape
        assert abs(found[name].mean() - x.mean()) < 0.3 and abs(found[name].std() - x.std()) < 0.02 * x.std() + 0.01


def run(request, folder, smelt, *options):
    environment = os.environ | {"SMELT_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, BENCH / "gpu_never_slower.py", "run", smelt, folder, "--out", folder / "table.txt", "--device", "cpu",
               "--tuning-level", "0", "--cores", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done, json.loads((folder / "table.json").read_text())


def test_a_model_runs_agrees_and_is_timed_beside_onnx_runtime(request, tmp_path):
    product(tmp_path / "m.onnx")
    done, rows = run(request, tmp_path, pathlib.Path(request.config.getoption("--build")) / "smelt", "--ort", "--together", "1")
    assert rows["m"]["error"] < 1e-5 and rows["m"]["us"] > 0 and rows["m"]["peers"]["ort"]["us"] > 0, done.stdout + done.stderr
    assert rows["m"]["top"] and rows["m"]["beside"] == "ONNX Runtime"
    again, _ = run(request, tmp_path, "nothing")     # it is known: nothing is run
    assert "\nm " in again.stdout


WRONG = """#!{python}
import json, sys
import numpy as np
if sys.argv[1] == "profile":
    us = {{"median": 9.0, "iqr": 0.0}}
    print(json.dumps({{"after": {{"latency_us": us, "host_latency_us": us, "steps": [], "inside": [], "steps_us": 9, "gaps_us": 0,
                                 "warnings": []}}}}))
elif "bad" in sys.argv[2]:
    sys.exit("it does not run")
elif "long" in sys.argv[2]:
    import time
    time.sleep(600)
else:
    np.savez(sys.argv[sys.argv.index("--outputs") + 1], y=np.zeros((2, 600), np.float32))
"""


def test_what_is_wrong_fails_or_takes_too_long_is_said(request, tmp_path):
    for name in ("m", "bad", "long", "m.more"):
        product(tmp_path / f"{name}.onnx")
    smelt = tmp_path / "smelt"
    smelt.write_text(WRONG.format(python=sys.executable))
    smelt.chmod(0o755)
    done, rows = run(request, tmp_path, smelt, "--limit", "20", "--jobs", "4", "--models", "bad", "m", "m.more", "long")
    assert done.returncode == 1 and rows["m"]["error"] == rows["m.more"]["error"] == pytest.approx(1)
    said = done.stdout.split("beyond a limit: 4")[1]
    assert "bad: RuntimeError: exit 1: it does not run" in said and "long: RuntimeError: out of time after 20 s" in said
    assert "m: error 1.0e+00" in said and "m.more: error 1.0e+00" in said


def test_the_order_and_the_limits_of_the_table():
    def row(us, *peers):
        return {"us": us, "error": 0.0, "integers": 0.0, "first_s": 1.0, "beside": "ONNX Runtime", "peers":
                {f"ort{i}": {"us": p} for i, p in enumerate(peers)}}

    rows = {"fast": row(1, 4, 2), "slow": row(3, 2), "alone": row(5), "broken": {"failed": "why"}}
    lines, bad = gpu_never_slower.table(rows)
    assert [text.split()[0] for text in lines[1:5]] == ["broken", "slow", "fast", "alone"]
    assert bad == ["broken: why", "slow: 1.500 of ONNX Runtime"] and "geometric mean 0.866, largest 1.500, 2 models" in "\n".join(lines)


def test_a_peer_that_is_open_waits_for_its_turn(tmp_path):
    """Its limit is for opening and for measuring: others may be measured in between for longer."""
    product(tmp_path / "m.onnx")
    peer = gpu_never_slower.Peer(tmp_path / "m.onnx", argparse.Namespace(cores=1, limit=60), "cpu")
    try:
        assert peer.ready and peer.timer.finished.is_set()
        assert peer.measure()["ort"]["us"] > 0
    finally:
        peer.end()
