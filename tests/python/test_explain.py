"""smelt explain: what is found in the exported graphs, counted as a reader of its summary counts."""
import json

import onnx
import onnx.parser
import pytest
from conftest import ROOT

# model, rewrite, form (None: all), matches. The numbers are the architectures' own: layers, heads, residual branches.
COUNTS = [
    ("unet.fp32", "concat_in_place", None, 4),
    ("detector.fp32", "concat_in_place", None, 8),
    ("detector.fp32", "concat_in_place", "behind an upsampling", 2),
    ("llama_gpt.fp32", "recognise_rms_norm", None, 33),
    ("llama_gpt.fp32", "attention", None, 16),
    ("llama_gpt.fp32", "recognise_swiglu", None, 16),
    ("llama_gpt.fp32", "recognise_rotary", None, 32),
    ("llama_gpt.dyn.bf16", "attention", None, 16),
    ("bert_base.fp32", "attention", "mask + NaN guard", 12),
    ("bert_base.fp32", "matmul_epilogue", "bias + gelu", 12),
    ("bert_base.fp32", "residual_norm", None, 24),
    ("dit_xl_2.fp32", "attention", None, 28),
    ("dit_xl_2.fp32", "modulated_norm", None, 56),
    ("resnet50.fp32", "conv_epilogue", "residual + relu", 16),
]


@pytest.fixture(scope="module")
def explained(command):
    """The graphs as they lie in examples/models, without weights."""
    known = {}

    def explain(model):
        if model not in known:
            known[model] = json.loads(command("explain", ROOT / f"examples/models/{model}.onnx", "--json").stdout)
        return known[model]

    return explain


@pytest.mark.parametrize("model, rewrite, form, count", COUNTS)
def test_counts_of_the_exported_graphs(explained, model, rewrite, form, count):
    tables = explained(model)
    if form is None:
        assert [r["matched"] for r in tables["rewrites"] if r["rewrite"] == rewrite] == [count]
    else:
        assert [r["matched"] for r in tables["forms"] if r["rewrite"] == rewrite and r["form"] == form] == [count]
    rows = [r for r in tables["ledger"] if r["rewrite"] == rewrite and r["result"] == "matched" and form in (None, r["form"])]
    assert len(rows) == count


@pytest.mark.parametrize("model", ["unet.fp32", "detector.fp32"])
def test_no_concat_is_copied(explained, model):
    assert [r for r in explained(model)["ledger"] if r["rewrite"].startswith("concat") and r["result"] != "matched"] == []


def test_entries_carry_nodes_estimates_reasons_and_blockers(explained):
    ledger = explained("resnet50.fp32")["ledger"]
    matched = [r for r in ledger if r["rewrite"] == "conv_epilogue" and r["result"] == "matched"]
    rejected = [r for r in ledger if r["result"] == "rejected"]
    assert all(r["saved_us"] > 0 and r["nodes"] and r["reason"] == "" for r in matched)
    # The four that end a shortcut: another convolution reads them, as its residual, and there is nothing to take in.
    assert rejected and all(r["cost_us"] is None and r["reason"] == "wrong_reader" and r["blocker"] for r in rejected)


def test_filters_by_pattern_node_and_result(command):
    model = ROOT / "examples/models/resnet50.fp32.onnx"
    rejected = json.loads(command("explain", model, "--json", "--rejected").stdout)["ledger"]
    assert rejected and {r["result"] for r in rejected} == {"rejected"}
    blocker = rejected[0]["blocker"]
    by_node = json.loads(command("explain", model, "--json", "--node", blocker).stdout)["ledger"]
    assert by_node and all(blocker in r["nodes"] or blocker == r["blocker"] for r in by_node)
    one = json.loads(command("explain", model, "--json", "--pattern", "reduce_region").stdout)["ledger"]
    assert {r["rewrite"] for r in one} == {"reduce_region"}
    assert "conv_epilogue" in command("explain", model, "--pattern", "nope", code=2).stderr
    assert "has no node 'nope'" in command("explain", model, "--node", "nope", code=2).stderr


def test_a_model_that_no_rewrite_looks_at(command, tmp_path):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 20]> g (float[4] x) => (float[4] y) { y = Hardmax(x) }')
    onnx.save(model, tmp_path / "m.onnx")
    assert json.loads(command("explain", tmp_path / "m.onnx", "--json").stdout)["ledger"] == []
    assert "has no node 'nope'" in command("explain", tmp_path / "m.onnx", "--node", "nope", code=2).stderr


def test_without_static_shapes_nothing_is_estimated_and_with_them_all_is(command):
    model = ROOT / "examples/models/resnet50.dyn.fp16.onnx"
    saved = {}
    for key, shapes in {"symbolic": [], "static": ["--shapes", "x:2x3x224x224"]}.items():
        rows = json.loads(command("explain", model, "--json", *shapes).stdout)["ledger"]
        saved[key] = [r["saved_us"] for r in rows if r["rewrite"] == "conv_epilogue" and r["result"] == "matched"]
    assert not any(saved["symbolic"]) and all(saved["static"]) and len(saved["static"]) == 49


def test_kernels_lists_every_tactic_with_the_reason_it_was_not_chosen(command, small_model):
    """At level 0, where no measurement makes channels-last images plain."""
    args = ("explain", small_model, "--shapes", "x:2x3x8x8", "--kernels", "--tuning-level", 0, "--json", "--tactics=-winograd")
    rows = json.loads(command(*args).stdout)["tactics"]
    steps = {r["step"] for r in rows}
    assert steps and all(sum(r["step"] == s and r["result"] == "runs" for r in rows) == 1 for s in steps)
    others = [r for r in rows if r["result"] == "not chosen"]
    assert others and all(r["reason"] for r in others)
    codes = {r["code"] for r in rows if r["tactic"] == "reference" and r["result"] == "not chosen"}
    assert "wrong_layout" in codes and codes <= {"", "wrong_layout", "unsupported"} and not any(r["code"] for r in rows if r["result"] == "runs")
    assert "Tactics" in command(*args[:-2]).stdout


def test_unknown_names_are_usage_errors_that_list_the_known_ones(command, small_model):
    assert "reference" in command("run", small_model, "--tactics=+nope", code=2).stderr
    assert "conv_epilogue" in command("run", small_model, "--skip", "nope", code=2).stderr
    assert "self_us" in command("profile", small_model, "--sort-by", "nope", code=2).stderr
    assert "nope*" in command("run", small_model, "--precision", "bf16", "--keep-fp32", "nope*", code=2).stderr
    assert "--precision" in command("run", small_model, "--keep-fp32", "conv", code=2).stderr


@pytest.mark.parametrize("model", ["unet.fp32", "detector.fp32"])
def test_the_plan_copies_no_concat_either(command, filled, model):
    """What explain decided, the plan does: no step copies."""
    rows = json.loads(command("explain", filled(model), "--kernels", "--tuning-level", 0, "--json").stdout)["tactics"]
    assert rows and [r["step"] for r in rows if r["tactic"] == "copy"] == []


def test_a_time_limit_leaves_the_rest_to_estimates(command, filled, tmp_path):
    options = ["explain", filled("crnn.fp32"), "--kernels", "--json", "--threads", 2, "--cache-dir", tmp_path]

    def reasons(*more):
        tables = json.loads(command(*options, *more).stdout)
        return [row["reason"] for row in tables["tactics"] if row["result"] == "runs"]

    assert any("the time for measuring was up" in r for r in reasons("--tuning-time-limit", 0.001))
    assert not any("the time for measuring was up" in r for r in reasons()), "a later build measures what was estimated"
    command(*options, "--tuning-time-limit", -1, code=2)


SPELLED_OUT = """<ir_version: 9, opset_import: ["": 18]>
g (float[N,64] x) => (float[N,32] y)
  <float two = {2}, float epsilon = {0.00001}, int64[1] last = {-1}, float[64] scale = {SCALE}, float[64,32] w = {WEIGHTS}> {
  p = Pow(x, two)
  m = ReduceMean<keepdims = 1>(p, last)
  e = Add(m, epsilon)
  r = Sqrt(e)
  i = Reciprocal(r)
  n = Mul(x, i)
  s = Mul(n, scale)
  y = MatMul(s, w)
}""".replace("SCALE", ", ".join(["1"] * 64)).replace("WEIGHTS", ", ".join(["0.5"] * 2048))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_conversion_is_explained_as_it_runs(command, tmp_path, precision):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(SPELLED_OUT), path)
    wide = json.loads(command("explain", path, "--json").stdout)["ledger"]
    narrow = json.loads(command("explain", path, "--precision", precision, "--json").stdout)["ledger"]
    norms = [[r for r in ledger if r["rewrite"] == "recognise_rms_norm" and r["result"] == "matched"] for ledger in (wide, narrow)]
    assert len(norms[0]) == len(norms[1]) == 1
    assert norms[0][0]["nodes"] == norms[1][0]["nodes"]
    forms = [{r["form"] for r in ledger if r["result"] == "matched"} for ledger in (wide, narrow)]
    assert "cast" in forms[1] and "cast" not in forms[0], "the conversion's Casts are part of what is rewritten"


def test_a_conversion_of_a_graph_without_its_weights_takes_no_memory_for_them(command):
    narrow = json.loads(command("explain", ROOT / "examples/models/llama_gpt.fp32.onnx", "--precision", "bf16", "--json").stdout)
    assert [r["matched"] for r in narrow["rewrites"] if r["rewrite"] == "recognise_rms_norm"] == [33]
