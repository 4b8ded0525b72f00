"""Operators' cases, changed by the fuzzer: no finding, and outputs like ONNX Runtime's where both take a case. The same cases every time;
scripts/fuzz_operators.sh runs others, and more, and under sanitizers."""
import importlib
import itertools
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
import smelt
from conftest import ROOT
from onnx import helper

CASES = 1500   # of which some 400 run


@pytest.fixture(scope="module")
def compare():
    sys.path.insert(0, str(ROOT / "tests/fuzz/operators"))
    return importlib.import_module("compare")


@pytest.fixture(scope="module")
def kept(request, tmp_path_factory):
    """The folder of the cases that ran, with their outputs."""
    build = pathlib.Path(request.config.getoption("--build"))
    folder = tmp_path_factory.mktemp("cases")
    subprocess.check_call([sys.executable, ROOT / "tests/conformance/generate.py", build / "conformance"])
    seeds = [build / "conformance/node", build / "conformance/pytorch-operator", ROOT / "tests/repro"]
    done = subprocess.run([build / "operator_fuzz", folder / "out", "--cases", str(CASES), "--seconds", "300", "--keep", folder / "kept",
                           "--seeds", *seeds], capture_output=True, text=True, check=False, env=dict(os.environ, MALLOC_PERTURB_="165"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases" in done.stdout, done.stdout
    return folder / "kept"


def test_changed_cases_give_what_onnx_runtime_gives(compare, kept):
    counts, lines = compare.compare_all(kept)
    assert not lines, "\n".join(lines)
    assert counts["agree"] > 100, counts


def test_what_numbers_can_ask_for_ends_soon(request, tmp_path):
    """Every 23rd of what operators' attributes and short inputs can be (tests/fuzz/operators/extremes.h)."""
    build = pathlib.Path(request.config.getoption("--build"))
    subprocess.check_call([sys.executable, ROOT / "tests/conformance/generate.py", build / "conformance"])
    done = subprocess.run([build / "operator_fuzz", tmp_path / "out", "--extremes", "--every", "23", "--seconds", "500",
                           "--seeds", build / "conformance/node"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(" cases")[0].split()[-1]) > 500, done.stdout


def odd_cases():
    """Of each line of known.txt: an operator, what it is fed, its attributes, its opset."""
    def numbers(*shape):
        return np.random.default_rng(1).standard_normal(shape).astype(np.float32)

    nan, axis = np.nan, [-1, 0, 1]
    for op, shape, along, keep, opset in itertools.product(
            ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"), ((2, 0, 3), (0, 4), (2, 0)), axis, (0, 1),
            (11, 13, 18)):
        is_input = opset >= (13 if op == "Sum" else 18)
        feeds = {"x": np.zeros(shape, np.float32)} | ({"axes": np.array([along])} if is_input else {})
        yield f"Reduce{op}", feeds, {"keepdims": keep} | ({} if is_input else {"axes": [along]}), opset
    for op, along, row in itertools.product(("ReduceMax", "ReduceMin"), axis, ((1, nan, 2), (nan, 1, 2), (1, 2, nan))):
        yield op, {"x": np.array([row, row[::-1]], np.float32), "axes": np.array([along])}, {}, 18
    for op, last, row in itertools.product(("ArgMax", "ArgMin"), (0, 1), ((1, nan, 2, nan), (nan, 1, 2, 0), (1, 2, 2, nan), (2, 1, 1, 2))):
        yield op, {"x": np.array([row, row[::-1]], np.float32)}, {"axis": 1, "select_last_index": last}, 13
    for beta, alpha, c in itertools.product((0.0, 0.5, 1.0), (1.0, 2.0), ((3,), (1,), (2, 1), (2, 3))):
        yield "Gemm", {"a": numbers(2, 0), "b": numbers(0, 3), "c": numbers(*c)}, {"alpha": alpha, "beta": beta}, 13
    for op, size, periodic in itertools.product(("HannWindow", "HammingWindow", "BlackmanWindow"), (0, 1, 2, 5), (0, 1)):
        yield op, {"size": np.array(size)}, {"periodic": periodic}, 17
    for to in (2, 3, 4, 5, 6, 7, 12, 13):
        wide = np.array([nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -300.7, -0.9, 2.0**31, 2.0**63, -(2.0**63), 2.0**64], np.float32)
        yield "Cast", {"x": wide}, {"to": to}, 19
        yield "CastLike", {"x": wide, "like": np.zeros(1, helper.tensor_dtype_to_np_dtype(to))}, {}, 19
    yield "Squeeze", {"x": numbers(1, 2, 1), "axes": np.zeros(0, np.int64)}, {}, 13
    for factor in (0.5, 1.3, 1.5, 2.7):
        yield "Resize", {"x": numbers(1, 1, 4, 5), "roi": np.zeros(0, np.float32), "scales": np.array([1, 1, factor, factor], np.float32)}, {
            "mode": "linear", "coordinate_transformation_mode": "align_corners"}, 13
    yield "MaxUnpool", {"x": numbers(1, 1, 2, 2), "places": np.array([[[[5, 7], [13, 15]]]]), "shape": np.array([1, 1, 5, 5])}, {
        "kernel_shape": [2, 2], "strides": [2, 2]}, 11
    for lengths in ((4, 4), (3, 2), (4, 1)):
        feeds = {n: numbers(2, 2, rows, 8) for n, rows in (("q", 3), ("k", 4), ("v", 4))}
        yield "Attention", feeds | {"": None, "past_k": None, "past_v": None, "lengths": np.array(lengths)}, {"is_causal": 1}, 24


def test_where_onnx_runtime_differs_results_are_those_of_onnxs_reference_implementation(compare):
    for op, feeds, attributes, opset in odd_cases():
        given = {n: a for n, a in feeds.items() if a is not None}
        names = [n if a is not None else "" for n, a in feeds.items()]
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()]
        graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", inputs, [onnx.ValueInfoProto(name="y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        ours = smelt.Session(model.SerializeToString(), tuning_level=0, use_cache=False).run(None, given)
        assert compare.is_known(model, given, ours), f"{op} {attributes} opset {opset}: {ours}"
