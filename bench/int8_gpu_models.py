"""Models in 8 bits on the first GPU that is visible, beside the same models in fp16: latency, and the steps that take longest.

usage: python bench/int8_gpu_models.py SMELT FOLDER [--models NAME...] [--forms FORM...] [--batches N...] [--rounds N]
                                       [--tuning-level L] [--tactics LIST] [--iterations N] [--steps N] [--out FILE]
       (SMELT: build/smelt; FOLDER: where models are made)

NAME is one of examples/models that is there in fp32 and fp16, FORM one of int8_models.py's. A quantised graph that is missing,
FOLDER/NAME.FORM.onnx, is made by ONNX Runtime's quantizer; one that was made elsewhere needs neither it nor the fp32 graph. Other
batches than one are the same graphs with another first extent of what they read.

Latency is that of bench/gpu_models.py: one forward pass, inputs and outputs on the device, one CUDA graph, the median over
samples; the two types are taken in turn, --rounds times each (2), and the figure is the least. `float` is how many steps of the
quantised model read or write floats, and their share of its time. Ends with how many are at most 0.65 (several images) and 0.90
(one) of fp16, and names the steps of those that are slower than fp16: then the exit status is 1.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import sys
import tempfile

import numpy as np
import onnx
import shared
from gpu_models import gpu_name, smelt

MODELS = ("resnet50", "mobilenet_v3_large", "unet", "detector")
AT_MOST = {True: 0.65, False: 0.90}   # of fp16, by whether there are several images


def quantised(name, form, folder):
    target = folder / f"{name}.{form}.onnx"
    if not target.exists():
        from int8_models import FORMS, quantize  # ONNX Runtime, which a machine that only measures need not have
        quantize(shared.filled(f"{name}.fp32", folder), target, FORMS[form], count=2)
    return target


def batched(path, images):
    """The model for so many images, and inputs of that extent beside it."""
    target = path.with_name(f"{path.stem}.{images}.onnx")
    if target.exists():
        return target
    model = onnx.load(path)
    graph = model.graph
    shapes = {i for n in graph.node if n.op_type == "Reshape" for i in n.input[1:]}
    for tensor in graph.initializer:
        if tensor.name in shapes:
            extents = onnx.numpy_helper.to_array(tensor).copy()
            extents[0] = images if extents[0] == 1 else extents[0]
            tensor.CopyFrom(onnx.numpy_helper.from_array(extents, tensor.name))
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = images
    onnx.save(model, target)
    random, feeds = np.random.default_rng(0), {}
    for value in graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        element = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = random.standard_normal(shape).astype(element)
    np.savez(target.with_suffix(".inputs.npz"), **feeds)
    return target


def profile(path, a, cache):
    options = ["--tuning-level", a.tuning_level, "--device", "gpu", "--cache-dir", cache, "--iterations", a.iterations,
               "--no-what-if", "--inputs", path.with_suffix(".inputs.npz"), *([f"--tactics={a.tactics}"] if a.tactics else [])]
    return json.loads(smelt(a.smelt, "profile", path, "--optimized", "--json", *options)[0])["after"]


def in_floats(step):
    """Whether the step reads or writes tensors of floats, by its problem. A fused region's types stand behind its programs
    (…}:u8[1,4]>f32[1,4]), a product's before its program, which starts from its sums (conv:u8>u8:…)."""
    problem = step["problem"]
    types = problem.rsplit("}", 1)[-1] if problem.startswith("ai.smelt.") else re.split(r":\(in0|\{", problem)[0]
    return bool(re.search(r"\b(f64|f32|f16|bf16)\b", types))


def measure(paths, a):
    """{type: the profile of the round that was fastest}"""
    found = {}
    with tempfile.TemporaryDirectory(prefix="smelt-", ignore_cleanup_errors=True) as cache:
        for _ in range(a.rounds):
            for kind, path in paths.items():
                p = profile(path, a, cache)
                if kind not in found or p["latency_us"]["median"] < found[kind]["latency_us"]["median"]:
                    found[kind] = p
    return found


def row_of(profiles):
    eight, half = profiles["int8"], profiles["fp16"]
    floats = [s for s in eight["steps"] if in_floats(s)]
    facts = ("name", "problem", "tactic", "config")

    def by_time(steps):
        return [{"us": s["us"]["median"], **{k: s[k] for k in facts}} for s in sorted(steps, key=lambda s: -s["us"]["median"])]

    return {"int8_us": eight["latency_us"]["median"], "fp16_us": half["latency_us"]["median"],
            "ratio": eight["latency_us"]["median"] / half["latency_us"]["median"],
            "steps": len(eight["steps"]), "fp16_steps": len(half["steps"]), "float_steps": len(floats),
            "float_share": sum(s["us"]["median"] for s in floats) / sum(s["us"]["median"] for s in eight["steps"]),
            "every_step": by_time(eight["steps"]), "every_fp16_step": by_time(half["steps"])}


def line(label, r):
    return (f"{label:<32}{r['int8_us']:>10.1f}{r['fp16_us']:>10.1f}{r['ratio']:>8.3f}{r['steps']:>7}{r['fp16_steps']:>7}"
            f"{r['float_steps']:>7}{r['float_share']:>8.1%}")


def step_lines(steps, count):
    return [f"    {s['us']:8.2f} us  {s['name'][:40]:<40} {s['problem'][:80]:<80} {s['tactic']} {s['config']}"
            for s in steps[:count]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--forms", nargs="+", default=["u8s8"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tuning-level", default=2)
    parser.add_argument("--tactics", default="")
    parser.add_argument("--iterations", default=30)
    parser.add_argument("--steps", type=int, default=8, help="of each model's quantised form, the longest first")
    parser.add_argument("--out", type=pathlib.Path, help="a .txt; the figures of every step go beside it as .json")
    a = parser.parse_args()
    lines, rows = [], {}

    def say(*text):
        lines.extend(text)
        print("\n".join(text), flush=True)

    say(f"{gpu_name()}, {smelt(a.smelt, '--version')[0].strip()}, commit {shared.commit()}",
        f"{'model, form, images':<32}{'int8 us':>10}{'fp16 us':>10}{'ratio':>8}{'steps':>7}{'fp16':>7}{'float':>7}{'share':>8}")
    for name in a.models:
        for form in a.forms:
            for images in a.batches:
                label = f"{name} {form} {images}"
                try:
                    paths = {"int8": quantised(name, form, a.folder), "fp16": shared.filled(f"{name}.fp16", a.folder)}
                    rows[label] = row_of(measure({k: batched(p, images) for k, p in paths.items()}, a))
                    say(line(label, rows[label]), *step_lines(rows[label]["every_step"], a.steps))
                except RuntimeError as error:
                    say(f"{label:<32} failed: {str(error)[-300:]}")
                if a.out:
                    a.out.write_text("\n".join(lines) + "\n")
                    a.out.with_suffix(".json").write_text(json.dumps(rows) + "\n")
    for several, most in AT_MOST.items():
        ratios = [r["ratio"] for label, r in rows.items() if (label.split()[-1] != "1") == several]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            say(f"{'several images' if several else 'one image'}: {sum(r <= most for r in ratios)} of {len(ratios)} at most "
                f"{most} of fp16, geometric mean {mean:.3f}")
    slower = {label: r for label, r in rows.items() if r["ratio"] > 1}
    for label, r in slower.items():
        say(f"slower than fp16: {label}, of whose time {r['float_share']:.0%} are steps in floats; the longest:",
            *step_lines(r["every_step"], 3))
    if a.out:
        a.out.write_text("\n".join(lines) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
