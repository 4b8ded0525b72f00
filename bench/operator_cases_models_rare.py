"""Random cases of operators.py of com.microsoft that models hold seldom: experts of few bits, recurrent networks in bytes,
and what older exporters wrote."""

import numpy as np
from operator_cases import case, ints, own, scalar, words
from operator_cases_draw import SCALE, ZERO, text

OPERATORS = words(
    "Pad Trilu Unique GatherND ExpandDims TransposeMatMul MatMulBnb4 MatMulInteger16 MurmurHash3 NGramRepeatBlock CropAndResize "
    "QMoE DynamicTimeWarping QLinearConv DequantizeLinear QuantizeLinear DynamicQuantizeLSTM ThresholdedRelu Scatter"
)


def products(d, op):
    m, k, n = d.of((1, 3, 16, 129)), d.of((32, 64, 255, 512)), d.of((17, 64, 300))
    if op == "TransposeMatMul":
        a, b = d.of((0, 1)), d.of((0, 1))
        return own(op, text("f32", [2, k, m] if a else [2, m, k]), text("f32", [2, n, k] if b else [2, k, n]), transA=a, transB=b)
    if op == "MatMulInteger16":
        return own(op, text("i16", [m, k]), text("i16", [k, n]))
    block, k = d.of((16, 64)), d.of((64, 256, 512))
    codes = d.rng.integers(0, 256, n * k // 2).astype(np.uint8)
    more = {"K": k, "N": n, "block_size": block, "quant_type": d.of((0, 1))}
    return own(op, text("f32", [m, k]), codes, np.abs(d.weights(n * k // block)), **more)


def experts(d, op):
    rows, hidden, inter, count, bits = d.of((1, 7, 40)), d.of((64, 128)), d.of((64, 256)), 4, d.of((4, 8))

    def of(n, k):
        return d.rng.integers(0, 256, (count, n, k * bits // 8)).astype(np.uint8), np.abs(d.weights(count, n))

    more = {"k": d.of((1, 2)), "expert_weight_bits": bits, "activation_type": d.of(("relu", "gelu", "silu"))}
    return own(op, text("f32", [rows, hidden]), text("f32", [rows, count]), *of(inter, hidden), None, *of(hidden, inter), **more)


def recurrent(d, op):
    steps, batch, width, hidden, two = d.of((1, 9, 40)), d.of((1, 3)), d.of((16, 33)), d.of((16, 40, 128)), d.of((1, 2))

    def of(rows):
        return d.rng.integers(-127, 128, (two, rows, 4 * hidden)).astype(np.int8)

    scale, zero = np.full(two, 0.01, np.float32), np.zeros(two, np.int8)
    more = {"hidden_size": hidden, "direction": "forward" if two == 1 else "bidirectional", "outputs": 3}
    states = (None, None, None, None, scale, zero, scale, zero)
    return own(op, text("f32", [steps, batch, width]), of(width), of(hidden), d.weights(two, 8 * hidden), *states, **more)


def bytes_of(d, op):
    s = d.shape((2, 3, 4), 50, 300_000)
    if op == "DequantizeLinear":
        return own(op, text(d.of(("u8", "i8", "u16", "i32")), s), SCALE, low=0, high=90)
    if op == "QuantizeLinear":
        return own(op, text("f32", s), SCALE, scalar(3, d.of((np.uint8, np.int8, np.uint16))))
    side, channels, outputs = d.of((9, 20, 33)), d.of((3, 8, 32)), d.of((5, 16, 64))
    w = d.rng.integers(-127, 128, (outputs, channels, 3, 3)).astype(np.int8)
    last = d.of((0, 1))
    x = text("u8", [1, side, side, channels] if last else [1, channels, side, side])
    more = {"pads": [1] * 4, "channels_last": last, "low": 0, "high": 255}
    return own(op, x, SCALE, ZERO, w, SCALE, scalar(0, np.int8), scalar(9.0), ZERO, **more)


def moves(d, op):
    s = d.shape((1, 2, 3, 4), 50, 300_000)
    if op == "Pad":
        mode = d.of(("constant", "edge", "reflect"))
        pads = ints(*[min(int(v), e - 1) for v, e in zip(d.rng.integers(0, 3, 2 * len(s)), [*s, *s], strict=True)])
        return own(op, text("f32", s), pads, scalar(1.5), mode=mode)
    if op == "Trilu":
        s = d.shape((2, 3), 50, 300_000)
        kind, diagonal = d.of(("f32", "i64", "bool")), scalar(d.of((-1, 0, 2)), np.int64)
        return own(op, text(kind, s), diagonal, upper=d.of((0, 1)), low=0, high=1)
    if op == "Unique":
        return own(op, text("f32", [d.of((7, 300, 5000))]), outputs=3, low=0, high=9)
    if op == "GatherND":
        s = [d.of((5, 40)), d.of((1, 9, 64)), d.of((1, 3, 33))]
        at = np.stack([d.rng.integers(0, e, 300) for e in s[: d.of((1, 2, 3))]], -1)
        return own(op, text("f32", s), at)
    if op == "ExpandDims":
        return own(op, text("f32", s), scalar(0, np.int32))
    if op == "Scatter":
        s = d.shape((2, 3), 50, 30_000)
        axis = d.axis(s)
        at = [max(1, e // 2) if a == axis else e for a, e in enumerate(s)]
        where = np.broadcast_to(np.arange(at[axis]).reshape([-1 if a == axis else 1 for a in range(len(s))]), at)
        return case(op, text("f32", s), np.ascontiguousarray(where), text("f32", at), axis=axis, opset=10)
    images = [1, d.of((3, 16)), d.of((20, 65)), d.of((33, 64))]
    rois = np.sort(d.rng.random((d.of((1, 20)), 2, 2)), 1).reshape(-1, 4).astype(np.float32)
    mode = d.of(("bilinear", "nearest"))
    return own(op, text("f32", images), rois, np.zeros(len(rois), np.int32), np.array([d.of((5, 14)), 7], np.int32), mode=mode)


def rare(d):
    op = d.of(OPERATORS)
    s = d.shape((1, 2, 3, 4), 50, 300_000)
    if op in ("TransposeMatMul", "MatMulInteger16", "MatMulBnb4"):
        return products(d, op)
    if op == "QMoE":
        return experts(d, op)
    if op == "DynamicQuantizeLSTM":
        return recurrent(d, op)
    if op in ("DequantizeLinear", "QuantizeLinear", "QLinearConv"):
        return bytes_of(d, op)
    if op == "MurmurHash3":
        return own(op, text("i32", s), seed=d.of((0, 7)), positive=0, low=0, high=1000)
    if op == "NGramRepeatBlock":
        return own(op, text("i64", [d.of((1, 4)), d.of((5, 40))]), text("f32", [1, 100]), ngram_size=3, low=0, high=9)
    if op == "DynamicTimeWarping":
        return own(op, text("f32", [1, d.of((7, 60)), d.of((9, 100))]))
    if op == "ThresholdedRelu":
        return case(op, text("f32", s), alpha=0.7)
    return moves(d, op)
