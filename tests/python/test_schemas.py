"""What verbs print as JSON, against the schemas in docs."""
import re

import pytest
from conftest import ROOT
from test_limits import described


@pytest.fixture(scope="module")
def printed(command, small_model):
    """printed("info") → what the verb prints of a small model."""
    def run(verb, *args, code=0):
        return described(command(verb, *args, "--json", code=code).stdout)
    return run


def test_what_is_in_a_model(printed, small_model):
    assert {r["operator"]: r["count"] for r in printed("info", small_model)["operators"]} == {"Add": 1, "Conv": 1, "Relu": 1}
    assert len(printed("info", small_model, "--graph")["nodes"]) == 3
    assert printed("info", small_model, "--node", "relu", "--radius", 0)["nodes"][0]["outputs"] == ["r"]


def test_what_was_tried(printed, small_model):
    everything = printed("explain", small_model, "--kernels", "--tuning-level", 0)
    assert any(r["result"] == "matched" for r in everything["ledger"]) and any(r["result"] == "runs" for r in everything["tactics"])


def test_runs_and_their_errors(printed, small_model, tmp_path):
    [y] = printed("run", small_model, "--tuning-level", 0)["outputs"]
    assert y["shape"][1:] == [8, 8, 8] and y["min"] <= y["mean"] <= y["max"]
    plan = printed("optimize", small_model, "-o", tmp_path / "plan.onnx", "--tuning-level", 0)
    assert plan["plan"][0]["tuning_level"] == 0 and sum(r["matched"] for r in plan["rewrites"]) > 0
    [error] = printed("compare", small_model, tmp_path / "plan.onnx")["errors"]
    assert error["output"] == "y" and error["max_abs"] < 1e-4
    narrow = tmp_path / "narrow.onnx"
    assert printed("optimize", small_model, "-o", narrow, "--precision", "bf16", "--tuning-level", 0)["errors"][0]["max_abs"] > 0
    worse = printed("compare", small_model, narrow, "--bisect", "--rtol", 1e-9, "--atol", 1e-9, code=4)
    assert worse["tolerance"][0]["within"] is False and worse["bisection"]


def test_the_machine_and_what_was_measured_on_it(printed, command, small_model):
    assert printed("devices")["cpu"]
    candidates = printed("tune", "gemm:f32:32x32x32", "--tuning-level", 1)["candidates"]
    assert candidates[0]["rank"] == 1 and candidates[0]["us"] <= candidates[-1]["us"]
    assert printed("cache")["entries"]
    assert printed("cache", "clear")["cleared"][0]["entries"] > 0


def test_every_format_that_is_printed_has_a_schema():
    sources = [p for folder in ("src", "python/smelt") for p in (ROOT / folder).rglob("*") if p.suffix in (".cpp", ".py")]
    in_graphs = {"precision", "sequences", "unchecked"}   # keys of metadata and a domain
    formats = {f for p in sources for f in re.findall(r'"smelt\.([a-z]+)"', p.read_text())} - in_graphs
    assert {f for f in formats if not (ROOT / f"docs/{f}.schema.json").exists()} == set()
    assert {"info", "explain", "optimize", "quantize", "report"} <= formats
