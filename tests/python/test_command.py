"""The smelt command as a user meets it: results, files, exit codes, messages."""
import json
import os
import signal
import subprocess
import time

import numpy as np
import onnx
import onnxruntime as ort
import pytest

VERBS = ["info", "profile", "optimize", "quantize", "explain", "run", "bench", "compare", "diff", "inspect", "devices", "cache"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(command, verb):
    out = command(verb, "--help").stdout
    assert f"smelt {verb}" in out and "Example" in out


def test_an_unknown_verb_or_option_is_a_usage_error(command, small_model):
    assert "frobnicate" in command("frobnicate", code=2).stderr
    assert "--nope" in command("info", small_model, "--nope", code=2).stderr


def test_extents_that_nobody_gave_are_said_and_are_the_advice_where_a_run_fails(command, small_model, tmp_path):
    given = command("run", small_model, "--tuning-level", 0, "--shapes", "x:2x3x8x8")
    assert "symbolic extents" not in given.stderr
    assert "--shapes=x:1x3x8x8" in command("run", small_model, "--tuning-level", 0).stderr
    float32 = onnx.TensorProto.FLOAT
    x, y = (onnx.helper.make_tensor_value_info(name, float32, ["n", 3, "width", "width"]) for name in "xy")
    pool = onnx.helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4, 4])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([pool], "g", [x], [y]), ir_version=8,
                                     opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    said = command("run", tmp_path / "m.onnx", "--tuning-level", 0, code=1).stderr
    assert "does not fit" in said and "--shapes=x:1x3x1x1" in said
    command("run", tmp_path / "m.onnx", "--tuning-level", 0, "--shapes", "x:1x3x9x9")


def test_random_indices_are_the_advice_where_a_run_fails_on_them(command, tmp_path):
    table = onnx.numpy_helper.from_array(np.arange(2, dtype=np.float32).reshape(2, 1), "table")
    nodes = [onnx.helper.make_node("Add", ["i", "i"], ["j"]), onnx.helper.make_node("Gather", ["table", "j"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [64])],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [64, 1])], [table])
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    said = command("run", tmp_path / "m.onnx", "--tuning-level", 0, code=1).stderr
    assert "index" in said and "random where nothing gives them (i)" in said and "--inputs" in said


def test_a_model_where_a_profile_is_expected_is_said(command, small_model):
    assert "smelt profile" in command("diff", small_model, small_model, code=2).stderr


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "gpu:0"])
def test_devices_have_the_names_that_pytorch_gives_them(command, small_model, device):
    if command("devices").stdout.find("No GPU") < 0:
        pytest.skip("there is a GPU here")
    assert "no GPU" in command("run", small_model, "--device", device, code=3).stderr
    for wrong in (f"{device}x", "cuda:gpu:0", "cuda:", "cuda:-1"):
        assert "is none of" in command("run", small_model, "--device", wrong, code=2).stderr


def test_a_gpus_name_is_answered_with_its_architecture(command, small_model):
    assert "sm_90a (H100, H200)" in command("optimize", small_model, "--arch", "h100", code=2).stderr


def test_run_writes_arrays_named_after_the_outputs(command, small_model, tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    command("run", small_model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    expected = ort.InferenceSession(str(small_model)).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], expected, rtol=1e-5, atol=1e-5)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x.raw").write_bytes(x.tobytes())
    command("run", small_model, "--inputs", f"x:{tmp_path}/x.npy", "--outputs", f"y:{tmp_path}/y.npy")
    command("run", small_model, "--shapes", "x:2x3x8x8", "--inputs", f"x:{tmp_path}/x.raw", "--outputs", f"y:{tmp_path}/y.raw")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "y.raw").read_bytes() == np.load(tmp_path / "y.npy").tobytes()


@pytest.mark.parametrize("bits", [64, 128])
def test_complex_numbers_are_drawn_written_and_compared(command, tmp_path, bits):
    kind = {64: onnx.TensorProto.COMPLEX64, 128: onnx.TensorProto.COMPLEX128}[bits]
    value = {name: onnx.helper.make_tensor_value_info(name, kind, [2, 3]) for name in "xy"}
    graph = onnx.helper.make_graph([onnx.helper.make_node("Transpose", ["x"], ["t"]), onnx.helper.make_node("Transpose", ["t"], ["y"])],
                                   "g", [value["x"]], [value["y"]])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    command("run", tmp_path / "m.onnx", "--outputs", f"y:{tmp_path}/y.npy")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == f"complex{bits}" and y.shape == (2, 3) and (y.real != 0).all() and (y.imag != 0).all()
    np.savez(tmp_path / "in.npz", x=y)
    command("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--outputs", f"y:{tmp_path}/again.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "again.npy"), y)
    assert "6" in command("compare", tmp_path / "m.onnx", tmp_path / "m.onnx").stdout


def test_profile_writes_everything_into_a_folder(command, small_model, tmp_path):
    command("profile", small_model, "--shapes", "x:2x3x8x8", "--iterations", 3, "--out", tmp_path / "p")
    assert sorted(os.listdir(tmp_path / "p")) == ["graph.svg", "profile.json", "report.html", "trace.json"]
    after = json.loads((tmp_path / "p/profile.json").read_text())["after"]
    steps = after["steps"]
    assert {s for step in steps for s in step["sources"]} >= {"conv", "relu", "add"}
    events = json.loads((tmp_path / "p/trace.json").read_text())["traceEvents"]
    assert any(e["ph"] == "X" and e["dur"] > 0 for e in events)
    memory = [step["memory"] for step in steps]
    assert all(m["bound_bytes"] == 4 * 2 * 8 * 8 * (3 + 8) for m in memory), "x and y"
    assert [e["args"]["activations"] for e in events if e["ph"] == "C"] == [m["activation_bytes"] for m in memory]
    held = [after["weight_bytes"] + m["bound_bytes"] + m["activation_bytes"] + m["workspace_bytes"] for m in memory]
    assert held == [m["held_bytes"] for m in memory] and max(held) == after["peak_bytes"]
    assert steps[held.index(max(held))]["name"] == after["peak_step"]


def test_profile_print_only_writes_nothing(command, small_model, tmp_path):
    command("profile", small_model, "--iterations", 1, "--out", tmp_path / "p", "--trace", tmp_path / "t.json", "--print-only")
    assert not os.listdir(tmp_path)


def test_profile_sorts_by_a_named_column_and_lists_the_columns_otherwise(command, small_model):
    command("profile", small_model, "--iterations", 1, "--sort-by", "bytes")
    assert "self_us" in command("profile", small_model, "--iterations", 1, "--sort-by", "colour", code=2).stderr


def test_trace_nests_the_module_scopes(command, filled, tmp_path):
    command("profile", filled("unet.fp32"), "--iterations", 1, "--trace", tmp_path / "t.json", "--tuning-level", 0)
    events = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    modules, steps = [e for e in events if e["cat"] == "module"], [e for e in events if e["cat"] == "step"]
    assert modules and steps
    inside = [s for s in steps if any(m["ts"] <= s["ts"] and s["ts"] + s["dur"] <= m["ts"] + m["dur"] + 1e-3 for m in modules)]
    assert len(inside) > len(steps) / 2


def test_optimize_writes_a_plan_that_onnx_runtime_runs_with_the_same_answers(command, small_model, tmp_path):
    plan = tmp_path / "plan.onnx"
    command("optimize", small_model, "-o", plan)
    onnx.checker.check_model(str(plan))
    assert any(n.domain == "ai.smelt" for n in onnx.load(plan).graph.node)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = ort.InferenceSession(str(small_model)).run(None, {"x": x})[0]
    np.testing.assert_allclose(ort.InferenceSession(str(plan)).run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
    np.savez(tmp_path / "in.npz", x=x)
    command("run", plan, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], expected, rtol=1e-5, atol=1e-5)


def test_two_builds_of_a_plan_are_equal_byte_for_byte_twenty_times(command, small_model, tmp_path):
    plans = set()
    for _ in range(20):
        command("optimize", small_model, "-o", tmp_path / "plan.onnx", "--shapes", "x:2x3x8x8")
        plans.add((tmp_path / "plan.onnx").read_bytes())
    assert len(plans) == 1


def test_compare_of_a_model_with_itself_finds_nothing_and_with_another_exits_4(command, small_model, tmp_path):
    command("compare", small_model, "--shapes", "x:2x3x8x8", "--bisect")
    changed = onnx.load(small_model)
    for t in changed.graph.initializer:
        if t.name == "one":
            t.CopyFrom(onnx.numpy_helper.from_array(np.float32(1.75), "one"))
    onnx.save(changed, tmp_path / "changed.onnx")
    result = command("compare", small_model, tmp_path / "changed.onnx", "--shapes", "x:2x3x8x8", "--bisect", "--json", code=4)
    [first] = json.loads(result.stdout)["bisection"]
    assert (first["value"], first["node"]) == ("y", "add")


def test_bench_of_a_plan_against_itself_proves_nothing_and_says_so(command, small_model, tmp_path):
    plan = tmp_path / "plan.onnx"
    command("optimize", small_model, "-o", plan)
    args = ("bench", plan, "--against", plan, "--shapes", "x:1x3x8x8", "--require-speedup", "--iterations", 20, "--duration", 0)
    claims = [command(*args, code=None).returncode for _ in range(5)]
    assert set(claims) <= {0, 5} and claims.count(5) >= 3, claims


def test_bench_writes_trtexec_json(command, small_model, tmp_path):
    command("bench", small_model, "--iterations", 5, "--warmUp", 0, "--duration", 0, "--percentile", "50,95",
            "--exportTimes", tmp_path / "t.json", "--exportProfile", tmp_path / "p.json")
    times = json.loads((tmp_path / "t.json").read_text())
    spans = ("Enq", "H2d", "Compute", "D2h")
    keys = {f"{end}{span}Ms" for end in ("start", "end") for span in spans} | {"h2dMs", "computeMs", "d2hMs", "latencyMs"}
    assert len(times) >= 5 and times[0].keys() == keys
    profile = json.loads((tmp_path / "p.json").read_text())
    assert "count" in profile[0] and {"name", "timeMs", "averageMs", "medianMs", "percentage"} <= profile[1].keys()


def test_explain_names_the_nodes_of_each_match(command, small_model):
    rows = json.loads(command("explain", small_model, "--json").stdout)["ledger"]
    assert any(r["result"] == "matched" and "conv" in r["nodes"] and "relu" in r["nodes"] for r in rows)


def test_info_shows_the_graph_around_a_node_and_says_so_when_there_is_none(command, small_model):
    assert "relu" in command("info", small_model, "--node", "conv").stdout
    assert "--graph" in command("info", small_model, "--node", "nope", code=2).stderr


def test_cache_is_listed_exported_merged_and_cleared(command, small_model, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    command("run", small_model, "--cache-dir", a)
    listed = json.loads(command("cache", "--cache-dir", a, "list", "--json").stdout)["entries"]
    command("cache", "--cache-dir", a, "export", tmp_path / "e.json")
    command("cache", "--cache-dir", b, "merge", tmp_path / "e.json")
    assert json.loads(command("cache", "--cache-dir", b, "list", "--json").stdout)["entries"] == listed
    kernels = b / "kernels" / "0f"
    kernels.mkdir(parents=True)
    kept = [kernels / f"0f{'1' * 30}.cubin", kernels / "mine.txt"]
    for file in kept:
        file.write_bytes(bytes(1_500_000))
    assert "1 compiled kernel, 1.5 MB" in command("cache", "--cache-dir", b).stdout
    command("cache", "--cache-dir", b, "clear")
    assert json.loads(command("cache", "--cache-dir", b, "list", "--json").stdout)["entries"] == []
    assert [file.exists() for file in kept] == [False, True], "what smelt did not write stays"


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "garbage", '{"version": 1, "entries": [{"level": 1}]}', '{"version": 1, "entries": 3}'])
def test_garbage_is_not_merged_and_said_in_plain_words(command, tmp_path, text):
    (tmp_path / "e.json").write_text(text)
    result = command("cache", "--cache-dir", tmp_path, "merge", tmp_path / "e.json", code=2)
    assert "not an exported tuning cache" in result.stderr and "json.exception" not in result.stderr


def test_a_missing_model_and_a_full_disk_are_one_clear_line(command, small_model, tmp_path):
    result = command("run", tmp_path / "none.onnx", code=1)
    assert "none.onnx" in result.stderr and len(result.stderr.strip().splitlines()) <= 2
    if os.path.exists("/dev/full"):
        result = command("run", small_model, "--outputs", "y:/dev/full/y.npy", code=1)
        assert "/dev/full" in result.stderr


def test_ctrl_c_leaves_nothing_behind(command, filled, tmp_path):
    args = ["optimize", filled("unet.fp32"), "-o", tmp_path / "plan.onnx", "--copy-weights", "--no-cache", "--tuning-level", 3]
    process = subprocess.Popen([str(command.path), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert set(os.listdir(tmp_path)) in (set(), {"plan.onnx", "plan.data"})
    if os.listdir(tmp_path):
        onnx.checker.check_model(str(tmp_path / "plan.onnx"))


def test_bisect_names_the_node_of_a_damaged_plan_not_its_readers(command, filled, tmp_path):
    """One weight of a convolution in the middle of the plan is another one: the first wrong value is that convolution's."""
    model, plan = filled("mobilenet_v3_large.fp32"), tmp_path / "plan.onnx"
    command("optimize", model, "-o", plan, "--copy-weights", "--tuning-level", 0)
    proto = onnx.load(plan)
    fused = [n for n in proto.graph.node if n.domain == "ai.smelt"]
    victim = fused[len(fused) // 2]
    weights = next(t for t in proto.graph.initializer if t.name in victim.input and len(t.dims) > 1)
    values = onnx.numpy_helper.to_array(weights).copy()
    values.reshape(-1)[0] += 10
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
    onnx.save(proto, tmp_path / "damaged.onnx")
    result = command("compare", model, tmp_path / "damaged.onnx", "--bisect", "--json", "--tuning-level", 0, code=4)
    [first] = json.loads(result.stdout)["bisection"]
    assert first["node"] == victim.name and first["value"] in victim.output
    assert json.loads(command("compare", model, plan, "--bisect", "--json", "--tuning-level", 0).stdout)["bisection"] == []


def test_optimize_says_at_once_that_the_weights_lie_elsewhere(command, filled, tmp_path):
    model = filled("mobilenet_v3_large.fp32")
    begin = time.monotonic()
    result = command("optimize", model, "-o", tmp_path / "plan.onnx", "--no-cache", code=2)
    assert "--copy-weights" in result.stderr and time.monotonic() - begin < 5
    assert os.listdir(tmp_path) == []
    assert "replace" in command("optimize", model, "-o", model, code=2).stderr


def test_build_times_come_with_the_tuning_level(command, small_model, tmp_path):
    shapes = ("--shapes", "x:2x3x8x8", "--tuning-level", 1, "--no-cache")
    assert "tuning level 1" in command("optimize", small_model, "-o", tmp_path / "plan.onnx", *shapes).stdout
    assert "tuning level 1" in command("profile", small_model, "--iterations", 3, *shapes).stdout
    report = json.loads(command("bench", small_model, "--duration", 0, "--json", *shapes).stdout)["bench"]["after"]
    assert report["build"]["tuning_level"] == 1 and report["build_s"] > 0
    assert report["build"]["measured"] + report["build"]["cached"] <= report["build"]["problems"]


def test_progress_goes_to_a_terminal_only(command, filled):
    args = [str(command.path), "explain", str(filled("mobilenet_v3_large.fp32")), "--kernels", "--no-cache", "--json"]
    assert subprocess.run(args, capture_output=True, text=True, timeout=300).stderr == ""
    args += ["--tuning-level", "3"]   # long enough for a line
    main, terminal = os.openpty()
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    seen = b""
    while True:
        try:
            block = os.read(main, 4096)
        except OSError:   # the other side is closed
            break
        if not block:
            break
        seen += block
    assert process.wait(timeout=300) == 0
    assert b"tuning" in seen and b" left: " in seen and seen.endswith(b"\x1b[K")

