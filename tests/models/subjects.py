"""What is checked: the exported graphs of examples/models, and models made here (made.py)."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys

import made
import numpy as np
import onnx
from onnx import helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GRAPHS = ROOT / "examples" / "models"

# Three sizes each for the graphs with symbolic dimensions, none of them a multiple of the others or of a kernel's tile
# throughout.
SIZES = {
    "resnet50.dyn.fp16": [{"batch": 1}, {"batch": 2}, {"batch": 5}],
    "unet.dyn.fp16": [{"batch": 1}, {"batch": 2}, {"batch": 3}],
    "bert_base.dyn.fp16": [{"batch": 1, "seq": 7}, {"batch": 3, "seq": 64}, {"batch": 2, "seq": 129}],
    "llama_gpt.dyn.bf16": [{"batch": 1, "seq": 5}, {"batch": 2, "seq": 33}, {"batch": 1, "seq": 128}],
    "scripted": [{"batch": 2, "time": 7}, {"batch": 2, "time": 1}, {"batch": 2, "time": 30}],
    "perceptron": [{"": 1}, {"": 33}, {"": 500}],
    "llama7b_decode.dyn.fp16": [{"batch": 1, "past": 1}, {"batch": 3, "past": 17}, {"batch": 2, "past": 300}],
}

# From the quickest to the slowest.
ALL = ["mobilenet_v3_large.fp32", "mobilenet_v3_large.op13.bn.fp32", "mobilenet_v3_large.fp16", "resnet50.fp32",
       "resnet50.op11.bn.fp32", "resnet50.fp16", "unet.fp32", "unet.fp16", "detector.fp32", "detector.fp16", "ssdlite.op16.fp32",
       "vit_b_16.fp32", "vit_b_16.fp16", "resnet50.dyn.fp16", "unet.dyn.fp16", "bert_base.dyn.fp16", "llama_gpt.dyn.bf16",
       "resnet50_b32.fp16", "bert_base.fp32", "bert_base.fp16", "llama7b_decode.dyn.fp16", "llama7b_decode.fp16",
       "llama_gpt.fp32", "llama_gpt.op14.fp32", "llama_gpt.bf16", "dit_xl_2.fp16", "dit_xl_2.fp32", "sd15_unet.fp16"]
# One of each kind, small enough to run with the other tests.
QUICK = ["mobilenet_v3_large.fp32", "mobilenet_v3_large.op13.bn.fp32", "mobilenet_v3_large.fp16", "resnet50.dyn.fp16",
         "unet.fp32", "ssdlite.op16.fp32", "bert_base.dyn.fp16", "llama_gpt.dyn.bf16", "odd", "products", "scripted",
         "perceptron", "products.qdq.u8s8", "products.qdq.s8s8", "products.qlinear.u8s8", "mobilenet_v3_large.fp32.qdq.u8s8",
         "mobilenet_v3_large.fp32.as_bf16"]


@dataclasses.dataclass
class Subject:
    name: str
    model: pathlib.Path
    inputs: list                       # one .npz a size
    sizes: list = dataclasses.field(default_factory=lambda: [{}])
    precision: str = ""
    keep_fp32: tuple = ()
    in_ort: bool = True                # ONNX Runtime can run the model
    plan: bool = True                  # the plan is written and run too
    oracle: str = "float64"            # or "ort": where an output's order depends on the last bit of a score
    quantised: bool = False            # its activations are rounded to 8 bits
    data_bytes: int = 0                # of the external data file


def exported(name, work):
    """The graph with weights, filled in `work` once, with one .npz of inputs a size."""
    work = pathlib.Path(work)
    model = work / f"{name}.onnx"
    data = work / f"{name}.data"
    sizes = SIZES.get(name, [{}])
    if not model.exists() or model.read_bytes() != (GRAPHS / f"{name}.onnx").read_bytes() or not data.exists():
        subprocess.run([sys.executable, str(GRAPHS / "fill.py"), str(GRAPHS / f"{name}.onnx"), str(work)], check=True)
    proto = onnx.load(model, load_external_data=False)
    inputs = []
    for i, size in enumerate(sizes):
        path = work / (f"{name}.inputs.npz" if not size else f"{name}.inputs.{i}.npz")
        if size:
            np.savez(path, **feeds(proto, size, i))
        inputs.append(str(path))
    return Subject(name, model, inputs, sizes, in_ort=not name.endswith("bf16"), data_bytes=data.stat().st_size)


def feeds(model, sizes, seed=0):
    """Inputs as fill.py makes them: floats standard normal, integers in [0, 1000)."""
    rng, made = np.random.default_rng(seed), {}
    for i in model.graph.input:
        t = i.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in t.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(t.elem_type)
        made[i.name] = rng.integers(0, 1000, shape, dtype) if dtype.kind in "iu" else rng.standard_normal(shape).astype(dtype)
    return made


def by_hand(name, work):
    path, sizes, inputs = made.write(name, work)
    files = []
    for i, arrays in enumerate(inputs):
        files.append(str(work / f"{name}.inputs.{i}.npz"))
        np.savez(files[-1], **arrays)
    return Subject(name, path, files, sizes)


def quantised(name, work):
    base, form, kind = made.QUANTISED[name]
    source = by_hand(base, work) if base in BY_HAND else exported(base, work)
    target = work / f"{name}.onnx"
    if not target.exists():
        proto = onnx.load(source.model, load_external_data=False)
        made.quantise(source.model, target, lambda seed: feeds(proto, {}, seed), form, kind, per_channel=True)
    return Subject(name, target, source.inputs, quantised=True)


def converted(name, work):
    base, precision, kept = made.CONVERTED[name]
    s = exported(base, work)
    s.name, s.precision, s.keep_fp32 = name, precision, kept
    return s


def checked_in(name, work):
    model = HERE / "exported" / f"{name}.onnx"
    proto, sizes, files = onnx.load(model), SIZES[name], []
    for i, size in enumerate(sizes):
        files.append(str(work / f"{name}.inputs.{i}.npz"))
        np.savez(files[-1], **feeds(proto, size, i))
    shutil.copy(model, work)                        # its plan is written beside it
    return Subject(name, work / model.name, files, sizes)


BY_HAND = ["odd", "products"]
EXPORTED = ["scripted", "perceptron"]
MADE = BY_HAND + EXPORTED + list(made.QUANTISED) + list(made.CONVERTED)


def subject(name, work):
    """The subject of this name; its files are made in `work` where they are missing."""
    work = pathlib.Path(work)
    for names, make in ((BY_HAND, by_hand), (EXPORTED, checked_in), (made.QUANTISED, quantised), (made.CONVERTED, converted),
                        (ALL, exported)):
        if name in names:
            return make(name, work)
    raise KeyError(f"no model '{name}': {', '.join(ALL + MADE)}")
