"""Chains of operators between DequantizeLinear and QuantizeLinear, as quantizers write activations: one to a model."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {"u8": (TensorProto.UINT8, np.uint8, 128), "i8": (TensorProto.INT8, np.int8, 0)}


class Builder:
    """Nodes; a method gives the name of its result."""

    def __init__(self, kind, channels):
        self.kind, self.channels, self.nodes, self.constants = kind, channels, [], []
        self.rng = np.random.default_rng(3)

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes)}"], f"n{len(self.nodes)}", **attributes))
        return self.nodes[-1].output[0]

    def of_bytes(self, op, x, scale):
        _, dtype, zero = TYPES[self.kind]
        return self.op(op, x, self.constant(np.float32(scale)), self.constant(dtype(zero)))

    def numbers(self, q, scale=0.04):
        return self.of_bytes("DequantizeLinear", q, scale)

    def bytes(self, x, scale=0.04):
        return self.of_bytes("QuantizeLinear", x, scale)

    def in_bytes(self, x, scale=0.04):
        """x in 8 bits and back, as between any two operators."""
        return self.numbers(self.bytes(x, scale), scale)

    def of_channel(self, low, high):
        return self.constant(self.rng.uniform(low, high, self.channels).astype(np.float32))


def gelu(b, x):
    return b.op("Gelu", b.numbers(x))


def silu_in_steps(b, x):
    v = b.numbers(x)
    return b.op("Mul", v, b.in_bytes(b.op("Sigmoid", v), 1 / 256))


def hard_swish(b, x):
    return b.op("HardSwish", b.numbers(x))


def steps_of_gelu(b, v):
    erf = b.in_bytes(b.op("Erf", b.op("Div", v, b.constant(np.float32(2**0.5)))), 1 / 128)
    product = b.in_bytes(b.op("Mul", v, b.in_bytes(b.op("Add", erf, b.constant(np.float32(1))), 2 / 128)), 0.08)
    return b.op("Mul", product, b.constant(np.float32(0.5)))


def gelu_in_steps(b, x):
    return steps_of_gelu(b, b.numbers(x))


def norm_and_gelu(b, x, residual=None):
    """A normalisation's scale and shift of each channel, what is added, and GELU."""
    v = b.in_bytes(b.op("Mul", b.numbers(x), b.of_channel(0.5, 1.5)))
    v = b.in_bytes(b.op("Add", v, b.of_channel(-1, 1)))
    if residual:
        v = b.in_bytes(b.op("Add", v, b.numbers(residual)))
    return steps_of_gelu(b, v)


@dataclasses.dataclass
class Chain:
    build: Callable
    kind: str
    shape: tuple
    channels: tuple = ()    # extents of a channel's constants
    inputs: int = 1
    attributes: ClassVar = {}
    domain: ClassVar = ""

    @property
    def op(self):
        return self.build.__name__

    @property
    def name(self):
        among = f" channels {'x'.join(map(str, self.channels))}" if self.channels else ""
        return f"{self.op}{' and sum' if self.inputs > 1 else ''} {self.kind} {'x'.join(map(str, self.shape))}{among}"

    def feeds(self):
        rng, dtype = np.random.default_rng(1), TYPES[self.kind][1]
        info = np.iinfo(dtype)
        return {f"in{i}": rng.integers(info.min, info.max + 1, self.shape).astype(dtype) for i in range(self.inputs)}

    def model(self):
        b = Builder(self.kind, self.channels)
        inputs = [helper.make_tensor_value_info(f"in{i}", TYPES[self.kind][0], self.shape) for i in range(self.inputs)]
        y = b.bytes(self.build(b, *(i.name for i in inputs)))
        output = helper.make_tensor_value_info(y, TYPES[self.kind][0], self.shape)
        graph = helper.make_graph(b.nodes, "chain", inputs, [output], b.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def chains():
    for kind in TYPES:
        for shape in ((8, 197, 768), (1, 64, 1200)):
            for build in (gelu, silu_in_steps, hard_swish, gelu_in_steps):
                yield Chain(build, kind, shape)
        for shape, channels in (((1, 64, 1200), (64, 1)), ((8, 64, 56, 56), (64, 1, 1)), ((8, 197, 768), (768,))):
            yield Chain(norm_and_gelu, kind, shape, channels)
            yield Chain(norm_and_gelu, kind, shape, channels, 2)


FAMILIES = (chains,)
