"""bench/gpu_models.py and its peers, without a GPU: the modules against their graphs, and the driver with a peer that fails."""
import json
import os
import pathlib
import subprocess
import sys

import onnx
import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import gpu_models  # noqa: E402
import qa_table  # noqa: E402
import shared  # noqa: E402


@pytest.fixture(scope="module")
def modules():
    pytest.importorskip("torch")
    import torch_models
    return torch_models


def graph(name):
    return onnx.load(shared.MODELS / f"{name}.onnx", load_external_data=False)


@pytest.mark.parametrize("name", (*shared.GPU_MODELS, "sd15_unet.fp16", "llama7b_decode.fp16", "whisper_enc.fp16"))
def test_every_weight_of_the_graph_has_one_place_in_the_module(name, modules):
    assert name in modules.MODELS
    modules.build(name, graph(name), modules.shape_of)


def test_a_module_with_a_layer_more_or_less_is_refused(modules):
    less = graph("unet.fp16")
    last = next(n for n in less.graph.node if n.input[1:2] == ["e.4.1.0.weight"])
    less.graph.node.remove(last)
    with pytest.raises(ValueError, match="e.4.1.0.weight"):
        modules.build("unet.fp16", less, modules.shape_of)
    less.graph.initializer.remove(next(t for t in less.graph.initializer if t.name == "e.4.1.0.weight"))
    with pytest.raises(RuntimeError, match="e.4.1.0.weight"):
        modules.build("unet.fp16", less, modules.shape_of)


def test_a_module_computes_what_its_graph_does_and_another_activation_shows(modules, monkeypatch, tmp_path):
    subject, error, limit = modules.check("mobilenet_v3_large.fp16", tmp_path)
    assert subject == "mobilenet_v3_large.fp32" and error <= limit
    monkeypatch.setattr(modules.torch.nn.functional, "hardsigmoid", modules.torch.sigmoid)
    assert modules.check("mobilenet_v3_large.fp16", tmp_path)[1] > 10 * limit


SMELT = """#!{python}
import json, pathlib, sys
if sys.argv[1] == "profile":
    passes = pathlib.Path(__file__).with_name("passes")
    passes.write_text(seen := (passes.read_text() if passes.exists() else "") + "x")
    us = {{"median": 8.0 + 4 * len(seen), "iqr": 1.0}}
    step = {{"us": us, "name": "conv", "problem": "p", "tactic": "t", "config": sys.argv[-1] if len(seen) > 1 else ""}}
    print(json.dumps({{"after": {{"latency_us": us, "steps_us": 9.0, "gaps_us": 0.6, "steps": [step]}}}}))
elif sys.argv[1] == "run":
    print(json.dumps({{"outputs": [], "build": [{{"stage": "import", "seconds": 0.5}}, {{"stage": "device", "seconds": 0.25}}]}}))
else:
    print("smelt 0")
"""


@pytest.fixture
def machine(tmp_path):
    """A folder with a smelt (12 us, and 4 more each time it is asked; its step's settings are the cache folder from the second
    time on) and an nvidia-smi that answer, and a torch that is not installed; and the environment that finds them."""
    for name, text in {"smelt": SMELT.format(python=sys.executable), "nvidia-smi": "#!/bin/sh\necho a GPU, 1.0\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    return tmp_path, {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path),
                      "CUDA_VISIBLE_DEVICES": ""}


def drive(machine, *options):
    """The driver's output, the model's row of it, and its results file."""
    folder, environment = machine
    command = [sys.executable, BENCH / "gpu_models.py", folder / "smelt", folder, "--models", "mobilenet_v3_large.fp16"]
    done = subprocess.run([*command, "--out", folder, *options], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(t for t in done.stdout.splitlines() if t.startswith("mobilenet")).split()
    return done.stdout, row, json.loads(next(folder.glob("gpu-models-*.json")).read_text())


def test_smelt_is_measured_around_peers_that_fail_and_each_says_why(machine):
    text, row, results = drive(machine, "--torch", "--ort")
    assert row[1:7] == ["14.0", "1.0", "9.0", "0.6", "20.0%", "1"] and row[9:] == ["0.75"] + ["-"] * 10
    assert "no torch here" in text and results["gpu"] == "a GPU, 1.0" and not results["summary"]
    model = results["models"]["mobilenet_v3_large.fp16"]
    assert model["passes_us"] == [12.0, 16.0] and all("failed" in r for r in model["peers"].values())


def test_smelt_alone_is_measured_once(machine):
    text, row, results = drive(machine)
    assert row[1] == "12.0" and len(row) == 10 and "torch" not in text
    assert results["models"]["mobilenet_v3_large.fp16"]["passes_us"] == [12.0]


def test_a_build_with_an_empty_cache_is_compared_with_the_first(machine):
    text, _, results = drive(machine, "--rebuilds", "2")
    built = [line for line in text.splitlines() if "built again" in line]
    assert len(built) == 2 and "1 of 1 steps by another tactic or other settings, 16.0 us" in built[0]
    rebuilds = results["models"]["mobilenet_v3_large.fp16"]["rebuilds"]
    assert rebuilds == [{"changed_steps": 1, "latency_us": 16.0}, {"changed_steps": 1, "latency_us": 20.0}]


def test_only_steps_with_another_tactic_or_other_settings_are_counted():
    def profile(*configs):
        return {"steps": [{"name": "n", "problem": "p", "tactic": "t", "config": c} for c in configs]}

    assert gpu_models.changed_steps(profile("a", "b"), profile("b", "a")) == 0
    assert gpu_models.changed_steps(profile("a", "b"), profile("a", "c")) == 1
    assert gpu_models.changed_steps(profile("a", "b"), profile("a", "a")) == 1


def test_rows_of_an_earlier_command_join_unless_the_build_is_another(machine):
    folder, _ = machine
    drive(machine)
    first = next(folder.glob("gpu-models-*.json"))
    earlier = first.rename(folder / "earlier.json")
    made = json.loads(earlier.read_text())
    row = made["models"]["mobilenet_v3_large.fp16"] | {"ratios": {"compile": 0.5}}
    made["models"] = {"other.fp16": row, "bad": {"error": "exit 1"}}
    earlier.write_text(json.dumps(made))
    text, _, results = drive(machine, "--join", earlier)
    assert list(results["models"]) == ["other.fp16", "mobilenet_v3_large.fp16"] and "\nother.fp16 " in text
    assert results["summary"]["compile"]["models"] == 1 and "geometric mean 0.500" in text
    with pytest.raises(ValueError, match="commit"):
        gpu_models.join({**made, "commit": "another"}, earlier)


def test_a_peer_out_of_time_keeps_what_it_had(tmp_path, capsys):
    script = tmp_path / "peer.py"
    script.write_text("""import time
print('{"versions": {"torch": "9"}}\\n{"peer": "wall", "us": 20.0}', flush=True)
time.sleep(600)
""")
    rows, versions = gpu_models.ask_peers(gpu_models.TORCH, 1, script)
    assert rows == {"wall": {"us": 20.0}, **{k: {"failed": "out of time after 1 s"} for k in ("graph", "default", "compile")}}
    assert versions == {"torch": "9"} and capsys.readouterr().out == '... {"peer": "wall", "us": 20.0}\n'


def test_the_mean_is_geometric_and_of_the_models_that_have_the_figure():
    rows = [{"ratios": {"compile": 0.5}}, {"ratios": {"compile": 2.0, "ort": 0.25}}, {"error": "exit 1"}]
    found = gpu_models.summary(rows)
    assert found["compile"] == {"mean": pytest.approx(1.0), "largest": 2.0, "models": 2} and found["ort"]["models"] == 1


def test_the_qa_table_counts_what_was_fused_by_what_runs_it():
    steps = [{"name": "a", "tactic": "hopper", "config": "128x96", "sources": ["x", "y"]},
             {"name": "b", "tactic": "cuda", "config": "", "sources": ["z"]}]
    ledger = [{"rewrite": "matmul_epilogue", "form": "bias", "result": "matched", "nodes": ["gone", "y"]},
              {"rewrite": "matmul_epilogue", "form": "bias", "result": "matched", "nodes": ["x"]},
              {"rewrite": "matmul_epilogue", "form": "bias", "result": "rejected", "nodes": ["z"]},
              {"rewrite": "conv_epilogue", "form": "relu", "result": "matched", "nodes": ["gone", "b"]},
              {"rewrite": "silu", "form": "x", "result": "matched", "nodes": ["gone"]},
              {"rewrite": "fold_constants", "form": "", "result": "matched", "nodes": ["x"]}]
    found = qa_table.kinds(ledger, steps)
    assert [(k["rewrite"], k["matched"], k["configs"]) for k in found] == [
        ("matmul_epilogue", 2, {"hopper 128x96": 2}), ("conv_epilogue", 1, {"cuda": 1}), ("silu", 1, {"no step of its own": 1})]
    side = {"average_ms": 2.0, "median_ms": 2.0, "p90_ms": 2.5, "host_bytes": 2**20, "device_bytes": 0}
    text = qa_table.table("m", {"before": side, "after": side | {"average_ms": 1.0}, "verdict": "twice as fast", "fused": found})
    assert "-50.0%" in text and "twice as fast" in text and "2 x hopper 128x96" in text


def test_the_qa_table_of_a_model(request, tmp_path):
    path = shared.filled("crnn.fp32", tmp_path)
    command = pathlib.Path(request.config.getoption("--build")) / "smelt"
    row = qa_table.measure(command, path, ["--tuning-level", 0, "--inputs", path.with_suffix(".inputs.npz")])
    assert row["before"]["average_ms"] > 0 and row["after"]["host_bytes"] > 0
    assert {(k["rewrite"], k["form"], k["matched"]) for k in row["fused"]} >= {("conv_epilogue", "relu", 4)}
    assert all("no step of its own" not in k["configs"] for k in row["fused"])
