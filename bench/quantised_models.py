"""Models in 8 bits on the CPU: smelt over the same model in f32, over the same unfused, and over ONNX Runtime, in one table.

usage: PYTHONPATH=build/python .venv/bin/python bench/quantised_models.py [--models NAME...] [--forms FORM...] [--rounds N]
                     [--seconds S] [--threads N] [--tuning-level L] [--folder F] [--no-shares] [--at-most R] [--out FILE]

NAME is a graph of examples/models (crnn.fp32), or a path to a model with its .inputs.npz beside it; without any: GRAPHS. FORM is
one of int8_models.py's: QDQ with activations of u8 or s8, with one scale a weight, with ONNX's operators of integers, dynamic.
What is missing is made into --folder first by ONNX Runtime's quantizer.

Engines, batches and figures are those of user_models.py; the f32 model's are taken in turn with the others of each form. The
first error is the largest difference between smelt fused and unfused over the largest value, the second that from ONNX Runtime
without optimisations. Ends with the geometric means, and with the rows that took more than R (1.02) times as long as the same
model in f32 in every round: then the exit status is 1.
"""
import argparse
import math
import pathlib
import sys

import numpy as np
import shared
from int8_models import FORMS, quantize
from user_models import Engine, error, filled, parsed, reference_steps

GRAPHS = ("resnet50.fp32", "mobilenet_v3_large.fp32", "unet.fp32", "detector.fp32", "crnn.fp32", "shufflenet.fp32",
          "segformer.fp32", "wav2vec2.fp32", "whisper_enc.fp32", "vit_b_16.fp32")
PEERS = ("f32", "unfused", "onnxruntime")


def made(source, form, folder):
    """The model in that form; made when it is missing."""
    target = folder / f"{source.stem}.{form}.onnx"
    if not target.with_suffix(".inputs.npz").exists():
        quantize(source, target, FORMS[form], count=2)
    return target


def measure(source, model, args):
    engines = {"smelt": Engine("smelt", model, args), "f32": Engine("smelt", source, args, "f32"),
               "unfused": Engine("unfused", model, args), "onnxruntime": Engine("onnxruntime", model, args)}
    plain = Engine("onnxruntime.plain", model, args)
    found, exact, expected = engines["smelt"].outputs(), engines["unfused"].outputs(), plain.outputs()
    plain.end()
    order = list(engines.values())
    for _ in range(args.rounds):
        for engine in order:
            engine.batch(args.seconds)
        order.reverse()
    for e in engines.values():
        e.end()
    row = {"ms": {n: e.ms() for n, e in engines.items()}, "batches_ms": {n: e.batches for n, e in engines.items()},
           "first_s": engines["smelt"].ready, "error": {"unfused": error(found, exact), "onnxruntime": error(found, expected)}}
    row["reference"], row["reference_share"] = reference_steps(model, args) if args.shares else ({}, math.nan)
    return row


def text_of(name, r):
    ms = r["ms"]
    kinds = ", ".join(f"{k} {v:.0%}" for k, v in sorted(r["reference"].items(), key=lambda x: -x[1])[:4] if v >= 0.01)
    return (f"{name:34} " + " ".join(f"{ms[e]:8.3f}" for e in ("smelt", *PEERS)) + " " +
            " ".join(f"{ms['smelt'] / ms[e]:7.3f}" for e in PEERS) +
            f" {r['error']['unfused']:8.1e} {r['error']['onnxruntime']:8.1e} {r['reference_share']:6.1%} {r['first_s']:6.1f}" +
            f"  {kinds}")


def beyond_noise(r):
    """smelt over f32 at the least: the lowest ratio of batches that were taken in the same round."""
    return min(a / b for a, b in zip(r["batches_ms"]["smelt"], r["batches_ms"]["f32"], strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(GRAPHS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--at-most", type=float, default=1.02, help="of the time in f32, beyond noise")
    args = parsed(parser, rounds=3, seconds=0.3)
    lines = [f"{shared.cpu_name()}, {args.threads} threads, tuning level {args.tuning_level}, commit {shared.commit()}",
             f"{'model':34} {'smelt ms':>8} {'f32':>8} {'unfused':>8} {'ORT':>8} {'/f32':>7} {'/unfus.':>7} {'/ORT':>7} "
             f"{'error':>8} {'of ORT':>8} {'ref':>6} {'first s':>6}  steps without a kernel of their own"]
    print("\n".join(lines), flush=True)
    rows = {}
    for name in args.models:
        for form in args.forms:
            label = f"{pathlib.Path(name).stem if name.endswith('.onnx') else name}.{form}"
            try:
                source = filled(name, args.folder)
                rows[label] = measure(source, made(source, form, args.folder), args)
                lines.append(text_of(label, rows[label]))
            except Exception as e:  # of the quantizer too, which takes not every model
                lines.append(f"{label:34} {type(e).__name__}: {str(e)[:120]}")
            print(lines[-1], flush=True)
    for what in PEERS:
        ratios = [r["ms"]["smelt"] / r["ms"][what] for r in rows.values()]
        if ratios:
            lines.append(f"smelt / {what}: geometric mean {math.exp(np.mean(np.log(ratios))):.3f}, largest {max(ratios):.3f}")
            print(lines[-1])
    slower = {n: beyond_noise(r) for n, r in rows.items() if beyond_noise(r) > args.at_most}
    named = ", ".join(f"{n} {v:.2f}" for n, v in slower.items()) or "none"
    lines.append(f"more than {args.at_most} of f32 in every round: {named}")
    print(lines[-1])
    shared.write_table(args.out, lines, rows)
    sys.exit(bool(slower) or any(r["error"]["unfused"] > 0.05 for r in rows.values()))


if __name__ == "__main__":
    main()
