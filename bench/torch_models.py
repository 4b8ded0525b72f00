"""The models of examples/models as PyTorch modules: PyTorch's side of bench/gpu_models.py.

usage: python bench/torch_models.py FOLDER [--models NAME ...] [--peers wall graph compile]   times them on GPU 0
       python bench/torch_models.py --check FOLDER [--models NAME ...]     compares them with ONNX Runtime on the CPU
       (FOLDER: where filled models are made: examples/models/fill.py, which needs numpy and onnx)

Each module is written from the graph that its model was exported to: the same layers, widths, paddings and activations, under the
names that the graph's name scopes give. What the exporter folded away is not here either (batch norm of fresh statistics, zero
biases). Attention is F.scaled_dot_product_attention; bert_base's mask, a constant that is true everywhere, is left out, for
PyTorch has faster kernels without one. Weights and inputs are the filled graph's; a weight without a place, or a place without a
weight, is an error.

Timing: "wall" is one eager call, waited for, by the host's clock; "graph" (eager) and "compile" (max-autotune) are one call in a
CUDA graph: the median and interquartile range over samples of 20 replays that follow each other, by events, as smelt profile
times its own. Convolutional models are channels_last. Prints one line of JSON as each figure is known. TORCHINDUCTOR_CACHE_DIR
keeps what torch.compile made; "cache_hits" tells whether it had.
"""
import argparse
import ast
import collections
import itertools
import json
import math
import statistics
import sys
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

import shared

REPLAYS, SAMPLES = 20, 30


def conv(cin, cout, k=1, stride=1, act=nn.ReLU, groups=1, padding=None):
    """conv, batch norm (in the weights), activation"""
    layers = [nn.Conv2d(cin, cout, k, stride, k // 2 if padding is None else padding, groups=groups, bias=False), nn.Identity()]
    return nn.Sequential(*layers, *([act()] if act else []))


def heads(x, n):
    """[batch, tokens, n·d] → [batch, n, tokens, d]"""
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def attend(q, k, v, **options):
    """Of [batch, heads, tokens, d] → [batch, tokens, heads·d]"""
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2)


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.downsample = conv(cin, 4 * width, 1, stride, None) if stride != 1 or cin != 4 * width else None

    def forward(self, x):
        y = self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        cin = 64
        for i, (width, depth) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            first = Bottleneck(cin, width, 2 if i else 1)
            cin = 4 * width
            self.add_module(f"layer{i + 1}", nn.Sequential(first, *(Bottleneck(cin, width, 1) for _ in range(depth - 1))))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((-2, -1)))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1, bias=False), nn.Conv2d(squeezed, channels, 1, bias=False)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(x.mean((-2, -1), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, cin, k, wide, cout, squeezed, act, stride):
        super().__init__()
        layers = [conv(cin, wide, 1, 1, act)] if wide != cin else []
        layers.append(conv(wide, wide, k, stride, act, groups=wide))
        if squeezed:
            layers.append(SqueezeExcite(wide, squeezed))
        self.block = nn.Sequential(*layers, conv(wide, cout, 1, 1, None))
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        return self.block(x) + x if self.residual else self.block(x)


class MobileNetV3Large(nn.Module):
    R, H = nn.ReLU, nn.Hardswish
    ROWS = [(16, 3, 16, 16, 0, R, 1), (16, 3, 64, 24, 0, R, 2), (24, 3, 72, 24, 0, R, 1), (24, 5, 72, 40, 24, R, 2),
            (40, 5, 120, 40, 32, R, 1), (40, 5, 120, 40, 32, R, 1), (40, 3, 240, 80, 0, H, 2), (80, 3, 200, 80, 0, H, 1),
            (80, 3, 184, 80, 0, H, 1), (80, 3, 184, 80, 0, H, 1), (80, 3, 480, 112, 120, H, 1), (112, 3, 672, 112, 168, H, 1),
            (112, 5, 672, 160, 168, H, 2), (160, 5, 960, 160, 240, H, 1), (160, 5, 960, 160, 240, H, 1)]

    def __init__(self):
        super().__init__()
        blocks = (InvertedResidual(*row) for row in self.ROWS)
        self.features = nn.Sequential(conv(3, 16, 3, 2, self.H), *blocks, conv(160, 960, 1, 1, self.H))
        self.classifier = nn.Sequential(nn.Linear(960, 1280, bias=False), self.H(), nn.Identity(),
                                        nn.Linear(1280, 1000, bias=False))

    def forward(self, x):
        return self.classifier(self.features(x).mean((-2, -1)))


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        double = lambda cin, cout: nn.Sequential(conv(cin, cout, 3), conv(cout, cout, 3))   # noqa: E731
        self.e = nn.ModuleList(double(a, b) for a, b in zip((3, *widths), widths))
        up = widths[::-1]
        self.u = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip(up, up[1:]))
        self.dc = nn.ModuleList(double(a, b) for a, b in zip(up, up[1:]))
        self.o = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.e):
            x = stage(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for u, stage in zip(self.u, self.dc):
            x = stage(torch.cat((u(x), skips.pop()), 1))
        return self.o(x)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = conv(width, width), conv(width, width, 3)

    def forward(self, x):
        return x + self.b(self.a(x))


class CrossStage(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.a, self.b, self.c = conv(width, width // 2), conv(width, width // 2), conv(width, width)
        self.m = nn.Sequential(*(Residual(width // 2) for _ in range(depth)))

    def forward(self, x):
        return self.c(torch.cat((self.m(self.a(x)), self.b(x)), 1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.s0 = conv(3, 32, 6, 2, padding=2)
        for i, (width, depth) in enumerate([(64, 1), (128, 2), (256, 3), (512, 1)]):
            self.add_module(f"s{i + 1}", nn.Sequential(conv(width // 2, width, 3, 2), CrossStage(width, depth)))
        self.p1, self.p2, self.u1, self.u2 = conv(512, 256), conv(512, 256, 3), conv(256, 128), conv(256, 128, 3)
        self.d1, self.e1, self.d2, self.e2 = conv(128, 128, 3, 2), conv(256, 256, 3), conv(256, 256, 3, 2), conv(512, 512, 3)
        self.h = nn.ModuleList(nn.Conv2d(width, 255, 1) for width in (128, 256, 512))

    def forward(self, x):
        twice = lambda t: F.interpolate(t, scale_factor=2, mode="nearest")   # noqa: E731
        a = self.s2(self.s1(self.s0(x)))
        b = self.s3(a)
        top = self.p1(self.s4(b))
        mid = self.u1(self.p2(torch.cat((twice(top), b), 1)))
        p3 = self.u2(torch.cat((twice(mid), a), 1))
        p4 = self.e1(torch.cat((self.d1(p3), mid), 1))
        p5 = self.e2(torch.cat((self.d2(p4), top), 1))
        return tuple(head(p) for head, p in zip(self.h, (p3, p4, p5)))


class PackedAttention(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * width, width)), nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        return self.out_proj(attend(heads(q, self.n), heads(k, self.n), heads(v, self.n)))


class ViTLayer(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.self_attention = PackedAttention(width, n)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ViTEncoder(nn.Module):
    def __init__(self, width, depth, n, tokens):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width))
        self.layers = nn.Sequential(collections.OrderedDict((f"encoder_layer_{i}", ViTLayer(width, n)) for i in range(depth)))
        self.ln = nn.LayerNorm(width, 1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class ViTB16(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, 16, 16, bias=False)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.encoder = ViTEncoder(width, 12, 12, 197)
        self.heads = nn.Sequential(collections.OrderedDict(head=nn.Linear(width, 1000, bias=False)))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1)
        return self.heads(self.encoder(x)[:, 0])


class BertEmbeddings(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.register_buffer("token_types", torch.empty(1, 512, dtype=torch.int64))
        self.register_buffer("positions", torch.empty(1, 384, dtype=torch.int64))

    def forward(self, ids):
        types = self.token_types[:, :ids.shape[1]].expand(ids.shape)
        x = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(x + self.position_embeddings(self.positions))


class BertOutput(nn.Module):
    def __init__(self, cin, width):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(cin, width), nn.LayerNorm(width, 1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class BertLayer(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        qkv = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": qkv, "output": BertOutput(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = BertOutput(4 * width, width)

    def forward(self, x):
        qkv = self.attention["self"]
        y = attend(*(heads(qkv[name](x), self.n) for name in ("query", "key", "value")))
        x = self.attention["output"](y, x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.embeddings = BertEmbeddings(width)
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*(BertLayer(width, 12) for _ in range(12)))})

    def forward(self, ids):
        return self.encoder["layer"](self.embeddings(ids))


class RmsNorm(nn.Module):
    """Spelled as it was exported."""

    def __init__(self, width):
        super().__init__()
        self.w = nn.Parameter(torch.empty(width))

    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.w


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class LlamaLayer(nn.Module):
    """past: keys and values of earlier tokens. Returns the output, and the keys and values with this call's appended."""

    def __init__(self, width, n, kv, hidden):
        super().__init__()
        self.n, self.kv, d = n, kv, width // n
        self.n1, self.n2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, kv * d, bias=False), nn.Linear(width, kv * d, bias=False)
        self.g, self.u = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.dn = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin, past=None):
        y = self.n1(x)
        q, k = rotate(heads(self.q(y), self.n), cos, sin), rotate(heads(self.k(y), self.kv), cos, sin)
        v = heads(self.v(y), self.kv)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        repeated = (k, v) if self.n == self.kv else (t.repeat_interleave(self.n // self.kv, 1) for t in (k, v))
        x = x + self.o(attend(q, *repeated, is_causal=past is None))
        y = self.n2(x)
        return x + self.dn(F.silu(self.g(y)) * self.u(y)), k, v


class LlamaGPT(nn.Module):
    def __init__(self, depth=16, width=512, n=16, kv=4, hidden=1408, words=32000):
        super().__init__()
        self.e, self.n, self.out = nn.Embedding(words, width), RmsNorm(width), nn.Linear(width, words, bias=False)
        self.b = nn.ModuleList(LlamaLayer(width, n, kv, hidden) for _ in range(depth))
        self.register_buffer("angles", torch.empty(1024, width // n // 2))

    def forward(self, ids):
        x = self.e(ids)
        cos, sin = self.angles.cos().to(x.dtype), self.angles.sin().to(x.dtype)
        for layer in self.b:
            x, _, _ = layer(x, cos, sin)
        return self.out(self.n(x))


class Llama7bDecode(nn.Module):
    def __init__(self, depth=2, width=4096, n=32, hidden=11008, words=32000):
        super().__init__()
        self.e, self.n, self.out = nn.Embedding(words, width), RmsNorm(width), nn.Linear(width, words, bias=False)
        self.b = nn.ModuleList(LlamaLayer(width, n, n, hidden) for _ in range(depth))
        self.register_buffer("frequencies", torch.empty(width // n // 2))

    def forward(self, ids, pos, *past):
        x = self.e(ids)
        angles = pos.float()[:, None, None, None] * self.frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        caches = []
        for i, layer in enumerate(self.b):
            x, *cache = layer(x, cos, sin, past[2 * i:2 * i + 2])
            caches += cache
        return self.out(self.n(x)), *caches


class DiTBlock(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.n1, self.n2 = nn.LayerNorm(width, 1e-6, bias=False), nn.LayerNorm(width, 1e-6, bias=False)
        self.qkv, self.p, self.ada = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 6 * width)
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, c):
        shift, scale, gate, shift2, scale2, gate2 = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
        q, k, v = self.qkv(self.n1(x) * (1 + scale) + shift).unflatten(-1, (3, self.n, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate * self.p(attend(q, k, v))
        return x + gate2 * self.f2(F.gelu(self.f1(self.n2(x) * (1 + scale2) + shift2), approximate="tanh"))


class DiTXL2(nn.Module):
    def __init__(self, depth=28, width=1152, n=16):
        super().__init__()
        self.pe, self.n, self.o = nn.Conv2d(4, width, 2, 2), nn.LayerNorm(width), nn.Linear(width, 32)
        self.b = nn.ModuleList(DiTBlock(width, n) for _ in range(depth))

    def forward(self, x, c):
        x = self.pe(x).flatten(2).transpose(1, 2)
        for block in self.b:
            x = block(x, c)
        return self.o(self.n(x))


class DiffusionResidual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.n1, self.c1, self.t = nn.GroupNorm(32, cin), nn.Conv2d(cin, cout, 3, padding=1), nn.Linear(1280, cout)
        self.n2, self.c2 = nn.GroupNorm(32, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.s = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, time):
        y = self.c1(F.silu(self.n1(x))) + self.t(F.silu(time))[:, :, None, None]
        return self.s(x) + self.c2(F.silu(self.n2(y)))


class CrossAttention(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.k, self.v = nn.Linear(context, width, bias=False), nn.Linear(context, width, bias=False)

    def forward(self, x, context):
        return self.o(attend(heads(self.q(x), 8), heads(self.k(context), 8), heads(self.v(context), 8)))


class DiffusionAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.n, self.i, self.o = nn.GroupNorm(32, width), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(width) for _ in range(3))
        self.a, self.x = CrossAttention(width, width), CrossAttention(width, 768)
        self.g, self.d = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, context):
        y = self.i(self.n(x)).flatten(2).transpose(1, 2)
        h = self.n1(y)
        y = y + self.a(h, h)
        y = y + self.x(self.n2(y), context)
        value, gate = self.g(self.n3(y)).chunk(2, -1)
        y = y + self.d(value * F.gelu(gate))
        return x + self.o(y.transpose(1, 2).unflatten(-1, x.shape[2:]))


class SD15UNet(nn.Module):
    def __init__(self, widths=(320, 640, 1280, 1280)):
        super().__init__()
        self.t1, self.t2 = nn.Linear(320, 1280), nn.Linear(1280, 1280)
        self.register_buffer("frequencies", torch.empty(160))
        self.i = nn.Conv2d(4, widths[0], 3, padding=1)
        self.dn, self.ds, self.up, self.us = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), nn.ModuleList()

        def block(cin, width, attention):
            return nn.ModuleList([DiffusionResidual(cin, width), *([DiffusionAttention(width)] if attention else [])])

        x, skips = widths[0], [widths[0]]
        for level, width in enumerate(widths):
            self.dn.append(nn.ModuleList())
            for _ in range(2):
                self.dn[-1].append(block(x, width, level < 3))
                x = width
                skips.append(x)
            if level < 3:
                self.ds.append(nn.Conv2d(x, x, 3, 2, 1))
                skips.append(x)
        self.m1, self.ma, self.m2 = DiffusionResidual(x, x), DiffusionAttention(x), DiffusionResidual(x, x)
        for level, width in enumerate(widths[::-1]):
            self.up.append(nn.ModuleList())
            for _ in range(3):
                self.up[-1].append(block(x + skips.pop(), width, level > 0))
                x = width
            if level < 3:
                self.us.append(nn.Conv2d(x, x, 3, padding=1))
        self.n, self.o = nn.GroupNorm(32, x), nn.Conv2d(x, 4, 3, padding=1)

    @staticmethod
    def run(block, x, time, context):
        x = block[0](x, time)
        return block[1](x, context) if len(block) > 1 else x

    def forward(self, latent, t, context):
        angles = t.float()[:, None] * self.frequencies
        time = self.t2(F.silu(self.t1(torch.cat((angles.cos(), angles.sin()), -1).to(latent.dtype))))
        x = self.i(latent)
        skips = [x]
        for level, blocks in enumerate(self.dn):
            for block in blocks:
                x = self.run(block, x, time, context)
                skips.append(x)
            if level < 3:
                x = self.ds[level](x)
                skips.append(x)
        x = self.m2(self.ma(self.m1(x, time), context), time)
        for level, blocks in enumerate(self.up):
            for block in blocks:
                x = self.run(block, torch.cat((x, skips.pop()), 1), time, context)
            if level < 3:
                x = self.us[level](F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.o(F.silu(self.n(x)))


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
    "llama_gpt": Architecture(LlamaGPT, {"mul": "angles"}),
    "dit_xl_2": Architecture(DiTXL2),
    "sd15_unet": Architecture(SD15UNet, {"exp": "frequencies"}, channels_last=True),
    "llama7b_decode": Architecture(Llama7bDecode, {"pow_1": "frequencies"}),
}
MODELS = (*shared.GPU_MODELS, "sd15_unet.fp16", "llama7b_decode.fp16")


def architecture(name):
    key, _, precision = name.partition(".")
    if key not in ARCHITECTURES or precision not in ("fp32", "fp16", "bf16"):
        raise KeyError(f"{name}: no PyTorch module of it; expected one of {', '.join(ARCHITECTURES)}, then .fp32, .fp16 or .bf16")
    return ARCHITECTURES[key]


def tensor(array):
    array = np.require(array, requirements=("C", "W"))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def shape_of(initializer):
    """A tensor without data."""
    kind = onnx.helper.tensor_dtype_to_np_dtype(initializer.data_type).name
    return torch.empty(tuple(initializer.dims), dtype=getattr(torch, kind), device="meta")


def scope_of(node):
    """The path of the module that a node comes from, "" for the model's own; the last of its scopes is the node itself."""
    scopes = next((p.value for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"), "[]")
    return ["", "", *ast.literal_eval(scopes)][-2]


def weights_of(graph, take, places):
    """Yields what the initializers are in a module: (name in its state, tensor). A node that reads one names the module by its
    scope; a convolution or Gemm by its weight's name, for the scope may be the batch norm that was folded into it."""
    known, products, groups = {t.name for t in graph.initializer}, set(), {}
    for node in graph.node:
        a, b, c, *_ = [*node.input, "", "", ""]
        scope, op = scope_of(node), node.op_type
        if op in ("Conv", "ConvTranspose", "Gemm", "LayerNormalization"):
            module = scope if op == "LayerNormalization" else b.removesuffix(".weight")
            yield f"{module}.weight", take(b)
            if c:
                yield f"{module}.bias", take(c)
        elif op == "MatMul" and b in known or op == "Add" and b in known and a in products:
            kind = "weight" if op == "MatMul" else "bias"
            packed = f"{scope}.in_proj_{kind}"
            yield packed if packed in places else f"{scope}.{kind}", take(b).T.contiguous() if op == "MatMul" else take(b)
            products.add(node.output[0])
        elif op == "InstanceNormalization":   # over the groups of a group norm, whose scale and bias follow
            groups[scope] = take(b).float(), take(c).float()
        elif op in ("Mul", "Add") and scope in groups and b in known:
            value, (scale, bias) = take(b).flatten(), groups[scope]
            if op == "Mul":
                each = len(value) // len(scale)
                yield f"{scope}.weight", (scale.repeat_interleave(each) * value.float()).to(value.dtype)
                groups[scope] = scale, bias.repeat_interleave(each) * value.float()
            else:
                yield f"{scope}.bias", (bias + value.float()).to(value.dtype)
        elif op == "Mul" and f"{scope}.w" in places and b in known:
            yield f"{scope}.w", take(b)
        elif op == "Gather" and a.endswith(".weight"):
            yield a, take(a)


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


def load(name, folder, device="cpu", dtype=None):
    """A filled model's module, its inputs in the graph's order, its path. dtype: what floating weights and inputs are cast to."""
    path = shared.filled(name, folder)
    model = onnx.load(path)
    cast = lambda t: t.to(device, dtype if t.is_floating_point() and dtype else t.dtype)   # noqa: E731
    module = build(name, model, lambda t: cast(tensor(onnx.numpy_helper.to_array(t))))
    feeds = np.load(path.with_suffix(".inputs.npz"))
    inputs = [cast(tensor(feeds[i.name])) for i in model.graph.input]
    if architecture(name).channels_last:
        module = module.to(memory_format=torch.channels_last)
        inputs = [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in inputs]
    return module, inputs, path


def flat(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def error(found, expected):
    """The largest difference over the largest value, of all outputs; infinite where shapes differ."""
    if [f.shape for f in found] != [e.shape for e in expected]:
        return math.inf
    pairs = [(f.float(), e.float()) for f, e in zip(found, expected)]
    return max(float((f - e).abs().max() / e.abs().max().clamp_min(1e-30)) for f, e in pairs)


def check(name, folder):
    """(the graph compared on, the error against ONNX Runtime, its limit): in float32 where there is such a graph, else the module
    in float32 against ONNX Runtime in the graph's precision."""
    import onnxruntime
    model = onnx.load(shared.MODELS / f"{name}.onnx", load_external_data=False)
    build(name, model, shape_of)
    twin = f"{name.partition('.')[0].removesuffix('_b32')}.fp32"
    subject = twin if (shared.MODELS / f"{twin}.onnx").exists() else name
    module, inputs, path = load(subject, folder, dtype=torch.float32)
    with torch.no_grad():
        found = flat(module(*inputs))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(np.load(path.with_suffix(".inputs.npz"))))
    return subject, error(found, [tensor(e) for e in expected]), 1e-4 if subject == twin else 0.03


def quartiles(samples):
    q1, median, q3 = statistics.quantiles(samples, n=4)
    return {"us": median, "iqr_us": q3 - q1}


def time_wall(f):
    samples = []
    for i in range(55):
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        if i > 4:
            samples.append((time.perf_counter() - begin) * 1e6)
    return quartiles(samples)


def time_graph(f):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = f()   # noqa: F841: what the graph writes is held while it is replayed
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    samples = []
    for i in range(SAMPLES + 3):
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        if i > 2:
            samples.append(begin.elapsed_time(end) * 1e3 / REPLAYS)
    return quartiles(samples)


def compiled(module, inputs):
    """torch.compile's row: its first call is what compiling costs."""
    from torch._dynamo.utils import counters
    expected = flat(module(*inputs))
    begin = time.perf_counter()
    fast = torch.compile(module, mode="max-autotune-no-cudagraphs", dynamic=False)   # the CUDA graph is ours
    found = flat(fast(*inputs))
    torch.cuda.synchronize()
    row = {"compile_s": time.perf_counter() - begin, "cache_hits": counters["inductor"]["fxgraph_cache_hit"],
           "error": error(found, expected)}
    del found, expected
    return row | time_graph(lambda: fast(*inputs))


def versions():
    try:
        import triton
        made = triton.__version__
    except ImportError:
        made = None
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": cudnn, "triton": made}


def time_model(name, folder, peers):
    """Yields a row a peer. What fails gives its reason."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False   # float32 is IEEE's
    module, inputs, _ = load(name, folder, "cuda")
    runs = {"wall": lambda: time_wall(lambda: module(*inputs)), "graph": lambda: time_graph(lambda: module(*inputs)),
            "compile": lambda: compiled(module, inputs)}
    for peer in peers:
        torch.cuda.reset_peak_memory_stats()
        try:
            with torch.no_grad():
                row = runs[peer]()
            row["peak_device_bytes"] = torch.cuda.max_memory_allocated()
        except Exception as e:   # noqa: BLE001: a peer's failure is a result
            row = {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
        yield {"model": name, "peer": peer, **row}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--peers", nargs="+", default=("wall", "graph", "compile"), choices=("wall", "graph", "compile"))
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    if not a.check:
        print(json.dumps({"versions": versions()}), flush=True)
        for name in a.models:
            for row in time_model(name, a.folder, a.peers):
                print(json.dumps(row), flush=True)
        return 0
    failed = 0
    print(f"{'model':<26}{'compared on':<26}{'error':>9}{'limit':>9}", flush=True)
    for name in a.models:
        subject, off, limit = check(name, a.folder)
        failed += not off <= limit
        print(f"{name:<26}{subject:<26}{off:>9.1e}{limit:>9.1e}{'' if off <= limit else '  differs'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
