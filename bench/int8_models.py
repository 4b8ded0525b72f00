"""QDQ models: fp32 graphs through ONNX Runtime's static quantizer, calibrated on random inputs."""
import dataclasses
import logging
import pathlib
import shutil
import tempfile

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


@dataclasses.dataclass
class Recipe:
    source: str                            # in examples/models
    activations: QuantType = QuantType.QUInt8
    weights: QuantType = QuantType.QInt8   # one scale for each output channel


# What bench/cpu_models.py --int8 measures.
QUANTIZED = {f"{name}.{kind}": Recipe(f"{name}.fp32", activations)
             for name in ("resnet50", "mobilenet_v3_large", "unet", "detector")
             for kind, activations in (("u8s8", QuantType.QUInt8), ("s8s8", QuantType.QInt8))}


class RandomInputs(CalibrationDataReader):
    """Normally distributed inputs of the shapes of `feeds`, the same on every machine."""

    def __init__(self, feeds, count=4):
        random = np.random.default_rng(7)
        self.batches = [{k: random.standard_normal(v.shape).astype(v.dtype) for k, v in feeds.items()} for _ in range(count)]

    def get_next(self):
        return self.batches.pop() if self.batches else None


def quantize(source: pathlib.Path, target: pathlib.Path, recipe: Recipe):
    """Writes `target`, and beside it the source's inputs as target's .inputs.npz."""
    feeds = source.with_suffix(".inputs.npz")
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch:
        whole, ready = pathlib.Path(scratch) / "whole.onnx", pathlib.Path(scratch) / "ready.onnx"
        onnx.save(onnx.load(source), whole)             # weights inside: the preprocessing reads no data file beside its model
        quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
        quantize_static(str(ready), str(target), RandomInputs(dict(np.load(feeds))), quant_format=QuantFormat.QDQ,
                        per_channel=True, activation_type=recipe.activations, weight_type=recipe.weights)
    shutil.copy(feeds, target.with_suffix(".inputs.npz"))
