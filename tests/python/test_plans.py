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
from conftest import trust_all_timings
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


@pytest.fixture(scope="module")
def steps_of_all_sizes(tmp_path_factory):
    """A product of one row with what follows it, which is fused, a norm of one row, and a softmax: too little for two threads. And a
    product that two threads share. Nothing else."""
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["p1"], name="row"), helper.make_node("Add", ["p1", "b1"], ["s1"], name="bias"),
             helper.make_node("Relu", ["s1"], ["r1"], name="relu"),
             helper.make_node("LayerNormalization", ["r1", "scale", "shift"], ["n1"], name="norm", axis=-1),
             helper.make_node("MatMul", ["n1", "w2"], ["p2"], name="second"),
             helper.make_node("Softmax", ["p2"], ["y"], name="softmax"),
             helper.make_node("MatMul", ["image", "w3"], ["p3"], name="shared"), helper.make_node("Relu", ["p3"], ["z"], name="last")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64]),
                     helper.make_tensor_value_info("image", TensorProto.FLOAT, [256, 384])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10]),
         helper.make_tensor_value_info("z", TensorProto.FLOAT, [256, 384])],
        [numpy_helper.from_array(weights(64, 48), "w1"), numpy_helper.from_array(weights(48), "b1"),
         numpy_helper.from_array(weights(48), "scale"), numpy_helper.from_array(weights(48) + 1, "shift"),
         numpy_helper.from_array(weights(48, 10), "w2"), numpy_helper.from_array(weights(384, 384), "w3")])
    path = tmp_path_factory.mktemp("sizes") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def opened(command, plan, *options, threads):
    """How a plan or a model is built: the numbers of its build, the rows of its kernels that run, and what was said."""
    info = {**os.environ, "SMELT_LOG": "info"}
    done = command("profile", plan, "--print-only", "--iterations", 2, "--threads", threads, *options, env=info)
    rows = json.loads(command("explain", plan, "--kernels", "--json", "--threads", threads, *options).stdout)["tactics"]
    measured = re.search(r"(\d+) measured in ([\d.]+) (ns|µs|ms|s)\b", done.stdout)
    reused = re.search(r"(\d+) problems (?:were )?decided by timings with another number of threads", done.stdout)
    build = {"measured": int(measured[1]) if measured else 0, "reused": int(reused[1]) if reused else 0,
             "tuning_s": float(measured[2]) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[measured[3]] if measured else 0}
    return build, [r for r in rows if r["result"] == "runs"], done.stderr


def measured_small(said):
    """Of the problems, races of ways among them, that were measured, those that two threads do not share."""
    return [problem for problem in re.findall(r"measured (.*): .* takes ", said) if "256" not in problem]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_a_plan_keeps_with_another_number_of_threads(command, steps_of_all_sizes, tmp_path, first, then, level):
    """What two threads do not share is not measured again, not in a comparison of a fused step with its parts either."""
    plan = tmp_path / "plan.onnx"
    command("optimize", steps_of_all_sizes, "-o", plan, "--copy-weights", "--tuning-level", level, "--threads", first, "--cache-dir",
            tmp_path / "first")
    build, rows, said = opened(command, plan, "--tuning-level", level, "--cache-dir", tmp_path / "second", threads=then)
    fresh, _, _ = opened(command, steps_of_all_sizes, "--tuning-level", level, "--cache-dir", tmp_path / "third", threads=then)
    told = re.search(r"(\d+) choices were reused from timings with another number of threads, (\d+) problems were measured again", said)
    assert told and [int(n) for n in told.groups()] == [build["reused"], build["measured"]], said
    small = [r for r in rows if "256" not in r["problem"]]
    assert len(small) >= 4
    thread = f"{first} thread" + "s" * (first > 1)
    raced = [r for r in small if r["reason"] not in ("the only one", "lowest estimate")]  # of others one candidate was worth measuring
    assert len(raced) >= 3 and [r for r in raced if f"as measured with {thread}" not in r["reason"]] == []
    assert measured_small(said) == []
    assert build["measured"] <= fresh["measured"]
    assert build["tuning_s"] < 2 * fresh["tuning_s"] + 0.05  # other work may hold up either


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_a_models_timings_keep_with_another_number_of_threads(command, steps_of_all_sizes, tmp_path, first, then):
    cache = ("--tuning-level", 2, "--cache-dir", tmp_path / "cache")
    fresh, _, _ = opened(command, steps_of_all_sizes, *cache, threads=first)
    trust_all_timings(tmp_path / "cache")  # what was measured beside other work would be measured anew
    build, _, said = opened(command, steps_of_all_sizes, *cache, threads=then)
    assert build["reused"] > 0 and build["measured"] < fresh["measured"]
    assert measured_small(said) == []
    later, _, _ = opened(command, steps_of_all_sizes, *cache, threads=then)
    assert later["measured"] == 0


def test_without_measuring_a_plan_takes_the_other_counts_choices(command, steps_of_all_sizes, tmp_path):
    plan = tmp_path / "plan.onnx"
    command("optimize", steps_of_all_sizes, "-o", plan, "--copy-weights", "--threads", 2, "--cache-dir", tmp_path / "first")
    build, rows, said = opened(command, plan, "--tuning-level", 0, threads=1)
    assert build["measured"] == 0 and build["reused"] > 0
    assert "choices were reused" in said and "0 problems were measured again" in said
    carried = [line.split("\t")[-1] for line in
               {p.key: p.value for p in onnx.load(plan).metadata_props}["smelt.plan.tactics"].splitlines()]
    taken = {r["tactic"] for r in rows if "as measured with 2 threads" in r["reason"] and "256" not in r["problem"]}
    assert taken and taken <= set(carried)
    with_metadata(plan, "smelt.plan.timings", lambda text: text[:len(text) // 3] + "\n=\t\n@\n\tx")
    build, _, _ = opened(command, plan, "--tuning-level", 0, threads=1)
    assert build["measured"] == 0


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
