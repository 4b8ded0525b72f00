"""Drawn cases of products, convolutions and poolings, and of operators on 8 bits."""

import math

import numpy as np
from operator_cases import case, floats, ints, words
from operator_cases_draw import SCALE, SIZES, ZERO, text


def quantized(d):
    op, s = (
        d.of(
            words(
                "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu "
                "QLinearConcat"
            )
        ),
        d.shape(),
    )
    axis = d.axis(s)
    if op == "DynamicQuantizeLinear":
        return case(op, text("f32", s), outputs=3)
    if not op.startswith("QLinear"):
        kind = "f32" if op[0] == "Q" else "u8"
        per_axis = len(s) > 1 and s[axis] > 1 and d.of((0, 1))
        scale, zero = (np.full(s[axis], 0.05, np.float32), np.ones(s[axis], np.uint8)) if per_axis else (SCALE, ZERO)
        return case(op, text(kind, s), scale, zero, **({"axis": axis} if per_axis else {}))
    own = {"domain": "com.microsoft"}
    if op in ("QLinearAdd", "QLinearMul"):
        b = [1 if d.of((0, 0, 1)) else e for e in s]
        return case(op, text("u8", s), SCALE, ZERO, text("u8", b), SCALE, ZERO, SCALE, ZERO, **own)
    if op == "QLinearConcat":
        return case(op, SCALE, ZERO, text("u8", s), SCALE, ZERO, text("u8", s), SCALE, ZERO, axis=axis, **own)
    return case(op, text("u8", s), SCALE, ZERO, SCALE, ZERO, **own)


def product(d):
    op = d.of(words("MatMul MatMul MatMul Gemm MatMulInteger QLinearMatMul"))
    while True:
        m, n, k = (int(v) for v in d.rng.choice(SIZES, 3))
        if 300_000 <= m * n * k <= 60_000_000 and max(m * k, k * n, m * n) <= 2_000_000:
            break
    constant = d.of((0, 1))
    if op == "MatMul":
        kind = d.of(("f32", "f32", "f32", "f16", "f64", "i32", "i64"))
        batch = [d.of((2, 3, 7))] if m * n * k < 8_000_000 and d.of((0, 1)) else []
        b = d.weights(k, n) if constant and kind == "f32" else text(kind, [*(batch if d.of((0, 1)) else []), k, n])
        return case(op, text(kind, [*batch, m, k]), b)
    if op == "Gemm":
        a, b = d.of((0, 1)), d.of((0, 1))
        right = [n, k] if b else [k, n]
        kind = "f32" if constant else d.of(("f32", "f64", "f16"))
        return case(
            op,
            text(kind, [k, m] if a else [m, k]),
            d.weights(*right) if constant else text(kind, right),
            text(kind, [n]),
            transA=a,
            transB=b,
        )
    w = d.weights(k, n, kind=d.of((np.int8, np.uint8))) if constant else text("u8", [k, n])
    if op == "MatMulInteger" or not constant:
        return case("MatMulInteger", text("u8", [m, k]), w, np.array(3, np.uint8), low=0, high=100)
    return case(
        op,
        text("u8", [m, k]),
        floats(0.1).reshape(()),
        ZERO,
        w,
        floats(0.1).reshape(()),
        np.array(0, w.dtype),
        floats(k / 4).reshape(()),
        ZERO,
        low=0,
        high=100,
    )


def convolution(d):
    op = d.of(words("Conv Conv Conv ConvTranspose ConvInteger QLinearConv"))
    while True:
        s = d.image((1, 2, 2, 3), 300_000)
        axes = len(s) - 2
        kernel = [min(int(d.of((1, 2, 3, 3, 5, 7))), e) for e in s[2:]]
        depthwise = d.of((0, 0, 1)) and s[1] > 1
        group = s[1] if depthwise else 1
        outputs = s[1] if depthwise else int(d.of((1, 2, 3, 8, 15, 16, 17, 31, 33, 65)))
        if 200_000 <= math.prod(s) * math.prod(kernel) * outputs // group <= 100_000_000:
            break
    strides, pads = [int(d.of((1, 1, 2, 3))) for _ in range(axes)], [k // 2 for k in kernel] * 2
    attributes = {"group": group, "strides": strides, "pads": pads}
    w = [outputs, s[1] // group, *kernel]
    if op == "ConvTranspose":
        attributes["strides"] = [min(v, k) for v, k in zip(strides, kernel)]
        return case(op, text("f32", s), d.weights(s[1], outputs // group, *kernel), **attributes)
    if op == "Conv":
        kind = d.of(("f32", "f32", "f32", "f16"))
        return case(op, text(kind, s), d.weights(*w, kind=np.float16 if kind == "f16" else np.float32), **attributes)
    w = d.weights(*w, kind=d.of((np.int8, np.uint8)))
    if op == "ConvInteger":
        return case(op, text("u8", s), w, np.array(3, np.uint8), np.array(1, w.dtype), low=0, high=200, **attributes)
    return case(
        op, text("u8", s), SCALE, ZERO, w, SCALE, np.array(1, w.dtype), floats(1).reshape(()), ZERO, low=0, high=200, **attributes
    )


def window(d):
    op = d.of(
        words(
            "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool QLinearGlobalAveragePool QLinearAveragePool Resize "
            "MaxPool"
        )
    )
    s = d.image()
    axes = len(s) - 2
    if op.startswith("QLinearGlobal"):
        return case(op, text("u8", s), SCALE, ZERO, SCALE, ZERO, domain="com.microsoft")
    if op.startswith("Global"):
        return case(op, text(d.of(("f32", "f16", "f64")), s))
    if op == "Resize":
        return case(
            op,
            text(d.of(("f32", "u8")), s),
            floats(),
            None,
            ints(s[0], s[1], *(e + e // 2 + 1 for e in s[2:])),
            mode=d.of(("nearest", "linear")),
        )
    kernel = [min(int(d.of((2, 3, 5))), e) for e in s[2:]]
    attributes = {
        "kernel_shape": kernel,
        "strides": [int(d.of((1, 2, 3))) for _ in range(axes)],
        "pads": [k // 2 for k in kernel] * 2,
    }
    if op.startswith("QLinear"):
        return case(op, text("u8", s), SCALE, ZERO, SCALE, ZERO, domain="com.microsoft", **attributes)
    kind = d.of(("f32", "f32", "f16", "u8")) if op == "MaxPool" else "f32"
    return case(op, text(kind, s), low=0, **attributes)
