"""Real models: their results, their plans, the memory they take. tests/models/check_models.py --all does the same for every graph
and size."""
import pathlib
import sys

import numpy as np
import onnx
import pytest
from conftest import trust_all_timings

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


def detections(scores, labels):
    boxes = np.arange(4.0 * len(scores)).reshape(-1, 4) + np.array(labels)[:, None]
    return {"boxes": boxes, "scores": np.array(scores), "labels": np.array(labels)}


@pytest.mark.parametrize("lower, agree", [(0.5 - 1e-7, True), (0.5 - 1e-3, False)])
def test_detections_may_change_places_where_their_scores_are_within_rounding(lower, agree):
    oracle = detections([0.9, 0.5, lower, 0.2], [3, 1, 2, 1])
    found = {name: x[[0, 2, 1, 3]].astype(np.float32 if x.dtype == float else int) for name, x in oracle.items()}
    found = tolerance.in_order_of(oracle, found)
    assert agree == all(tolerance.is_rounding(tolerance.error(found[n], oracle[n]), "float32") for n in ("boxes", "scores"))
    assert agree == (tolerance.error(found["labels"], oracle["labels"]).largest == 0)
    found["labels"][0] += 1
    assert tolerance.error(tolerance.in_order_of(oracle, found)["labels"], oracle["labels"]).why


def test_twenty_builds_of_a_plan_are_equal_byte_for_byte(command, filled, tmp_path):
    """Those that find the same cache. The one that measures chooses the same, but may have asked for more timings on the way."""
    model = filled("mobilenet_v3_large.fp32")
    plan = model.parent / "same.plan.onnx"                  # beside the model's data file, which it points at
    measured, first = None, None
    for _ in range(20):
        command("optimize", model, "-o", plan, "--tuning-level", 1, "--cache-dir", tmp_path)
        made = plan.read_bytes()
        facts = {p.key: p.value for p in onnx.load(plan, load_external_data=False).metadata_props}
        assert facts.pop("smelt.plan.timings")
        if not measured:
            measured = facts
            trust_all_timings(tmp_path)
            continue
        first = first or made
        assert facts == measured
        assert made == first

