"""What is given to the verbs: inputs of two models by name, outputs by file, lists before the model, ranges."""
import json

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper


def float_info(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture
def models(tmp_path):
    """difference(a, b) = a - b; reversed: the same with its inputs the other way round; pair: two outputs of almost one name."""
    a, b, y = (float_info(n, [2, 3]) for n in "aby")
    sub = helper.make_node("Sub", ["a", "b"], ["y"])
    graphs = {"difference": helper.make_graph([sub], "g", [a, b], [y]), "reversed": helper.make_graph([sub], "g", [b, a], [y]),
              "pair": helper.make_graph([helper.make_node("Neg", ["a"], ["o/1"]), helper.make_node("Abs", ["a"], ["o:1"])], "g", [a],
                                        [float_info("o/1", [2, 3]), float_info("o:1", [2, 3])])}
    for name, graph in graphs.items():
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / f"{name}.onnx")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "in.npz", a=rng.standard_normal((2, 3), np.float32), b=rng.standard_normal((2, 3), np.float32))
    return tmp_path


QUICK = ("--tuning-level", 0, "--threads", 1)


def test_bench_gives_the_other_model_its_inputs_by_name(models, command):
    report = models / "r.html"
    command("bench", models / "difference.onnx", "--against", models / "reversed.onnx", "--inputs", models / "in.npz",
            "--iterations", 2, "--duration", 0, "--report", report, *QUICK)
    text = report.read_text()
    page = json.loads(text[text.index('<script type="application/json"'):].split(">", 1)[1].split("</script>", 1)[0])
    column = [c["key"] for c in page["errors"]["columns"]].index("max_abs")
    assert [row[column][1] for row in page["errors"]["rows"]] == [0]


def test_outputs_of_one_spelling_get_files_of_their_own(models, command):
    command("run", models / "pair.onnx", "--inputs", models / "in.npz", "--outputs", models / "out", *QUICK, code=2)   # b is not its
    np.savez(models / "a.npz", a=np.full((2, 3), -2, np.float32))
    command("run", models / "pair.onnx", "--inputs", models / "a.npz", "--outputs", models / "out", *QUICK)
    assert sorted(float(np.load(f)[0, 0]) for f in (models / "out").iterdir()) == [2, 2]
    assert len(list((models / "out").iterdir())) == 2
    said = command("run", models / "pair.onnx", "--outputs", models / "one.npy", *QUICK, code=2).stderr
    assert "the model has 2 outputs" in said and not (models / "one.npy").exists()
    command("run", models / "difference.onnx", "--outputs", models / "one.npy", *QUICK)
    assert np.load(models / "one.npy").shape == (2, 3)


def test_a_list_before_the_model_does_not_swallow_it(models, command):
    command("run", "--inputs", models / "in.npz", models / "difference.onnx", *QUICK)
    command("compare", "--skip", "attention,dead_code", models / "difference.onnx", models / "reversed.onnx", *QUICK)
    command("run", "--outputs", models / "o.npz", models / "difference.onnx", *QUICK)
    command("bench", "--percentile", "50,90", models / "difference.onnx", "--iterations", 1, "--duration", 0, *QUICK)


def test_a_cache_is_merged_from_the_folder_at_hand(models, command):
    command("optimize", models / "difference.onnx", "-o", models / "p.onnx", "--cache-dir", models / "cache")
    command("cache", "list", "--cache-dir", models / "cache")
    other = models / "cache/tuning.db"
    for first in (True, False):   # what is there already is not taken again
        said = command("cache", "merge", other.name, "--cache-dir", models / "mine", cwd=other.parent,
                       executable=command.path.resolve()).stdout
        assert "entries taken from" in said and said.startswith("0 ") != first
    said = command("cache", "merge", models / "difference.onnx", "--cache-dir", models / "mine", code=1).stderr
    assert "Delete" not in said and "smelt cache export" in said


@pytest.mark.parametrize("tolerance", ["nan", "-1"])
def test_a_tolerance_is_a_number_that_is_not_negative(models, command, tolerance):
    command("compare", models / "difference.onnx", models / "reversed.onnx", f"--rtol={tolerance}", *QUICK, code=2)


def test_a_plan_never_replaces_its_model(models):
    path = models / "difference.onnx"
    before = path.read_bytes()
    with pytest.raises(smelt.UsageError, match="would replace the model it is made from"):
        smelt.optimize(str(path), str(path), tuning_level=0)
    assert path.read_bytes() == before


def test_counts_of_runs_begin_at_one(models):
    path = str(models / "difference.onnx")
    with pytest.raises(smelt.UsageError, match="0 iterations"):
        smelt.profile(path, iterations=0, tuning_level=0)
    with pytest.raises(smelt.UsageError, match="-1 iterations"):
        smelt.bench(path, iterations=-1, duration=0, tuning_level=0)


def test_a_filter_that_refuses_the_reordering_tactic_leaves_images_as_they_are(tmp_path, command):
    w = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [float_info("x", [1, 8, 16, 16])], [float_info("y", [1, 8, 16, 16])], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    for tactics in ("-all,+onednn", "-cpu", "-all,+avx2"):
        command("run", tmp_path / "m.onnx", f"--tactics={tactics}", *QUICK)
    assert "--tactics=-all,+" in command("run", tmp_path / "m.onnx", "--tactics=-all", *QUICK, code=3).stderr


def test_more_threads_than_any_machine_has_are_an_error(models):
    with pytest.raises(smelt.UsageError, match="5000 threads: expected at most 4096"):
        smelt.Session(models / "difference.onnx", threads=5000)
