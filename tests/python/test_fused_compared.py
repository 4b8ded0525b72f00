"""Every fused step of a processor's plan is compared with its parts, or says why not by a reason of a short list."""
import json
import sys

import onnx
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
REASONS = {"the step stands for one operator", "only a run knows the sizes of its parts", "a part has no kernel for these tensors",
           "its parts hold the weights in blocks as floats"}
# Those of examples/models whose plans are made in seconds, and the forms in 8 bits of bench/int8_models.py.
GRAPHS = ["bert_base.dyn.fp16", "crnn.fp16", "crnn.fp32", "detector.fp32", "llama_gpt.dyn.bf16", "llama_gpt.fp32",
          "llama_gpt.op14.fp32", "mobilenet_v3_large.fp16", "mobilenet_v3_large.op13.bn.fp32", "r3d_18.fp16", "resnet50.op11.bn.fp32",
          "segformer.fp32", "shufflenet.fp32", "ssdlite.op16.fp32", "unet.dyn.fp16", "unet.fp32", "vit_b_16.fp16", "wav2vec2.fp16",
          "wav2vec2.fp32", "whisper_enc.fp32"]
IN_8_BITS = [("crnn.fp32", f) for f in ("u8s8", "s8s8", "u8s8.tensor", "qop", "dynamic", "u8u8", "dynamic.u8")]
IN_8_BITS += [("segformer.fp32", f) for f in ("u8u8", "qop", "dynamic.u8")]
IN_8_BITS += [("mobilenet_v3_large.fp32", f) for f in ("u8s8", "qop", "dynamic")]


def check(command, path):
    """Nothing is measured and nothing runs."""
    options = ("--tuning-level", 0, "--no-cache", "--threads", 2)
    said = json.loads(command("explain", path, "--kernels", "--json", *options).stdout)
    notes = [row for row in said["tactics"] if row["code"] == "not_compared"]
    assert {row["reason"] for row in notes} <= REASONS
    told = {row["step"] for row in said["fused"] if row["apart_us"]} | {row["step"] for row in notes}
    plan = path.parent / f"{path.stem}.plan.onnx"
    command("optimize", path, "-o", plan, *options)
    runs = {row["step"] for row in said["tactics"] if row["result"] == "runs"}
    fused = [n.name for n in onnx.load(plan, load_external_data=False).graph.node if n.domain == "ai.smelt"]
    assert fused and not [name for name in fused if name in runs and name not in told]


@pytest.mark.parametrize("model", GRAPHS)
def test_steps_of_graphs(command, filled, model):
    check(command, filled(model))


@pytest.mark.parametrize(("model", "form"), IN_8_BITS)
def test_steps_of_graphs_in_8_bits(command, filled, model, form, tmp_path):
    pytest.importorskip("onnxruntime.quantization")
    import quantised_models
    check(command, quantised_models.made(filled(model), form, tmp_path))
