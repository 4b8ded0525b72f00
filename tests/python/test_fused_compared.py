"""What a processor's plan has in the place of several steps was compared with them, or says why not by a reason of a short list: fused
steps with their parts. Regions of channels-last images are listed."""
import pytest
from conftest import GRAPHS

REASONS = {"the step stands for one operator", "only a run knows the sizes of its parts", "a part has no kernel for these tensors",
           "its parts hold the weights in blocks as floats", "one of ONNX's operators in the place of several"}
IN_8_BITS = [("crnn.fp32", f) for f in ("u8s8", "s8s8", "u8s8.tensor", "qop", "dynamic", "u8u8", "dynamic.u8")]
IN_8_BITS += [("segformer.fp32", f) for f in ("u8u8", "qop", "dynamic.u8")]
IN_8_BITS += [("mobilenet_v3_large.fp32", f) for f in ("u8s8", "qop", "dynamic")]


def check(said):
    """Of tables at level 0: the parts run where they are estimated at less than half, the products of one input where at less."""
    assert {row["reason"] for row in said["not compared"]} <= REASONS
    told = {row["step"] for row in said["fused"] if row["apart_us"]} | {row["step"] for row in said["not compared"]}
    kernels = [row for row in said["runs"] if row["problem"].split(":")[0] not in ("copy", "dynamic", "control", "reorder")]
    # Of a step that runs apart the first part has both times.
    fused = [row for row in kernels if (row["op"].startswith("ai.smelt.") or row["nodes"] > 1) and not row["part"]]
    assert fused and [row["step"] for row in fused if row["step"] not in told] == []
    for row in said["fused"]:
        if row["fused_us"] != "no kernel" and row["apart_us"] and not 0.5 <= row["apart_us"] / row["fused_us"] <= 1.03:
            assert (row["runs"] == "apart") == (row["apart_us"] < row["fused_us"]), row
    regions = {row["step"]: row for row in said["regions"]}
    assert [row for row in said["runs"] if row["op"] == "ai.smelt.Reorder" and row["region"] not in regions] == []
    for row in regions.values():  # estimates decide where they differ by far
        times = row["channels_last_us"], row["plain_us"]
        assert row["found"] == "estimated" and (row["runs"] == "plain") == (times[1] < 0.5 * times[0] and times[0] - times[1] > 20), row


@pytest.mark.parametrize("model", GRAPHS)
def test_steps_of_graphs(planned, model):
    check(planned(model))


@pytest.mark.parametrize(("model", "form"), IN_8_BITS)
def test_steps_of_graphs_in_8_bits(planned, in_8_bits, model, form):
    check(planned(in_8_bits(model, form)))
