"""fp32 graphs in 8 bits by ONNX Runtime's quantizer, calibrated on random inputs: QDQ, operators of integers, dynamic."""
import dataclasses
import logging
import pathlib
import shutil
import tempfile

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


@dataclasses.dataclass
class Form:
    """How weights and activations become 8 bits."""
    format: QuantFormat | None = QuantFormat.QDQ    # None: dynamic, each tensor's scale from its own values at run time
    activations: QuantType = QuantType.QUInt8
    weights: QuantType = QuantType.QInt8
    per_channel: bool = True                        # one scale for each output channel of a weight


@dataclasses.dataclass
class Recipe(Form):
    source: str = ""                                # in examples/models


FORMS = {"u8s8": Form(),
         "s8s8": Form(activations=QuantType.QInt8),
         "u8s8.tensor": Form(per_channel=False),
         "qop": Form(QuantFormat.QOperator),
         "dynamic": Form(None, per_channel=False),
         "u8u8": Form(weights=QuantType.QUInt8, per_channel=False),                  # weights' zero points anywhere
         "dynamic.u8": Form(None, weights=QuantType.QUInt8, per_channel=False)}

# What bench/cpu_models.py --int8 measures.
QUANTIZED = {f"{name}.{kind}": Recipe(**vars(FORMS[kind]), source=f"{name}.fp32")
             for name in ("resnet50", "mobilenet_v3_large", "unet", "detector") for kind in ("u8s8", "s8s8")}


class RandomInputs(CalibrationDataReader):
    """Normally distributed inputs of the shapes of `feeds`, the same on every machine; integers (tokens, masks) as they are."""

    def __init__(self, feeds, count=4):
        random = np.random.default_rng(7)
        self.batches = [{k: random.standard_normal(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v
                         for k, v in feeds.items()} for _ in range(count)]

    def get_next(self):
        return self.batches.pop() if self.batches else None


def drop_weights_shapes(path):
    """quantize_dynamic turns the weights of Gemm with transB, but not the shapes that value_info gives them beside their own."""
    model = onnx.load(path)
    weights = {w.name for w in model.graph.initializer}
    kept = [v for v in model.graph.value_info if v.name not in weights]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    onnx.save(model, path)


def quantize(source: pathlib.Path, target: pathlib.Path, form: Form, count=4):
    """Writes `target`, and beside it the source's inputs as target's .inputs.npz."""
    feeds = source.with_suffix(".inputs.npz")
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch:
        whole, ready = pathlib.Path(scratch) / "whole.onnx", pathlib.Path(scratch) / "ready.onnx"
        onnx.save(onnx.load(source), whole)             # weights inside: the preprocessing reads no data file beside its model
        quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
        if form.format is None:
            drop_weights_shapes(ready)
            quantize_dynamic(str(ready), str(target), per_channel=form.per_channel, weight_type=form.weights)
        else:
            quantize_static(str(ready), str(target), RandomInputs(dict(np.load(feeds)), count), quant_format=form.format,
                            per_channel=form.per_channel, activation_type=form.activations, weight_type=form.weights)
    shutil.copy(feeds, target.with_suffix(".inputs.npz"))
