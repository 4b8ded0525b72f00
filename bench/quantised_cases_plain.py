"""Small graphs in 8 bits around operators that are no products, and the same in f32 (quantised_cases.py)."""

import numpy as np
from operator_cases import words
from quantised_graph import KINDS, OWN

AROUND = words(
    "Resize-nearest Resize-linear MaxPool AveragePool GlobalAveragePool GlobalMaxPool Concat Slice Pad Transpose Gather "
    "ReduceMean ReduceMax ReduceSum Softmax LayerNormalization Gelu Split Where Reshape Tile Expand DepthToSpace "
    "SpaceToDepth Clip LeakyRelu PRelu Sigmoid Tanh Erf Exp HardSwish HardSigmoid Elu Mul Add Sub Div Max Pow Sqrt Abs "
    "Neg BatchNormalization InstanceNormalization GroupNormalization ArgMax TopK Squeeze LogSoftmax GridSample Einsum "
    "CumSum Mish LpNormalization"
)


def qlinear_plain(g):
    """ONNX Runtime's QLinear forms of plain operators."""
    op = g.of(
        "Add", "Mul", "Concat", "GlobalAveragePool", "AveragePool", "Sigmoid", "LeakyRelu", "Softmax", "Where"
    )
    kind, zero = g.kind()
    shape = (g.of(1, 2), g.size(4, 128, 8), g.size(7, 56), g.size(7, 56))
    g.say(op)
    x = g.input(shape, kind, zero)

    def out():
        return g.scaled(kind, zero, 0.03)

    def own(*inputs, **attributes):
        return g.op("QLinear" + op, *inputs, domain=OWN, **attributes)

    if op in ("Add", "Mul"):
        y = g.input(g.of(shape, shape, (1, shape[1], 1, 1), (1,)), kind, g.of(zero, 0, 7))
        g.end(own(*g.of_bytes(x), *g.of_bytes(y), *out()) if g.quantised else g.op(op, x, y))
    elif op == "Concat":
        y = g.input((shape[0], g.size(4, 64), *shape[2:]), kind, g.of(zero, zero, 9), g.of(0.04, 0.04, 0.02))
        g.end(own(*out(), *g.of_bytes(x), *g.of_bytes(y), axis=1) if g.quantised else g.op("Concat", x, y, axis=1))
    elif op == "Where":
        y = g.input(shape, kind, 3)
        c = g.fed_by("chosen", g.rng.random(shape) < 0.5)
        g.end(own(c, *g.of_bytes(x), *g.of_bytes(y), *out()) if g.quantised else g.op("Where", c, x, y))
    elif op == "Softmax":
        to = [g.constant(np.float32(1 / 256)), g.constant(KINDS[kind][1](0 if kind == "u8" else -128))] if g.quantised else []
        axis = g.of(-1, 1)
        g.end(own(*g.of_bytes(x), *to, axis=axis, opset=13) if g.quantised else g.op("Softmax", x, axis=axis))
    else:
        more = {
            "AveragePool": {"kernel_shape": [3, 3], "strides": [g.of(1, 2)] * 2, "pads": [1, 1, 1, 1]},
            "LeakyRelu": {"alpha": 0.1},
        }
        attributes = more.get(op, {})
        g.end(own(*g.of_bytes(x), *out(), **attributes) if g.quantised else g.op(op, x, **attributes))


def around(g):
    """An operator that is no product between Dequantize and Quantize."""
    op = g.of(*AROUND)
    kind, zero = g.kind()
    shape = (g.of(1, 1, 2), g.size(4, 128, 8), g.size(7, 80), g.size(7, 80))
    g.say(op)
    x = g.input(shape, kind, zero)
    n, c, h, w = shape
    same = (kind, zero, 0.04)  # the input's, as quantisers give to what moves
    to = g.of(same, (*g.kind(), 0.05))

    def ints(*v):
        return g.constant(np.array(v, np.int64))

    def channels(low=0.5, high=1.5):
        return g.constant(g.rng.uniform(low, high, c).astype(np.float32))

    def rows():
        return g.op("Reshape", x, ints(n, c, h * w)), h * w

    if op.startswith("Resize"):
        scales = g.constant(np.array([1, 1, *g.of((2, 2), (1.5, 1.5), (0.5, 0.5))], np.float32))
        y, to = g.op("Resize", x, "", scales, mode=op.split("-")[1]), same
    elif op in ("MaxPool", "AveragePool"):
        k = g.of(2, 3, 5)
        pads = [k // 2] * 4 if g.of(True, False) else [0] * 4
        y, to = g.op(op, x, kernel_shape=[k, k], strides=[g.of(1, 2)] * 2, pads=pads), same
    elif op in ("GlobalAveragePool", "GlobalMaxPool"):
        y = g.op(op, x)
    elif op == "Concat":
        y = g.op(op, x, g.input((n, g.size(4, 64), h, w), kind, *g.of((zero, 0.04), (7, 0.02))), axis=1)
    elif op == "Slice":
        axis = g.of(1, 2, 3)
        y, to = g.op(op, x, ints(1), ints(shape[axis] - 1), ints(axis), ints(g.of(1, 2))), same
    elif op == "Pad":
        mode = g.of("constant", "reflect", "edge")
        value = [g.constant(np.float32(0))] if mode == "constant" else []
        y, to = g.op(op, x, ints(0, 0, 1, 1, 0, 0, 2, 2), *value, mode=mode), same
        g.say(mode)
    elif op == "Transpose":
        perm = g.of([0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [1, 0, 2, 3])
        y, to = g.op(op, x, perm=perm), same
        g.say(perm)
    elif op == "Gather":
        axis = g.of(1, 2, 3)
        y, to = g.op(op, x, g.constant(g.rng.integers(0, shape[axis], g.size(2, 64))), axis=axis), same
    elif op in ("ReduceMean", "ReduceMax", "ReduceSum"):
        axes = g.of([2, 3], [1], [3], [2])
        y = g.op(op, x, ints(*axes), keepdims=1)
        g.say(axes)
    elif op in ("Softmax", "LogSoftmax"):
        axis = g.of(-1, -1, 1)
        y, to = g.op(op, x, axis=axis), ("u8", 0, 1 / 255)
    elif op in ("LayerNormalization", "LpNormalization"):
        of, last = rows()
        more = [g.constant(g.rng.uniform(0.5, 1.5, last).astype(np.float32)) for _ in range(2)]
        y = g.op(op, of, *more, axis=-1) if op.startswith("Layer") else g.op(op, of)
    elif op == "Split":
        half = c // 2
        parts = g.op(op, x, ints(half, c - half), axis=1, outputs=2)
        g.output(parts[0], *same)
        y, to = parts[1], same
    elif op == "Where":
        y = g.op(op, g.fed_by("chosen", g.rng.random(shape) < 0.5), x, g.input(shape, kind, zero))
    elif op == "Reshape":
        y, to = g.op("Mul", rows()[0], g.constant(np.float32(0.5))), same
    elif op == "Squeeze":
        y, to = g.op("ReduceMax", g.op("Unsqueeze", x, ints(2)), ints(2), keepdims=0), same
    elif op == "Tile":
        y, to = g.op(op, x, ints(1, 2, 1, g.of(1, 2))), same
    elif op == "Expand":
        y, to = g.op(op, g.op("Unsqueeze", x, ints(2)), ints(n, c, 2, h, w)), same
    elif op == "DepthToSpace":
        x = g.op("Slice", x, ints(0), ints(c // 4 * 4), ints(1))
        y, to = g.op(op, x, blocksize=2, mode=g.of("DCR", "CRD")), same
    elif op == "SpaceToDepth":
        x = g.op("Slice", x, ints(0, 0), ints(h // 2 * 2, w // 2 * 2), ints(2, 3))
        y, to = g.op(op, x, blocksize=2), same
    elif op == "Clip":
        y = g.op(op, x, g.constant(np.float32(-1)), g.constant(np.float32(2)))
    elif op == "PRelu":
        y = g.op(op, x, g.constant(g.rng.uniform(0, 0.5, (c, 1, 1)).astype(np.float32)))
    elif op in ("Mul", "Add", "Sub", "Max"):
        y = g.op(op, x, g.input(g.of(shape, shape, (1, c, 1, 1), (n, 1, h, w), (w,)), *g.kind()))
    elif op == "Div":
        y = g.op(op, x, g.constant(g.rng.uniform(1, 2, g.of((), (c, 1, 1))).astype(np.float32)))
    elif op == "Pow":
        y = g.op(op, x, g.constant(np.float32(2)))
    elif op == "Sqrt":
        y = g.op(op, g.op("Abs", x))
    elif op == "BatchNormalization":
        y = g.op(op, x, *[channels() for _ in range(4)])
    elif op == "InstanceNormalization":
        y = g.op(op, x, *[channels() for _ in range(2)])
    elif op == "GroupNormalization":
        y = g.op(op, x, *[channels() for _ in range(2)], num_groups=g.of(1, 2) if c % 2 == 0 else 1)
    elif op == "ArgMax":
        return g.end(g.op(op, x, axis=g.of(1, 3)))
    elif op == "TopK":
        y, to = g.op(op, x, ints(3), axis=g.of(1, 3), outputs=2)[0], same
    elif op == "GridSample":
        y = g.op(op, x, g.fed_by("grid", g.rng.uniform(-1, 1, (n, h, w, 2)).astype(np.float32)))
    elif op == "Einsum":
        y = g.op(op, x, g.input((n, c, w, 16), *g.kind()), equation="bcij,bcjk->bcik")
    elif op == "CumSum":
        y = g.op(op, x, g.constant(np.int64(g.of(1, 3))))
    else:
        y = g.op(op, x)
    g.output(y, *to)


FAMILIES = (qlinear_plain, around)
