"""What the drivers of this folder share."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples" / "models"


# The models that GPU results are about: bench/gpu_models.py's rows.
GPU_MODELS = ("resnet50.fp16", "resnet50_b32.fp16", "mobilenet_v3_large.fp16", "unet.fp16", "detector.fp16", "vit_b_16.fp16",
              "bert_base.fp16", "llama_gpt.bf16", "dit_xl_2.fp16")


def commit():
    """The commit that is measured: SMELT_COMMIT, for a copy without its history; else git's description of this tree."""
    if given := os.environ.get("SMELT_COMMIT"):
        return given
    try:
        return subprocess.check_output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], text=True,
                                       stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def filled(name, folder):
    """The path of a model of examples/models with weights and inputs; made when it is missing."""
    path = pathlib.Path(folder) / f"{name}.onnx"
    if not path.with_suffix(".inputs.npz").exists():
        subprocess.run([sys.executable, str(MODELS / "fill.py"), str(MODELS / f"{name}.onnx"), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
    return path
