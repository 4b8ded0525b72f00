"""Real models: their results, their plans, the memory they take. tests/models/check_models.py --all does the same for every graph
and size."""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import trust_all_timings
from onnx import TensorProto, helper

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
sys.path.insert(0, str(MODELS))
import check_models  # noqa: E402
import subjects  # noqa: E402
import tolerance  # noqa: E402


@pytest.fixture(scope="module")
def checker(request, tmp_path_factory):
    return check_models.Checker(request.config.getoption("--build"), tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("name", subjects.QUICK)
def test_fused_unfused_and_planned_agree_with_float64(name, checker):
    result = checker.check(subjects.subject(name, checker.work))
    assert result["passed"], "\n".join([check_models.HEADER, *check_models.lines(result)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("spoil", ["zeros", "shifted", "transposed", "one wrong element", "NaN", "infinity", "another shape"])
def test_the_rule_rejects(spoil, dtype):
    oracle = np.random.default_rng(0).standard_normal((64, 64))
    unfused = oracle.astype(dtype)
    x = unfused.copy()
    if spoil == "zeros":
        x[:] = 0
    elif spoil == "shifted":
        x = np.roll(x.reshape(-1), 1).reshape(x.shape)
    elif spoil == "transposed":
        x = x.T.copy()
    elif spoil == "one wrong element":
        x[17, 3] += x[17, 3] * 64 * np.finfo(dtype).eps + 64 * np.finfo(dtype).eps
    elif spoil == "another shape":
        x = x.reshape(32, 128)
    else:
        x[5, 5] = np.nan if spoil == "NaN" else np.inf
    reference = tolerance.error(unfused, oracle)
    assert tolerance.accepts(tolerance.error(unfused, oracle), reference, dtype)
    assert not tolerance.accepts(tolerance.error(x, oracle), reference, dtype)


def test_the_rule_rejects_a_small_error_everywhere():
    oracle = np.random.default_rng(0).standard_normal(4096)
    unfused = oracle.astype(np.float32)
    unfused[7] += np.float32(1e-3)                         # hides in the largest error, not in the root mean square
    biased = (oracle + 5e-4).astype(np.float32)
    assert not tolerance.accepts(tolerance.error(biased, oracle), tolerance.error(unfused, oracle), "float32")


def test_an_unfused_result_that_is_another_function_is_no_reference():
    oracle = np.random.default_rng(0).standard_normal(4096)
    assert tolerance.is_rounding(tolerance.error(oracle.astype(np.float16), oracle), "float16")
    assert not tolerance.is_rounding(tolerance.error(-oracle.astype(np.float16), oracle), "float16")


def test_twenty_builds_of_a_plan_are_equal_byte_for_byte(command, filled, tmp_path):
    model = filled("mobilenet_v3_large.fp32")
    plan = model.parent / "same.plan.onnx"                  # beside the model's data file, which it points at
    first = None
    for _ in range(20):
        command("optimize", model, "-o", plan, "--tuning-level", 1, "--cache-dir", tmp_path)
        made = plan.read_bytes()
        if not first:
            first = made
            trust_all_timings(tmp_path)
        assert made == first


def peak_of(path, *args):
    """Peak resident memory of a run of the command, bytes; from a small process, for a child's peak begins at its parent's."""
    program = ("import resource, subprocess, sys\n"
               "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    result = subprocess.run([sys.executable, "-c", program, str(path), *map(str, args)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return int(result.stdout) * 1024


def test_external_data_of_two_and_a_half_gigabytes_is_not_copied(command, tmp_path):
    rows, width = 600_000, 1024                             # 2.46 GB of zeros: a file of holes
    with open(tmp_path / "table.data", "wb") as f:
        f.truncate(rows * width * 4)
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, width], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", "table.data"), ("offset", "0"), ("length", str(rows * width * 4))]:
        table.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["g"], name="look_up"),
             helper.make_node("Relu", ["g"], ["y"], name="relu")]
    graph = helper.make_graph(nodes, "table", [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, width])], [table])
    model = tmp_path / "table.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
    limit = 200 << 20
    plan = tmp_path / "table.plan.onnx"
    assert peak_of(command.path, "info", model) < limit
    assert peak_of(command.path, "run", model, "--tuning-level", 0) < limit
    assert peak_of(command.path, "optimize", model, "-o", plan, "--tuning-level", 0) < limit
    onnx.checker.check_model(str(plan))
    assert plan.stat().st_size < 1 << 20                    # points at the model's data, which no second copy lies beside
    assert sorted(p.name for p in tmp_path.glob("*.data")) == ["table.data"]
    assert peak_of(command.path, "run", plan, "--tuning-level", 0) < limit
