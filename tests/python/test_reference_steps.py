"""No step of an exported graph runs in the plain loops of its operator's reference, fused or unfused."""
import json

import pytest

# Those of examples/models whose plans are made in seconds.
MODELS = ["crnn.fp16", "crnn.fp32", "detector.fp32", "mobilenet_v3_large.fp16", "mobilenet_v3_large.op13.bn.fp32", "r3d_18.fp16",
          "r3d_18.fp32", "resnet50.op11.bn.fp32", "segformer.fp32", "shufflenet.fp32", "ssdlite.op16.fp32", "unet.fp16",
          "wav2vec2.fp16", "wav2vec2.fp32", "whisper_enc.fp16", "whisper_enc.fp32"]


def tactics(command, model, *options):
    """The rows of `explain --kernels` for what runs; nothing is measured and nothing runs."""
    said = command("explain", model, "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2, *options).stdout
    tables = json.loads(said)
    return [row for row in tables["tactics"] if row["result"] == "runs"], [row["rewrite"] for row in tables["rewrites"]]


@pytest.mark.parametrize("model", MODELS)
def test_steps_have_kernels(command, filled, model):
    path = filled(model)
    fused, rewrites = tactics(command, path)
    unfused, _ = tactics(command, path, *[option for name in rewrites for option in ("--skip", name)])
    assert fused and len(unfused) >= len(fused)
    slow = [f"{row['step']}: {row['problem']}" for row in fused + unfused if row["tactic"].startswith("reference")]
    assert slow == []
