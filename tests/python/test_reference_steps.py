"""No step of an exported graph runs in the plain loops of its operator's reference, fused or unfused."""
import json
import sys

import onnx
import pytest
from conftest import GRAPHS, ROOT

sys.path.insert(0, str(ROOT / "bench"))
# Of bench/int8_models.py: with activations of u8 and s8, with ONNX's operators of integers, dynamic.
IN_8_BITS = [(model, form) for model in ("crnn.fp32", "mobilenet_v3_large.fp32", "segformer.fp32") for form in ("u8s8", "qop", "dynamic")]
IN_8_BITS += [("crnn.fp32", "s8s8")]
IN_16_BITS = [(model, precision) for model in ("segformer.fp32", "shufflenet.fp32", "ssdlite.op16.fp32") for precision in ("fp16", "bf16")]


def check(planned, model, *options, unfused=True):
    tables = [planned(model, *options)]
    assert tables[0]["runs"]
    if unfused:
        tables.append(planned(model, *options, *[o for row in tables[0]["rewrites"] for o in ("--skip", row["rewrite"])]))
        assert len(tables[1]["runs"]) >= len(tables[0]["runs"])
    rows = [row for t in tables for row in t["runs"]]
    assert [f"{row['step']}: {row['problem']}" for row in rows if row["tactic"].startswith("reference")] == []


@pytest.mark.parametrize("model", GRAPHS)
def test_steps_have_kernels(planned, model):
    check(planned, model)


def in_graph(name, ops):
    return any(n.op_type in ops for n in onnx.load(ROOT / f"examples/models/{name}.onnx", load_external_data=False).graph.node)


@pytest.mark.parametrize("model", [g for g in GRAPHS if in_graph(g, ("NonZero", "NonMaxSuppression", "Unique", "If", "Loop", "Scan"))])
@pytest.mark.parametrize("options", [("--optimized",), ()], ids=["fused", "unfused"])
def test_steps_behind_sizes_that_a_run_finds_have_kernels(command, filled, model, options):
    """A plan that nothing has run ends where the sizes do, and has no bodies."""
    path = filled(model)
    said = command("profile", path, *options, "--json", "--top", 0, "--iterations", 1, "--tuning-level", 0, "--no-cache", "--print-only",
                   "--inputs", path.with_suffix(".inputs.npz")).stdout
    found = json.loads(said)["after"]
    steps = found["steps"] + found["inside"]
    assert len(steps) > 700
    assert [row["name"] for row in steps if row["tactic"].startswith("reference")] == []


@pytest.mark.parametrize(("model", "precision"), IN_16_BITS)
def test_steps_of_graphs_that_are_converted_have_kernels(planned, model, precision):
    check(planned, model, "--precision", precision)


@pytest.mark.parametrize(("model", "form"), IN_8_BITS)
def test_steps_of_graphs_in_8_bits_have_kernels(planned, in_8_bits, model, form):
    """ONNX Runtime's QLinearMul, QLinearAdd and the like have kernels as the operators that a rewrite (qlinear_parts) makes of them."""
    check(planned, in_8_bits(model, form), unfused=form != "qop")
