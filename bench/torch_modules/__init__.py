"""The models of examples/models as PyTorch modules.

Each is written from the graph that its model was exported to: the same layers, widths, paddings and activations, under the names
that the graph's name scopes give. What the exporter folded away is not here either (batch norm of fresh statistics, zero biases).
Attention is F.scaled_dot_product_attention; bert_base's mask, a constant that is true everywhere, is left out, for PyTorch has
faster kernels without one. Weights are the graph's; a weight without a place, or a place without a weight, is an error.
"""
import itertools

import torch

from torch_modules.diffusion import DiTXL2, SD15UNet
from torch_modules.images import Detector, MobileNetV3Large, ResNet50, UNet
from torch_modules.transformers import Bert, Llama7bDecode, LlamaGPT, ViTB16, WhisperEncoder
from torch_modules.weights import weights_of


class Architecture:
    """A module's class; what initializers that are its buffers are called there; the scope it was exported under."""

    def __init__(self, build, constants=None, prefix="", channels_last=False):
        self.build, self.constants, self.prefix, self.channels_last = build, constants or {}, prefix, channels_last


ARCHITECTURES = {
    "resnet50": Architecture(ResNet50, channels_last=True),
    "resnet50_b32": Architecture(ResNet50, channels_last=True),
    "mobilenet_v3_large": Architecture(MobileNetV3Large, channels_last=True),
    "unet": Architecture(UNet, channels_last=True),
    "detector": Architecture(Detector, channels_last=True),
    "vit_b_16": Architecture(ViTB16, {"expand": "class_token", "encoder.pos_embedding": "encoder.pos_embedding"}),
    "bert_base": Architecture(Bert, {"expand": "embeddings.token_types", "slice_1": "embeddings.positions"}, prefix="m."),
    "whisper_enc": Architecture(WhisperEncoder, {"arange": "positions"}, prefix="m.encoder."),
    "llama_gpt": Architecture(LlamaGPT, {"mul": "angles"}),
    "dit_xl_2": Architecture(DiTXL2),
    "sd15_unet": Architecture(SD15UNet, {"exp": "frequencies"}, channels_last=True),
    "llama7b_decode": Architecture(Llama7bDecode, {"pow_1": "frequencies"}),
}


def architecture(name):
    key, _, precision = name.partition(".")
    if key not in ARCHITECTURES or precision not in ("fp32", "fp16", "bf16"):
        raise KeyError(f"{name}: no PyTorch module of it; expected one of {', '.join(ARCHITECTURES)}, then .fp32, .fp16 or .bf16")
    return ARCHITECTURES[key]


def build(name, model, read):
    """The module of a graph; `read` makes a tensor of an initializer. Raises where names or shapes of the two differ."""
    arch = architecture(name)
    with torch.device("meta"):
        module = arch.build()
    initializers = {t.name: t for t in model.graph.initializer}
    unused, state = {t.name for t in model.graph.initializer if t.external_data}, {}

    def take(initializer):
        unused.discard(initializer)
        return read(initializers[initializer])

    places = {arch.prefix + place for place in module.state_dict()}
    constants = ((arch.prefix + place, take(initializer)) for initializer, place in arch.constants.items())
    for place, value in itertools.chain(constants, weights_of(model.graph, take, places)):
        if place in state:
            raise ValueError(f"{name}: {place} given twice")
        state[place] = value
    if unused:
        raise ValueError(f"{name}: initializers that no part of the module takes: {', '.join(sorted(unused))}")
    module.load_state_dict({place.removeprefix(arch.prefix): value for place, value in state.items()}, strict=True, assign=True)
    return module.eval().requires_grad_(False)
