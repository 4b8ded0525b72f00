"""Latency, build time and closed attribution of whole models on GPU 0.

usage: python bench/gpu_models.py SMELT FOLDER [--models NAME ...] [--tuning-level L] [--tactics LIST] [--iterations N] [--ort]
                                  [--allow-fallback] [--out FOLDER]
       (SMELT: build/smelt; FOLDER: where filled models are made: examples/models/fill.py, which needs numpy and onnx)

Of each model, with a cache folder of its own that begins empty:
  cold, warm   seconds from the command's start to the first result, with an empty cache and again with what it left: import, rewriting,
               compiling, tuning, upload, one run
  latency      of one forward pass, inputs and outputs on the device, one CUDA graph: the median over samples of 20 replays that follow
               each other, by events
  steps, gaps  the sum of the steps' times and of the gaps between them as CUPTI saw them in a recorded run, and how far their sum is
               from the latency
  ort          ONNX Runtime's CUDA provider on the same file (IO binding, CUDA graph mode), where onnxruntime-gpu is installed
Prints a line a model, and writes gpu-models-DATE-TIME.json (UTC) into --out.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("resnet50.fp16", "resnet50_b32.fp16", "mobilenet_v3_large.fp16", "unet.fp16", "detector.fp16", "vit_b_16.fp16",
          "bert_base.fp16", "llama_gpt.bf16", "dit_xl_2.fp16")


def filled(name, folder):
    path = folder / f"{name}.onnx"
    if not path.with_suffix(".inputs.npz").exists():
        source = ROOT / "examples" / "models"
        subprocess.run([sys.executable, str(source / "fill.py"), str(source / f"{name}.onnx"), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
    return path


def smelt(command, *args):
    """Its standard output, and the seconds it took. Raises RuntimeError with what it said."""
    begin = time.perf_counter()
    done = subprocess.run([command, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout, time.perf_counter() - begin


def measure(command, path, level, iterations, extra):
    cache = tempfile.mkdtemp(prefix="smelt-")
    options = ["--device", "gpu", "--cache-dir", cache, "--inputs", path.with_suffix(".inputs.npz"), *extra]
    try:
        _, cold = smelt(command, "run", path, "--tuning-level", level, *options)
        _, warm = smelt(command, "run", path, "--tuning-level", level, *options)
        text, _ = smelt(command, "profile", path, "--optimized", "--tuning-level", level, "--iterations", iterations, "--json", *options)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    p = json.loads(text)["after"]
    latency, inside = p["latency_us"]["median"], p["steps_us"] + p["gaps_us"]
    top = sorted(p["steps"], key=lambda s: -s["us"]["median"])[:8]
    return {"latency_us": latency, "iqr_us": p["latency_us"]["iqr"], "steps_us": p["steps_us"], "gaps_us": p["gaps_us"],
            "unattributed": 1 - inside / latency, "steps": len(p["steps"]), "cold_s": cold, "warm_s": warm,
            "top": [{"us": s["us"]["median"], **{k: s[k] for k in ("name", "problem", "tactic", "config")}} for s in top]}


def onnxruntime_us(path):
    """ONNX Runtime's CUDA provider in a CUDA graph, microseconds; None where it is not installed."""
    try:
        import numpy as np
        import onnxruntime as ort
    except ImportError:
        return None
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return None
    session = ort.InferenceSession(str(path), providers=[("CUDAExecutionProvider", {"enable_cuda_graph": "1"})])
    binding = session.io_binding()
    for name, value in np.load(path.with_suffix(".inputs.npz")).items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, "cuda", 0))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda")
    for _ in range(5):
        session.run_with_iobinding(binding)
    samples = []
    for _ in range(30):
        begin = time.perf_counter()
        for _ in range(20):
            session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        samples.append((time.perf_counter() - begin) / 20 * 1e6)
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt", type=os.path.abspath)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--tuning-level", default=2)
    parser.add_argument("--iterations", default=30)
    parser.add_argument("--allow-fallback", action="store_true")
    parser.add_argument("--tactics", default="")
    parser.add_argument("--ort", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "results")
    a = parser.parse_args()
    gpu = subprocess.check_output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True).strip()
    results = {"gpu": gpu, "smelt": smelt(a.smelt, "--version")[0].strip(), "tuning_level": int(a.tuning_level),
               "tactics": a.tactics, "models": {}}
    options = (["--allow-fallback"] if a.allow_fallback else []) + ([f"--tactics={a.tactics}"] if a.tactics else [])
    print(f"{gpu}\n{'model':<24}{'latency us':>11}{'IQR':>7}{'steps us':>10}{'gaps us':>9}{'missing':>9}{'steps':>7}"
          f"{'cold s':>8}{'warm s':>8}" + (f"{'ort us':>10}{'ratio':>7}" if a.ort else ""), flush=True)
    for name in a.models:
        try:
            path = filled(name, a.folder)
            row = measure(a.smelt, path, a.tuning_level, a.iterations, options)
            line = (f"{name:<24}{row['latency_us']:>11.1f}{row['iqr_us']:>7.1f}{row['steps_us']:>10.1f}{row['gaps_us']:>9.1f}"
                    f"{row['unattributed']:>9.1%}{row['steps']:>7}{row['cold_s']:>8.1f}{row['warm_s']:>8.1f}")
            if a.ort and (peer := onnxruntime_us(path)):
                row["ort_us"] = peer
                line += f"{peer:>10.1f}{row['latency_us'] / peer:>7.3f}"
        except (RuntimeError, subprocess.CalledProcessError) as error:
            row, line = {"error": str(error)}, f"{name:<24} failed: {str(error)[-300:]}"
        results["models"][name] = row
        print(line, flush=True)
    a.out.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d-%H%M")
    (a.out / f"gpu-models-{now}.json").write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any("error" in r for r in results["models"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
