"""What limits a step, on kernels that are built to be each kind; the roof, the advice, and what other work took."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT, model_of
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def measured(command, cache):
    """The machine's ceilings, kept where every profile of this module finds them."""
    for threads in (1, 0):
        command("devices", "--measure", "--threads", threads, timeout=300)
    return command


def save(folder, name, nodes, inputs, outputs, initializers=()):
    path = folder / f"{name}.onnx"
    onnx.save(model_of(nodes, inputs, outputs, initializers), path)
    return path


def profiled(command, model, *more):
    options = ("--threads", 1, "--iterations", 7, "--json", *more)
    return json.loads(command("profile", model, *options, timeout=600).stdout)["after"]


def tensor(name, *shape):
    return onnx.numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float32), name)


def large_product(folder):
    return save(folder, "product", [helper.make_node("MatMul", ["x", "w"], ["y"], name="it")],
                [("x", TensorProto.FLOAT, [1024, 1024])], [("y", TensorProto.FLOAT, [1024, 1024])], [tensor("w", 1024, 1024)])


def strided_copy(folder):
    return save(folder, "copy", [helper.make_node("Transpose", ["x"], ["y"], name="it", perm=[1, 0])],
                [("x", TensorProto.FLOAT, [4096, 4096])], [("y", TensorProto.FLOAT, [4096, 4096])])


def dependent_chain(folder):
    hidden, steps = 16, 4000
    return save(folder, "chain", [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="it", hidden_size=hidden)],
                [("x", TensorProto.FLOAT, [steps, 1, 4])], [("y", TensorProto.FLOAT, [steps, 1, 1, hidden])],
                [tensor("w", 1, 4 * hidden, 4), tensor("r", 1, 4 * hidden, hidden)])


def tiny_kernels(folder):
    ops = ["Tanh", "Sin", "Abs", "Cos", "Neg", "Sigmoid"] * 5
    values = ["x", *[f"v{i}" for i in range(len(ops) - 1)], "y"]
    nodes = [helper.make_node(op, [values[i]], [values[i + 1]], name=f"it{i}") for i, op in enumerate(ops)]
    return save(folder, "tiny", nodes, [("x", TensorProto.FLOAT, [1, 4])], [("y", TensorProto.FLOAT, [1, 4])])


@pytest.mark.parametrize("build, kind", [(large_product, "compute"), (strided_copy, "memory"), (dependent_chain, "latency"),
                                         (tiny_kernels, "launch")], ids=["product", "copy", "chain", "tiny"])
def test_a_kernel_built_to_be_of_a_kind_gets_its_name(measured, tmp_path, build, kind):
    profile = profiled(measured, build(tmp_path))
    steps = [s for s in profile["steps"] if s["name"].startswith("it")]
    assert steps and {s["limiter"] for s in steps} == {kind}, [(s["limiter"], s["because"], s["us"]) for s in steps]
    assert all(s["because"] for s in steps) and profile["limits_from"] == ("model" if profile["not_counted"] else "model and counters")
    for s in steps:
        assert s["roof_share"] == pytest.approx(max(s["compute_us"], s["memory_us"]) / s["us"]["median"])
        assert s["at_stake_us"] == pytest.approx(max(0, s["own_us"] - max(s["compute_us"], s["memory_us"])))
        assert 0 < s["own_us"] <= s["us"]["median"] and s["begin_us"] < s["end_us"]


def test_work_is_the_operators_and_not_its_kernels(measured, tmp_path):
    """A convolution reads its input once, however its kernel gathers windows of it."""
    x, w, y = (1, 32, 40, 40), (64, 32, 3, 3), (1, 64, 40, 40)
    path = save(tmp_path, "conv", [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])],
                [("x", TensorProto.FLOAT, x)], [("y", TensorProto.FLOAT, y)], [tensor("w", *w)])
    [step] = [s for s in profiled(measured, path)["steps"] if s["name"] == "conv"]
    count = [int(np.prod(s)) for s in (x, w, y)]
    assert step["bytes"] == 4 * sum(count)
    assert step["flops"] == 2 * count[2] * 32 * 9
    assert step["flops_per_byte"] == pytest.approx(step["flops"] / step["bytes"])


def test_each_node_of_the_model_has_its_part_of_a_fused_step(measured, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="relu"), helper.make_node("MaxPool", ["r"], ["y"], name="pool", kernel_shape=[2, 2])]
    path = save(tmp_path, "two", nodes, [("x", TensorProto.FLOAT, [1, 32, 40, 40])], [("y", TensorProto.FLOAT, [1, 32, 39, 39])],
                [tensor("w", 32, 32, 3, 3)])
    profile = profiled(measured, path, "--optimized")
    rows = {r["name"]: r for r in profile["nodes"]}
    assert list(rows) == ["conv", "relu", "pool"]
    fused = next(s for s in profile["steps"] if len(s["sources"]) == 2)
    assert rows["conv"]["step"] == rows["relu"]["step"] == fused["name"]
    assert rows["conv"]["us"] + rows["relu"]["us"] == pytest.approx(fused["us"]["median"])
    assert rows["conv"]["us"] > rows["relu"]["us"], "by what each would take at the roof"
    assert rows["relu"]["bytes"] == 2 * 4 * 32 * 40 * 40
    assert profiled(measured, path)["nodes"] == [], "steps are nodes there"


def test_advice_comes_first_with_its_microseconds_and_its_place(measured, tmp_path):
    model = tiny_kernels(tmp_path)
    profile = profiled(measured, model)
    order = [(a["from"] == "roof", -a["us"]) for a in profile["advice"]]
    assert order == sorted(order) and all(a["us"] > 0 for a in profile["advice"]), "what is promised, then what is a bound"
    names = {s["name"] for s in profile["steps"]}
    tiny = next(a for a in profile["advice"] if "tiny steps" in a["what"])
    assert set(tiny["steps"]) <= names and len(tiny["steps"]) == 30
    assert any("--optimized" in a["what"] and a["from"] == "rewrites" for a in profile["advice"])
    said = measured("profile", model, "--threads", 1, "--iterations", 3).stdout
    assert "Why slow, what next\n  1. " in said


def test_advice_that_an_option_follows_is_planned_and_tried(measured, tmp_path):
    """Thirty functions of four elements become one step: starting the others is foreseen to be saved, and is."""
    model = tiny_kernels(tmp_path)
    first = {}
    for how in ("--what-if", "--try"):
        profile = profiled(measured, model, how, "--tuning-level", 1)
        first[how] = next(a for a in profile["advice"] if a["option"] == "--optimized")
        assert first[how]["from"] == "measured" and "7 runs of that plan" in first[how]["why"], "its one step runs nowhere here"
        assert 0 < first[how]["us"] < profile["latency_us"]["median"]
    assert first["--what-if"]["tried_us"] is None
    assert first["--try"]["tried_us"] > 0
    said = measured("profile", model, "--threads", 1, "--iterations", 3, "--try").stdout
    assert " when tried: run it as smelt rewrites it" in said


def test_what_rewrites_are_kept_from_is_priced(measured, tmp_path):
    """A convolution whose result is read twice keeps its Relu apart."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="relu"), helper.make_node("Add", ["r", "c"], ["y"], name="add")]
    path = save(tmp_path, "kept", nodes, [("x", TensorProto.FLOAT, [1, 3, 256, 256])], [("y", TensorProto.FLOAT, [1, 3, 256, 256])],
                [tensor("w", 3, 3, 3, 3)])
    profile = profiled(measured, path, "--optimized")
    advice, run = profile["advice"], profile["latency_us"]["median"]
    assert all("--optimized" not in a["what"] for a in advice)
    ledger = json.loads(measured("explain", path, "--json").stdout)["ledger"]
    priced = [e for e in ledger if e["result"] == "rejected" and e["cost_us"]]
    kept = [a for a in advice if a["from"] == "rewrites"]
    assert len(kept) <= len(priced) and all(any(a["us"] == pytest.approx(min(run, e["cost_us"])) for e in priced) for a in kept)


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel counts no waiting")
def test_a_profile_says_when_others_use_the_cores_and_what_it_cost(measured, tmp_path):
    model = large_product(tmp_path)
    cores = os.sched_getaffinity(0)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(cores))]
    try:
        beside = profiled(measured, model)
    finally:
        for p in busy:
            p.kill()
            p.wait()
    seen = beside["other_work"]
    assert seen["disturbed"] > 0 and seen["waited_us"] > 0 and seen["cost_us"] > 0, seen
    assert any("other work" in a["what"] for a in beside["advice"])
    assert seen["cost_us"] < beside["latency_us"]["median"]


def problems(value, schema, root, at="report"):
    """What of a value does not fit its schema: types, names, enumerations, of what docs/report.schema.json uses."""
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    if "anyOf" in schema:
        return min((problems(value, s, root, at) for s in schema["anyOf"]), key=len)
    if "const" in schema and value != schema["const"]:
        return [f"{at}: {value!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    is_a = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}

    def fits(kind):
        if kind in ("number", "integer"):
            return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
        return isinstance(value, is_a[kind])

    kinds = schema.get("type", [])
    if kinds and not any(fits(k) for k in ([kinds] if isinstance(kinds, str) else kinds)):
        return [f"{at}: {value!r} is no {kinds}"]
    found = []
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at}: lacks {k}" for k in schema.get("required", []) if k not in value]
        for k, v in value.items():
            if k in known:
                found += problems(v, known[k], root, f"{at}.{k}")
            elif more is False:
                found.append(f"{at}: {k} is not described")
            elif isinstance(more, dict):
                found += problems(v, more, root, f"{at}.{k}")
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            found += problems(v, schema["items"], root, f"{at}[{i}]")
    return found


def described(text):
    """What a verb printed, held to the schema that is published of its format."""
    document = json.loads(text)
    schema = json.loads((ROOT / "docs" / f"{document['format'].removeprefix('smelt.')}.schema.json").read_text())
    assert problems(document, schema, schema, document["format"]) == []
    return document


SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())


def test_the_json_is_what_its_published_schema_says(measured, filled, tmp_path):
    model = filled("unet.fp32")
    options = ("--threads", 1, "--tuning-level", 0, "--iterations", 2, "--json")
    for args in (("profile", model), ("profile", model, "--optimized"), ("bench", model, "--duration", 0, "--warmUp", 0)):
        report = json.loads(measured(*args, *options, timeout=600).stdout)
        assert problems(report, SCHEMA, SCHEMA) == []
        assert report["version"] == SCHEMA["properties"]["version"]["const"]
    measured("bench", model, *options[:-1], "--duration", 0, "--warmUp", 0, "--report", tmp_path / "r.html", timeout=600)


def test_the_check_of_the_schema_finds_what_is_wrong():
    step = {"name": "x"}
    assert any("lacks limiter" in p for p in problems(step, {"$ref": "#/$defs/step"}, SCHEMA))
    assert problems({"bytes_per_s": 1, "launch_us": "2", "flops_per_s": {"f32": True}, "under_load": False, "more": 1},
                    {"$ref": "#/$defs/roof"}, SCHEMA) == ["report.launch_us: '2' is no number", "report.flops_per_s.f32: True is no number",
                                                          "report: more is not described"]


def test_loops_and_branches_are_profiled_inside(measured, tmp_path):
    """A Loop of five products, in the second and fourth of which an If takes its one branch, else the other."""
    half = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [128, 128]) for n in ("same", "turned")]
    branches = {"then_branch": helper.make_graph([helper.make_node("Sin", ["h"], ["same"], name="sine")], "then", [], half[:1]),
                "else_branch": helper.make_graph([helper.make_node("Tanh", ["h"], ["turned"], name="tangent")], "else", [], half[1:])}
    scalar = lambda n, t: helper.make_tensor_value_info(n, t, [])  # noqa: E731
    body = helper.make_graph(
        [helper.make_node("MatMul", ["v", "w"], ["h"], name="product"), helper.make_node("Mod", ["i", "two"], ["m"], name="mod"),
         helper.make_node("Cast", ["m"], ["odd"], name="cast", to=TensorProto.BOOL),
         helper.make_node("If", ["odd"], ["out"], name="choice", **branches), helper.make_node("Identity", ["c"], ["go"], name="go")],
        "body", [scalar("i", TensorProto.INT64), scalar("c", TensorProto.BOOL), helper.make_tensor_value_info("v", TensorProto.FLOAT, [128, 128])],
        [scalar("go", TensorProto.BOOL), helper.make_tensor_value_info("out", TensorProto.FLOAT, [128, 128])])
    constants = [helper.make_tensor("n", TensorProto.INT64, [], [5]), helper.make_tensor("two", TensorProto.INT64, [], [2]),
                 helper.make_tensor("on", TensorProto.BOOL, [], [True]), tensor("w", 128, 128)]
    path = save(tmp_path, "loop", [helper.make_node("Loop", ["n", "on", "x"], ["y"], name="loop", body=body)],
                [("x", TensorProto.FLOAT, [128, 128])], [("y", TensorProto.FLOAT, [128, 128])], constants)
    profile = profiled(measured, path)
    rows = {r["name"]: r for r in profile["inside"]}
    assert rows["product"]["inside"] == "loop: body" and rows["product"]["calls"] == 5
    assert rows["product"]["flops"] == 2 * 128**3 and rows["product"]["limiter"] in ("compute", "latency", "memory", "launch")
    assert (rows["sine"]["inside"], rows["sine"]["calls"]) == ("loop: body / choice: then_branch", 2)
    assert (rows["tangent"]["inside"], rows["tangent"]["calls"]) == ("loop: body / choice: else_branch", 3)
    [loop] = [s for s in profile["steps"] if s["name"] == "loop"]
    assert loop["tactic"] == "plan" and rows["choice"]["tactic"] == "plan", "their bodies are planned: no reference runs"
    inside = sum(r["us"] for r in profile["inside"] if r["inside"] == "loop: body")
    assert inside > 0 and rows["choice"]["us"] >= rows["sine"]["us"] + rows["tangent"]["us"]
    assert rows["product"]["us"] == pytest.approx(5 * rows["product"]["call_us"])
    assert inside < 10 * loop["us"]["median"], "of other runs, on a machine that others use"
    assert "Steps inside of If, Loop and Scan" in measured("profile", path, "--threads", 1, "--iterations", 2).stdout
    assert problems(profile, {"$ref": "#/$defs/profile"}, SCHEMA) == []
