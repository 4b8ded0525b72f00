"""Plans that start: they carry what they were chosen with, and ranges of shapes that they were prepared for."""
import json
import os
import re
import stat

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper


def weights(*shape):
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)


@pytest.fixture
def model(tmp_path):
    """Two convolutions and a product over an image of symbolic height and width."""
    nodes = [helper.make_node("Conv", ["x", "k1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["r1"], name="relu"),
             helper.make_node("Conv", ["r1", "k2"], ["c2"], name="second", pads=[1, 1, 1, 1]),
             helper.make_node("GlobalAveragePool", ["c2"], ["p"], name="mean"),
             helper.make_node("Flatten", ["p"], ["f"], name="flat"),
             helper.make_node("MatMul", ["f", "w"], ["y"], name="product")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(weights(16, 8, 3, 3), "k1"), numpy_helper.from_array(weights(16, 16, 3, 3), "k2"),
         numpy_helper.from_array(weights(16, 10), "w")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def image(h, w):
    return {"x": np.random.default_rng(h * w).uniform(-1, 1, (1, 8, h, w)).astype(np.float32)}


RANGE = "x:1x8x16:32:64x16:32:64"


def expect_right(session, model, shapes):
    plain = smelt.Session(model, optimize=False, tuning_level=0, use_cache=False)
    for h, w in shapes:
        np.testing.assert_allclose(session.run(None, image(h, w))[0], plain.run(None, image(h, w))[0], rtol=1e-4, atol=1e-5)


def test_ranges_prepare_for_all_shapes_between(model):
    session = smelt.Session(model, shapes={"x": (1, 8, (16, 32, 64), (16, 32, 64))}, tuning_level=1, threads=2)
    assert session.get_inputs()[0].shape == [1, 8, "h", "w"]
    expect_right(session, model, [(32, 32), (16, 64), (17, 61), (33, 40), (100, 3)])


def test_several_ranges_are_a_list(model):
    shapes = [{"x": (1, 8, 16, 16)}, {"x": (1, 8, (32, 48, 64), 64)}]
    expect_right(smelt.Session(model, shapes=shapes, tuning_level=0, threads=2), model, [(16, 16), (50, 64)])


@pytest.mark.parametrize("shapes", [{"gone": (1, (1, 2, 3))}, {"x": (1, 8, (32, 16, 64), 64)}, {"x": (1, 9, (1, 2, 3), 64)}])
def test_ranges_that_do_not_fit_are_refused(model, shapes):
    with pytest.raises(smelt.UsageError):
        smelt.Session(model, shapes=shapes, tuning_level=0)


def plan_of(command, model, shapes, *options):
    plan = model.with_suffix(".plan.onnx")
    command("optimize", model, "-o", plan, "--copy-weights", "--shapes", shapes, "--tuning-level", 1, "--threads", 2, *options)
    return plan


def measured_by(command, plan, *options, **kwargs):
    """How many problems loading the plan measured, and what it said."""
    done = command("profile", plan, "--print-only", "--iterations", 2, "--threads", 2, *options, **kwargs)
    return 0 if "nothing measured" in done.stdout else int(re.search(r"(\d+) measured", done.stdout)[1]), done.stderr


@pytest.mark.parametrize("shapes", [RANGE, "x:1x8x32x32"])
def test_a_plan_starts_without_measuring_where_there_is_no_cache(command, model, tmp_path, shapes):
    plan = plan_of(command, model, shapes, "--cache-dir", tmp_path / "first")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    folder.chmod(stat.S_IREAD | stat.S_IEXEC)
    bare = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "SMELT_CACHE_DIR")}
    for environment in (bare, bare | {"SMELT_CACHE_DIR": str(folder)}, bare | {"HOME": "/nonexistent"}):
        measured, said = measured_by(command, plan, "--shapes", shapes, env=environment)
        assert measured == 0
        assert "were chosen on" not in said


def test_a_plan_is_profiled_as_it_runs(command, model, tmp_path):
    plan = plan_of(command, model, "x:1x8x32x32", "--cache-dir", tmp_path / "first")
    metadata = {p.key: p.value for p in onnx.load(plan).metadata_props}
    carried = {line.split("\t")[-1] for line in metadata["smelt.plan.tactics"].splitlines()}
    report = json.loads(command("profile", plan, "--json", "--print-only", "--iterations", 2, "--threads", 2).stdout)
    found = {" ".join(filter(None, (s["tactic"], s["config"]))) for s in report["after"]["steps"]}
    assert found == carried


def with_metadata(plan, key, change):
    """Rewrites an entry of the plan's metadata; the graph stays as it is."""
    model = onnx.load(plan, load_external_data=False)
    entry, = (p for p in model.metadata_props if p.key == key)
    entry.value = change(entry.value)
    onnx.save(model, plan)


def test_a_plan_of_another_machine_says_what_it_measures_again(command, model, tmp_path):
    plan = plan_of(command, model, "x:1x8x32x32", "--cache-dir", tmp_path / "first")
    with_metadata(plan, "smelt.plan.device", lambda _: "another CPU (6.1.1), avx2, 2 threads")
    measured, said = measured_by(command, plan, "--tuning-level", 1, "--cache-dir", tmp_path / "second")
    assert measured > 0
    assert "were chosen on another CPU (6.1.1), avx2, 2 threads" in said and "measured again" in said
    measured, said = measured_by(command, plan, "--tuning-level", 0, "--cache-dir", tmp_path / "third")
    assert measured == 0
    assert "measured again" not in said


@pytest.fixture
def at_rest(command):
    """Whether a plan is opened without a look at what could be rewritten."""
    def is_at_rest(plan, *options):
        done = command("run", plan, "--tuning-level", 0, "--threads", 2, *options, env={**os.environ, "SMELT_LOG": "info"})
        return "the graph is at rest" in done.stderr
    return is_at_rest


def test_a_plans_graph_is_rewritten_again_only_where_that_could_find_something(command, model, at_rest, tmp_path):
    plan = plan_of(command, model, "x:1x8x32x32")
    assert at_rest(plan)
    assert not at_rest(plan, "--skip", "conv_epilogue")
    again = tmp_path / "again.onnx"
    command("optimize", plan_of(command, model, "x:1x8x32x32"), "-o", again, "--copy-weights", "--skip", "conv_epilogue")
    assert not at_rest(again) and at_rest(again, "--skip", "conv_epilogue")


@pytest.mark.parametrize("changed", ["the graph", "the sources", "not at all"])
def test_a_plan_of_another_graph_or_build_is_rewritten_again(command, model, at_rest, changed):
    """Builds of one version differ in their sources."""
    plan = plan_of(command, model, "x:1x8x32x32")
    if changed == "the graph":
        graph = onnx.load(plan, load_external_data=False)
        graph.graph.node[0].doc_string = "by another tool"
        onnx.save(graph, plan)
    else:
        digits = r"(?<=^sources )[0-9a-f]{16}(?=, )"
        with_metadata(plan, "smelt.plan.rewritten",
                      lambda text: re.sub(digits, "0" * 16 if changed == "the sources" else r"\g<0>", text))
    assert at_rest(plan) == (changed == "not at all")


def test_a_process_that_measures_nothing_makes_no_tuning_cache(command, model, tmp_path):
    cache = tmp_path / "cache"
    plan = plan_of(command, model, "x:1x8x32x32", "--cache-dir", tmp_path / "first")
    command("run", plan, "--threads", 2, "--cache-dir", cache)
    assert not (cache / "tuning.db").exists()
    command("run", model, "--shapes", "x:1x8x32x32", "--tuning-level", 1, "--threads", 2, "--cache-dir", cache)
    assert (cache / "tuning.db").exists()


def test_a_damaged_list_of_choices_is_left_out(command, model, tmp_path):
    plan = plan_of(command, model, RANGE, "--cache-dir", tmp_path / "first")
    broken = onnx.load(plan)
    for p in broken.metadata_props:
        if p.key in ("smelt.plan.tactics", "smelt.plan.profiles", "smelt.plan.plain"):
            p.value = p.value[: len(p.value) // 2] + "\t\n1x-2 x"
    onnx.save(broken, plan)
    expect_right(smelt.Session(plan, tuning_level=0, threads=2), model, [(32, 32), (20, 50)])


NOT_THE_BODY = "is not what its function body in the plan computes"


@pytest.fixture
def fused_plan(tmp_path):
    """The plan of x @ w + b with a Relu behind it, which becomes one fused node."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]),
         helper.make_node("Relu", ["s"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(weights(8, 4), "w"), numpy_helper.from_array(weights(4), "b")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    smelt.optimize(path, tmp_path / "plan.onnx", tuning_level=0, use_cache=False)
    plan = onnx.load(tmp_path / "plan.onnx")
    assert [n.domain for n in plan.graph.node] == ["ai.smelt"], "the model is to become one fused node"
    return tmp_path / "plan.onnx"


def change_program(plan):
    [program] = [a for a in plan.graph.node[0].attribute if a.name == "program"]
    assert b"relu" in program.s
    program.s = program.s.replace(b"relu", b"neg")


def change_body(plan):
    [relu] = [n for n in plan.functions[0].node if n.op_type == "Relu"]
    relu.op_type = "Neg"


def change_versions(plan):
    for o in [*plan.opset_import, *plan.functions[0].opset_import]:
        if not o.domain:
            o.version = 14


@pytest.mark.parametrize("shapes", [None, {"x": (3, 8)}])
@pytest.mark.parametrize("change", [None, change_program, change_body, change_versions])
def test_a_fused_node_whose_body_says_something_else_runs_as_its_body(fused_plan, command, change, shapes):
    """What another runtime computes, and a person reads, is what smelt computes."""
    plan = onnx.load(fused_plan)
    if change:
        change(plan)
        onnx.save(plan, fused_plan)
    x = np.random.default_rng(3).uniform(-1, 1, (3, 8)).astype(np.float32)
    [theirs] = ort.InferenceSession(fused_plan, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    session = smelt.Session(fused_plan, tuning_level=0, use_cache=False, **({"shapes": shapes} if shapes else {}))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        smelt.Session(fused_plan.read_bytes(), tuning_level=0, use_cache=False).run(None, {"x": x})[0], theirs, rtol=1e-5, atol=1e-6)
    arguments = ["--shapes=x:3x8"] if shapes else []
    said = command("run", fused_plan, "--tuning-level", "0", "--no-cache", *arguments).stderr
    assert (NOT_THE_BODY in said) == bool(change), said


@pytest.mark.parametrize("name", ["mobilenet_v3_large.fp32", "detector.fp32"])
def test_plans_keep_their_fused_nodes_when_they_are_read(command, filled, tmp_path, name):
    plan = tmp_path / "plan.onnx"
    command("optimize", filled(name), "-o", plan, "--copy-weights", "--tuning-level", "0", "--no-cache")
    assert sum(n.domain == "ai.smelt" for n in onnx.load(plan, load_external_data=False).graph.node) > 5
    assert NOT_THE_BODY not in command("explain", plan).stderr
