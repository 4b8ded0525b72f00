"""A small graph in 8 bits or the same in f32, as a seed draws it.

A function of a Graph (quantised_cases*.py) asks it for tensors and weights, which are bytes with their scales in one of the two
graphs and floats of the same numbers in the other; both draw the same numbers, as each begins with the same seed.
"""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OWN = "com.microsoft"
KINDS = {
    "u8": (TensorProto.UINT8, np.uint8),
    "s8": (TensorProto.INT8, np.int8),
    "u16": (TensorProto.UINT16, np.uint16),
    "s16": (TensorProto.INT16, np.int16),
    "i32": (TensorProto.INT32, np.int32),
    "f32": (TensorProto.FLOAT, np.float32),
}

# Without dot products of bytes ONNX Runtime adds pairs of u8 by s8 in 16 bits, which saturate: weights then have 7 bits, as its
# own quantisers have it (reduce_range).
WHOLE = "vnni" in pathlib.Path("/proc/cpuinfo").read_text()


class Bytes:
    """A tensor in 8 bits: the name of its bytes, of their scale and zero point, and their type."""

    def __init__(self, name, scale, zero, kind):
        self.name, self.scale, self.zero, self.kind = name, scale, zero, kind


class Graph:
    def __init__(self, seed, quantised):
        self.rng, self.quantised = np.random.default_rng(seed), quantised
        self.nodes, self.constants, self.inputs, self.outputs, self.fed, self.said = [], [], [], [], {}, []
        self.made = 0

    # Draws.
    def of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def size(self, low, high, step=1):
        """Log-uniform; most often a multiple of `step`."""
        n = int(np.exp(self.rng.uniform(np.log(low), np.log(high))))
        return max(step, n // step * step) if self.rng.random() < 0.8 else n

    def say(self, *words):
        self.said.extend(str(w) for w in words if w not in ("", None))

    def kind(self):
        """Of activations: their type and zero point."""
        kind = self.of("u8", "u8", "s8")
        zero = (
            self.of(128, 0, int(self.rng.integers(1, 255))) if kind == "u8" else self.of(0, 0, int(self.rng.integers(-127, 127)))
        )
        return kind, zero

    # Parts.
    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, op, *inputs, outputs=1, domain="", **attributes):
        self.made += 1
        names = [f"v{self.made}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}{self.made}", domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def input(self, shape, kind="u8", zero=128, scale=0.04):
        """A tensor from outside, as floats; in the quantised graph it comes as bytes."""
        info = np.iinfo(KINDS[kind][1])
        high = min(info.max, zero + 128)
        q = self.rng.integers(max(info.min, zero - 128), high, shape, endpoint=True).astype(KINDS[kind][1])
        if kind.endswith("16"):
            q = self.rng.integers(info.min, info.max, shape, endpoint=True).astype(KINDS[kind][1])
            scale *= 1 / 256
        name = f"in{len(self.inputs)}"
        self.say(kind + (f"-{zero}" if zero not in (0, 128) else ""), "x".join(map(str, shape)))
        if not self.quantised:
            return self.fed_by(name, ((q.astype(np.float64) - zero) * scale).astype(np.float32))
        return self.numbers(Bytes(self.fed_by(name, q), *self.scaled(kind, zero, scale), kind))

    def floats(self, shape):
        self.say("f32", "x".join(map(str, shape)))
        return self.fed_by(f"in{len(self.inputs)}", self.rng.standard_normal(shape).astype(np.float32))

    def fed_by(self, name, array):
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        self.fed[name] = array
        return name

    def scaled(self, kind, zero, scale):
        return self.constant(np.float32(scale)), self.constant(KINDS[kind][1](zero))

    def numbers(self, q, **attributes):
        """DequantizeLinear."""
        self.last = q
        return self.op("DequantizeLinear", q.name, q.scale, q.zero, **attributes)

    def between(self, x, kind="u8", zero=128, scale=0.05):
        """x in 8 bits and back, as between any two operators."""
        if not self.quantised:
            return x
        if kind.endswith("16"):
            scale *= 1 / 256
        s, z = self.scaled(kind, zero, scale)
        return self.numbers(Bytes(self.op("QuantizeLinear", x, s, z), s, z, kind))

    def weight(self, shape, kind="s8", axis=None, zero=0, gain=1.0):
        """Constant weights of unit gain; axis: of their scales, if they have several."""
        low, high = (0, 255) if kind == "u8" else (-127, 127) if WHOLE else (-64, 64)
        q = self.rng.integers(low, high, shape, endpoint=True).astype(KINDS[kind][1])
        fan = max(1, int(np.prod(shape)) // max(shape[0], 1)) if len(shape) > 1 else shape[0]
        scale = gain / 73 / np.sqrt(fan)
        scales = np.float32(scale) if axis is None else (scale * self.rng.uniform(0.5, 1.5, shape[axis])).astype(np.float32)
        zeros = np.full(np.shape(scales), zero, KINDS[kind][1])
        self.say(f"w {kind}" + (f"-{zero}" if zero else ""), "x".join(map(str, shape)), "" if axis is None else f"axis{axis}")
        if not self.quantised:
            wide = np.expand_dims(scales, tuple(i for i in range(len(shape)) if i != axis)) if axis is not None else scales
            return self.constant(((q.astype(np.float32) - zero) * wide).astype(np.float32))
        attributes = {} if axis is None else {"axis": axis}
        return self.numbers(Bytes(self.constant(q), self.constant(scales), self.constant(zeros), kind), **attributes)

    def weights_kind(self):
        """Type and zero point."""
        return self.of(
            ("s8", 0), ("s8", 0), ("u8", 128), ("u8", int(self.rng.integers(1, 255))), ("s8", int(self.rng.integers(-60, 60)))
        )

    def of_bytes(self, x):
        """A tensor's bytes, scale and zero point, for operators of bytes; its DequantizeLinear goes."""
        node = next(n for n in self.nodes if x in n.output)
        assert node.op_type == "DequantizeLinear"
        self.nodes.remove(node)
        return list(node.input)

    def output(self, x, kind="u8", zero=128, scale=0.05):
        """In 8 bits in the quantised graph."""
        if self.quantised and kind:
            s, z = self.scaled(kind, zero, scale / 256 if kind.endswith("16") else scale)
            x = self.op("QuantizeLinear", x, s, z)
        self.outputs.append(x)

    def end(self, *bytes_or_floats):
        self.outputs.extend(bytes_or_floats)

    def model(self):
        infos = [helper.make_empty_tensor_value_info(o) for o in self.outputs]
        graph = helper.make_graph(self.nodes, "case", self.inputs, infos, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(OWN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)
