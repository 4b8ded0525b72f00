"""The module's functions: what the verbs are in Python, their options and errors."""
import itertools
import json
import signal
import threading
import time

import numpy as np
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto as T


def test_results_print_as_tables(small_model):
    profile = smelt.profile(small_model, shapes={"x": (2, 3, 8, 8)}, iterations=3)
    assert "Time per step" in str(profile) and profile["after"]["steps"]
    explained = smelt.explain(small_model)
    assert "matched" in str(explained)
    bench = smelt.bench(small_model, duration=0.2, shapes={"x": (2, 3, 8, 8)})
    assert bench["bench"]["speedup"] > 0 and "median" in str(bench)


def test_options_are_checked_by_name_and_type(small_model):
    with pytest.raises(smelt.UsageError, match="thread.*\n.*threads"):
        smelt.Session(small_model, thread=2)
    with pytest.raises(smelt.UsageError, match="threads='two'"):
        smelt.Session(small_model, threads="two")
    with pytest.raises(smelt.UsageError, match="expected CPUExecutionProvider or CUDAExecutionProvider among them"):
        smelt.Session(small_model, providers=["TensorrtExecutionProvider"])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = smelt.Session(small_model, options, providers=[("CPUExecutionProvider", {})])
    assert session.run(None, {"x": np.zeros((1, 3, 8, 8), np.float32)})[0].shape == (1, 8, 8, 8)


def test_errors_are_python_exceptions_of_their_kind(tmp_path):
    assert issubclass(smelt.UsageError, (smelt.Error, ValueError)) and issubclass(smelt.UnsupportedError, NotImplementedError)
    with pytest.raises(smelt.Error) as e:
        smelt.Session(tmp_path / "none.onnx")
    assert "none.onnx" in e.value.message and e.value.exit_code == 1


def test_optimize_gives_a_plan_that_prints_and_goes_where_a_path_goes(small_model, tmp_path):
    shapes = {"x": (2, 3, 8, 8)}
    plan = smelt.optimize(small_model, tmp_path / "plan.onnx", shapes=shapes, tuning_level=0)
    assert "conv_epilogue" in str(plan) and "<pre" in plan._repr_html_() and plan["plan"][0]["tuning_level"] == 0
    seconds = {r["stage"]: r["seconds"] for r in plan["build"]}
    assert {"import", "rewriting", "kernels"} <= seconds.keys() and min(seconds.values()) > 0
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    [expected] = ort.InferenceSession(str(small_model)).run(None, {"x": x})
    np.testing.assert_allclose(smelt.Session(plan).run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
    kernels = smelt.explain(small_model, kernels=True, shapes=shapes)
    assert {r["result"] for r in kernels["tactics"]} >= {"runs"}


def test_bench_and_profile_write_their_files(small_model, tmp_path):
    shapes = {"x": (2, 3, 8, 8)}
    smelt.bench(small_model, duration=0.1, report=tmp_path / "b.html", shapes=shapes)
    profile = smelt.profile(small_model, iterations=3, report=tmp_path / "p.html", trace=tmp_path / "t.json", shapes=shapes)
    assert f"held at a time, in step {profile['after']['peak_step']}" in str(profile)
    assert all((tmp_path / name).read_text().rstrip().endswith("</html>") for name in ("b.html", "p.html"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    steps = [event["name"] for event in events if event.get("cat") == "step"]
    assert steps and "conv" in steps[0]


def test_stubs_type_check(tmp_path):
    """A reader's program against the package's types: mypy accepts it, and refuses the same with a wrong option."""
    mypy = pytest.importorskip("mypy.api")
    good = tmp_path / "good.py"
    good.write_text("import smelt\nsession = smelt.Session('m.onnx', threads=2, shapes={'x': (1, 3)})\n"
                    "names: list[str] = [i.name for i in session.get_inputs()]\n"
                    "print(names, smelt.bench('m.onnx', duration=1.0)['bench'])\n")
    bad = tmp_path / "bad.py"
    bad.write_text("import smelt\nsmelt.Session('m.onnx', threads='two')\n")
    assert mypy.run(["--strict", str(good)])[2] == 0, mypy.run(["--strict", str(good)])[0]
    assert mypy.run([str(bad)])[2] == 1


def interrupt_in(seconds):
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    return timer


def many_products():
    """Products of many shapes: tuning level 3 takes them minutes."""
    from conftest import model_of
    from onnx import helper, numpy_helper

    sizes = [64 + 8 * i for i in range(120)]
    weights = [numpy_helper.from_array(np.ones((a, b), np.float32), f"w{i}")
               for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    nodes = [helper.make_node("MatMul", [f"x{i}" if i else "x", w.name], [f"x{i + 1}"]) for i, w in enumerate(weights)]
    return model_of(nodes, [("x", T.FLOAT, [16, sizes[0]])], [(f"x{len(weights)}", T.FLOAT, [16, sizes[-1]])], weights)


def test_an_interrupt_ends_a_build_and_leaves_no_plan(tmp_path):
    model = many_products()
    path = tmp_path / "products.onnx"
    path.write_bytes(model.SerializeToString())
    for build in (lambda: smelt.optimize(path, tmp_path / "plan.onnx", tuning_level=3, use_cache=False),
                  lambda: smelt.Session(model, tuning_level=3, use_cache=False)):
        timer, begin = interrupt_in(1), time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            build()
        assert time.monotonic() - begin < 15
        timer.join()
    assert [p.name for p in tmp_path.iterdir()] == ["products.onnx"]


def test_a_plan_does_not_replace_its_model(small_model, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(small_model.read_bytes())
    with pytest.raises(smelt.UsageError, match="model.onnx"):
        smelt.optimize(path, path, tuning_level=0)
    assert path.read_bytes() == small_model.read_bytes()


def test_wrong_options_say_what_was_expected(small_model):
    with pytest.raises(smelt.UsageError, match="threads=1.5 has type float, expected int$"):
        smelt.Session(small_model, threads=1.5)
    with pytest.raises(smelt.UsageError, match="shapes=3 has type int, expected"):
        smelt.Session(small_model, shapes=3)
    with pytest.raises(smelt.UsageError, match="keep_fp32 .*\n.*precision="):
        smelt.Session(small_model, keep_fp32=["conv"])
    with pytest.raises(smelt.UsageError, match="providers are TensorrtExecutionProvider, expected"):
        smelt.Session(small_model, providers="TensorrtExecutionProvider")
    with pytest.raises(smelt.UsageError, match="device 'tpu' is none of cpu, gpu, or a GPU's number"):
        smelt.Session(small_model, device="tpu")
    with pytest.raises(smelt.UsageError, match="memory_limit='2GiB' has type str, expected int"):
        smelt.Session(small_model, memory_limit="2GiB")
    with pytest.raises(smelt.UsageError, match="a stream was given, and the session runs on the processor"):
        smelt.Session(small_model).run_tensors(None, {"x": np.zeros((1, 3, 8, 8), np.float32)}, stream=0)
    assert smelt.Session(small_model, providers="CPUExecutionProvider").get_providers() == ["CPUExecutionProvider"]
