"""What the drivers of this folder share."""
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples" / "models"


# The models that GPU results are about: bench/gpu_models.py's rows.
GPU_MODELS = ("resnet50.fp16", "resnet50_b32.fp16", "mobilenet_v3_large.fp16", "unet.fp16", "detector.fp16", "vit_b_16.fp16",
              "bert_base.fp16", "llama_gpt.bf16", "dit_xl_2.fp16")
# Those of CPU results: bench/cpu_models.py's rows.
CPU_MODELS = tuple(f"{name}.fp32" for name in
                   ("resnet50", "mobilenet_v3_large", "unet", "detector", "vit_b_16", "bert_base", "llama_gpt", "dit_xl_2"))


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def interval(a, b, draws=2000):
    """95 % bootstrap interval of median(a) / median(b), each an array of [rounds, runs]; rounds are drawn as pairs."""
    random = np.random.default_rng(1)
    index = random.integers(0, len(a), (draws, len(a)))
    ratios = np.median(a[index].reshape(draws, -1), axis=1) / np.median(b[index].reshape(draws, -1), axis=1)
    return np.percentile(ratios, 2.5), np.percentile(ratios, 97.5)


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
