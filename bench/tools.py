"""Puts models through the tools that users put theirs through, to meet the files that these write.

usage: .venv/bin/python bench/tools.py FOLDER MODEL... [--tools NAME...]
       PYTHONPATH=build/python .venv/bin/python bench/user_models.py --models FOLDER/*.onnx --engines smelt onnxruntime

MODEL is a path to a model with its .inputs.npz beside it, as bench/architectures.py writes them. Each tool
writes FOLDER/MODEL.TOOL.onnx with its .inputs.npz; one that is there already is kept. Models that a tool leaves as they were, or
cannot take, are said and left out. The tools are ONNX Runtime's optimiser (SessionOptions.optimized_model_filepath), its
transformers' optimiser, its quantizers, and ONNX's version converter. The one of 4 bits needs the package onnx-ir.
"""
import argparse
import contextlib
import io
import logging
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, version_converter
from onnxruntime import quantization as quant
from onnxruntime.quantization import shape_inference

# Which of the transformers optimiser's model types fits a file's name; "bert" fits most encoders.
MODEL_TYPES = {
    "gpt2": ("GPT", "OPT", "Bloom", "Falcon"), "phi": ("Phi",), "qwen3": ("Llama", "Mistral", "Qwen", "Gemma", "Olmo"),
    "vit": ("ViT", "vit", "DeiT", "deit", "Beit", "Dino", "MAE", "MSN"), "clip": ("CLIP",), "bart": ("Bart", "Whisper"),
    "t5": ("T5",), "swin": ("swin", "Swin"), "conformer": ("Wav2Vec2", "Hubert", "WavLM"), "unet": ("unet", "vae")}


class Inputs(quant.CalibrationDataReader):
    """One set of inputs, for calibration."""

    def __init__(self, source):
        self.left = iter([dict(np.load(source.with_suffix(".inputs.npz")))])

    def get_next(self):
        return next(self.left, None)


def runtime(level):
    def write(source, to):
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(to)
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return write


def converted(opset):
    def write(source, to):
        onnx.save(version_converter.convert_version(onnx.load(str(source)), opset), str(to))
    return write


def transformers(half=False, options=()):
    def write(source, to):
        from onnxruntime.transformers import fusion_options, optimizer
        kind = next((k for k, names in MODEL_TYPES.items() if any(n in source.name for n in names)), "bert")
        chosen = fusion_options.FusionOptions(kind)
        for option in options:
            setattr(chosen, option, True)
        model = optimizer.optimize_model(str(source), kind, num_heads=0, hidden_size=0, optimization_options=chosen, opt_level=0)
        if half:
            model.convert_float_to_float16(keep_io_types=True)
        model.save_model_to_file(str(to))
    return write


def prepared(source, to):
    """The model as quantisation's guide has it prepared: optimised, with shapes."""
    ready = to.with_suffix(".ready")
    try:
        shape_inference.quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        return ready
    except Exception:   # whatever ONNX or ONNX Runtime raises: quantize what there is
        return source


def fed(first, source, to):
    """What `first` writes of the source, if there is such a tool."""
    if first is None:
        return source
    first(source, to.with_suffix(".fed"))
    return to.with_suffix(".fed")


def dynamic(optimised=False, first=None, **options):
    def write(source, to):
        source, ready = fed(first, source, to), to.with_suffix(".ready")
        quant.quantize_dynamic(str(source), str(ready), **options)
        if optimised:
            runtime("EXTENDED")(ready, to)
        else:
            ready.rename(to)
    return write


def static(form, activations, weights, optimised=False, **options):
    def write(source, to):
        written = to.with_suffix(".quantized")
        quant.quantize_static(str(prepared(source, to)), str(written), Inputs(source), quant_format=quant.QuantFormat[form],
                              activation_type=quant.QuantType[activations], weight_type=quant.QuantType[weights], **options)
        if optimised:
            runtime("EXTENDED")(written, to)
        else:
            written.rename(to)
    return write


def four_bits(form, block_size, symmetric, operators=("MatMul",), first=None):
    def write(source, to):
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        model = onnx.load(str(fed(first, source, to)))
        quantizer = MatMulNBitsQuantizer(model, block_size=block_size, is_symmetric=symmetric, accuracy_level=4,
                                         quant_format=quant.QuantFormat[form], op_types_to_quantize=operators)
        quantizer.process()
        quantizer.model.save_model_to_file(str(to))
    return write


def half(source, to):
    from onnxruntime.transformers.float16 import convert_float_to_float16
    onnx.save(convert_float_to_float16(onnx.load(str(source)), keep_io_types=True), str(to))


def caffe2_style(source, to):
    """Initializers among the inputs, as files before IR version 4 have them."""
    model = onnx.load(str(source))
    for t in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    model.ir_version = 3
    onnx.save(model, str(to))


TOOLS = {
    "ort_basic": runtime("BASIC"), "ort_extended": runtime("EXTENDED"), "ort_all": runtime("ALL"),
    "transformers": transformers(), "transformers_fp16": transformers(half=True),
    "transformers_mha": transformers(options=("use_multi_head_attention",)), "fp16": half,
    "dynamic": dynamic(), "dynamic_s8": dynamic(weight_type=quant.QuantType.QInt8, per_channel=True, reduce_range=True),
    "dynamic_optimised": dynamic(optimised=True, reduce_range=True),
    "transformers_dynamic": dynamic(first=transformers(), extra_options={"DefaultTensorType": TensorProto.FLOAT}),
    "qdq": static("QDQ", "QUInt8", "QInt8", per_channel=True), "qdq_s8": static("QDQ", "QInt8", "QInt8"),
    "qdq_optimised": static("QDQ", "QUInt8", "QUInt8", optimised=True),
    "qoperator": static("QOperator", "QUInt8", "QUInt8"),
    "qoperator_s8": static("QOperator", "QInt8", "QInt8", per_channel=True, reduce_range=True),
    "qoperator_optimised": static("QOperator", "QUInt8", "QInt8", optimised=True),
    "4bits": four_bits("QOperator", 32, False), "4bits_symmetric": four_bits("QOperator", 128, True),
    "4bits_gather": four_bits("QOperator", 32, False, ("MatMul", "Gather"), converted(21)),
    "4bits_qdq": four_bits("QDQ", 32, True, first=converted(21)),
    "4bits_transformers": four_bits("QOperator", 64, False, first=transformers()), "initializers_as_inputs": caffe2_style,
    **{f"opset{v}": converted(v) for v in (7, 9, 11, 13, 17, 21)},
}


def operators(model):
    found = []
    def visit(g):
        for n in g.node:
            found.append((n.domain, n.op_type))
            for a in n.attribute:
                for sub in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                    visit(sub)
    visit(model.graph)
    return sorted(found)


def write(source, tool, to):
    """Why the tool wrote nothing, or nothing."""
    part = to.with_suffix(".part")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            TOOLS[tool](source, part)
        before, after = (onnx.load(str(p), load_external_data=False) for p in (source, part))
        types = [{t.data_type for t in m.graph.initializer} for m in (before, after)]
        same = operators(before) == operators(after) and types[0] == types[1]
        versions = [[o.version for o in m.opset_import if o.domain in ("", "ai.onnx")] for m in (before, after)]
        if same and versions[0] == versions[1] and len(before.graph.input) == len(after.graph.input):
            return "leaves it as it was"
        floats = {i.name for i in after.graph.input if i.type.tensor_type.elem_type == TensorProto.FLOAT}
        kept = {i.name for i in after.graph.input}
        values = {k: v.astype(np.float32) if k in floats else v
                  for k, v in np.load(source.with_suffix(".inputs.npz")).items() if k in kept}
        ort.InferenceSession(str(part), providers=["CPUExecutionProvider"]).run(None, values)
        np.savez(to.with_suffix(".inputs.npz"), **values)
        part.rename(to)
        return None
    except Exception as e:   # whatever a tool raises
        return f"{type(e).__name__}: {str(e).splitlines()[0][:100] if str(e) else ''}"
    finally:
        for rest in to.parent.glob(f"{to.stem}.*"):
            if rest.suffix in (".part", ".ready", ".quantized", ".fed", ".data"):
                shutil.rmtree(rest) if rest.is_dir() else rest.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(4)
    for source in args.models:
        for tool in args.tools:
            to = args.folder / f"{source.stem}.{tool}.onnx"
            if not to.exists():
                why = write(source, tool, to)
                print(f"{to.name}: {why or f'{to.stat().st_size / 2**20:.1f} MiB'}", flush=True)


if __name__ == "__main__":
    main()
