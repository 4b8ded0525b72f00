"""Every model that once crashed, hung or read what is not its own ends in an error that names its node, or in a result, within 2 s of
the processor (tests/repro/README.md lists which test holds which)."""
import os
import pathlib
import subprocess

import hostile
import numpy as np
import onnx
import pytest
import smelt
from conftest import ROOT, model_of
from onnx import TensorProto, helper, numpy_helper

FILES = sorted((ROOT / "tests/repro").glob("*.onnx"))


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("group", hostile.GROUPS)
def test_odd_nodes_end_in_an_error_that_names_them_or_in_a_result(tmp_path, group, optimize):
    names = {}
    for name, (model, feeds) in hostile.GROUPS[group]():
        path = str(tmp_path / f"{len(names)}.onnx")
        pathlib.Path(path).write_bytes(model.SerializeToString())
        np.savez(path + ".npz", **feeds)
        names[path] = name
    ended = hostile.check(names, optimize)
    for path, (said, seconds) in ended.items():
        assert seconds < hostile.LIMIT_S, f"{names[path]}: {seconds:.1f} s: {said}"
        assert said.startswith("ran") or "odd" in said or "not an ONNX model" in said or path in said, f"{names[path]}: {said}"
        assert len(said) < 1000 and "std::" not in said, f"{names[path]}: {said}"
    if group == "slices":
        assert [said for said, _ in ended.values()] == [f"ran: ({s})" for s in ("0,", "0, 4", "0, 4096", "0, 1048576")]


@pytest.mark.parametrize("verb", ["run --tuning-level 0 --no-cache", "run --tuning-level 0 --no-cache --skip fold_constants", "explain"])
def test_every_file_of_tests_repro_ends_soon(command, verb):
    assert len(FILES) > 30
    for path in FILES:
        name, *more = verb.split()
        process = subprocess.Popen([str(command.path), name, str(path), *more],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode in (0, 1, 2, 3), f"{path.name}: {process.returncode}: {said}"
        seconds = used.ru_utime + used.ru_stime
        assert seconds < hostile.LIMIT_S, f"{path.name}: {seconds:.1f} s: {said}"
        if name == "run":
            assert (process.returncode == 0) == (not said.strip() or "warning" in said), f"{path.name}: {said}"


def test_the_list_names_every_file_and_tests_that_are_there():
    text = (ROOT / "tests/repro/README.md").read_text()
    for path in FILES:
        assert f"`{path.stem}`" in text, f"tests/repro/README.md lacks {path.name}"
    for line in text.splitlines():
        if not line.startswith("| ") or "::" not in line:
            continue
        for place in line.split("|")[2].split("`")[1::2]:
            file, _, name = place.partition("::")
            assert name in (ROOT / "tests" / file).read_text(), f"{file} has no test {name}"


def test_sparse_initializers_of_any_size_are_loaded(tmp_path):
    for extent in (1000, 100_000):
        values, places = np.array([1, 2, 3], np.float32), np.array([0, extent // 2, extent - 1])
        sparse = helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "places"), [extent])
        model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [extent])],
                         [("y", TensorProto.FLOAT, [extent])])
        model.graph.sparse_initializer.append(sparse)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        [y] = smelt.Session(path, tuning_level=0, use_cache=False).run(None, {"x": np.zeros(extent, np.float32)})
        assert (y[places] == values).all() and y.sum() == 6


def test_a_model_of_bytes_reads_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.data").write_bytes(np.ones(4, np.float32).tobytes())
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value="w.data")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.FLOAT, [4])], [w])
    onnx.save(model, tmp_path / "m.onnx")
    x = {"x": np.zeros(4, np.float32)}
    assert (smelt.Session(tmp_path / "m.onnx", tuning_level=0, use_cache=False).run(None, x)[0] == 1).all(), "a file has its data beside it"
    with pytest.raises(smelt.Error, match="'w'"):
        smelt.Session(model.SerializeToString(), tuning_level=0, use_cache=False)


def test_an_npy_file_with_a_negative_extent_is_refused(command, small_model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    good = (tmp_path / "x.npy").read_bytes()
    for shape in (b"(-1, 3, 8, 8)", b"(1, -3, 8, 8)", b"(-1, -3, 8, 8)"):
        bad = good.replace(b"(1, 3, 8, 8)", shape)
        cut = len(bad) - len(good)
        at = bad.index(b"}") + 1   # spaces before the data keep its place
        (tmp_path / "bad.npy").write_bytes(bad[:at] + bad[at + cut:])
        result = command("run", small_model, "--inputs", f"x:{tmp_path / 'bad.npy'}", "--tuning-level", "0", code=1)
        assert "bad.npy" in result.stderr and "Traceback" not in result.stderr


def test_a_plan_with_kernels_is_refused_where_it_must_not_run(command, small_model, tmp_path):
    plan, plain = tmp_path / "plan.onnx", tmp_path / "plain.onnx"
    arguments = ["optimize", small_model, "--shapes", "x:2x3x8x8", "--no-cache", "--tuning-level", "0"]
    made = command(*arguments, "-o", plan, "--arch", "sm_87", "--embed-kernels", code=None)
    if made.returncode == 3 and "NVRTC" in made.stderr:
        pytest.skip("no NVRTC")
    assert made.returncode == 0, made.stderr
    command(*arguments, "-o", plain)
    run = ["run", "--no-plan-kernels", "--no-cache", "--tuning-level", "0"]
    command(*run, plain)
    refused = command(*run, plan, code=2)
    assert "compiled kernels, which are not allowed" in refused.stderr and "--embed-kernels" in refused.stderr
    with pytest.raises(smelt.UsageError, match="compiled kernels, which are not allowed"):
        smelt.Session(plan, plan_kernels=False, tuning_level=0, use_cache=False)
    smelt.Session(plan, tuning_level=0, use_cache=False)
