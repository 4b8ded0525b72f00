"""More fragments of models for operators.py: blocks, spectra, images by their grids, choices, integers, products of three."""

import math

import numpy as np
from onnx import numpy_helper
from operator_cases_draw import text
from operator_cases_graphs import Graph


def convolutions(d):
    """Blocks of odd channels, groups, pads and dilations in one to three axes."""
    form = d.of(("plain", "causal", "separable", "grouped", "shuffle", "transposed", "same", "standardised", "residual"))
    g = Graph(f"block {form}")
    axes = d.of((1, 1, 2, 2, 3))
    c, n = d.of((1, 3, 6, 10, 24, 33, 65)), d.of((1, 5, 12, 31, 64))
    s = [int(v) for v in d.rng.choice(((50, 333, 1000), (9, 27, 40, 56), (5, 8, 13))[axes - 1], axes)]
    k = [int(d.of((1, 2, 3, 3, 4, 5, 9) if axes < 3 else (1, 2, 3))) for _ in s]
    x = g.input(text("f32", [d.of((1, 1, 2)), c, *s]))
    dil = [int(d.of((1, 1, 2, 3))) for _ in s]
    strides = [int(d.of((1, 1, 2, 3))) for _ in s]
    g.tell(to=n, k=k, dil=dil, strides=strides)
    act = d.of(("Relu", "Elu", "Tanh", "HardSwish", "Mish", None))

    def conv(v, a, b, kernel, op="Conv", **more):
        rows = [b, a // more.get("group", 1)] if op == "Conv" else [a, b // more.get("group", 1)]
        return g(op, v, d.weights(*rows, *kernel), *([d.weights(b)] if d.of((0, 1)) else []), **more)

    def pads():
        return [int(d.of((0, 1, 2))) for _ in range(2 * len(s))]

    if form == "causal":
        before = [(kk - 1) * dd for kk, dd in zip(k, dil)]
        v = g("Pad", x, g.ints(0, 0, *before, *[0] * (2 + len(s))), *([g.f32(0.0)] if d.of((0, 1)) else []))
        y = conv(v, c, n, k, dilations=dil)
    elif form == "separable":
        y = conv(conv(x, c, c, k, group=c, pads=[kk // 2 for kk in k] * 2, strides=strides), c, n, [1] * axes)
    elif form in ("grouped", "shuffle"):
        c, each = d.of((6, 9, 15, 20)), d.of((1, 2, 5))
        group = 3 if c % 3 == 0 else 5
        x = g.input(text("f32", [1, c, *s]))
        g.told.append(f"group={group}x{each}")
        y = conv(x, c, group * each, k, group=group, pads=[kk // 2 for kk in k] * 2)
        if form == "shuffle":
            rest = onnx_shape(s, k)
            v = g("Reshape", y, g.ints(1, group, each, *rest))
            v = g("Transpose", v, perm=[0, 2, 1, *range(3, 3 + axes)])
            y = g("Reshape", v, g.ints(1, group * each, *rest))
        g.inputs.pop(0)
        g.inputs[0] = ("in1", *g.inputs[0][1:])
    elif form == "transposed":
        strides = [min(a, b) for a, b in zip(strides, k)]
        y = conv(x, c, n, k, "ConvTranspose", strides=strides, output_padding=[a - 1 for a in strides], dilations=dil)
    elif form == "same":
        y = conv(x, c, n, k, auto_pad=d.of(("SAME_UPPER", "SAME_LOWER", "VALID")), strides=strides)
    elif form == "standardised":
        w = g.constant(d.weights(n, c, *k))
        every = g.ints(*range(1, 2 + axes))
        centred = g("Sub", w, g("ReduceMean", w, every))
        w = g("Div", centred, g("Sqrt", g("Add", g("ReduceMean", g("Mul", centred, centred), every), g.f32(1e-5))))
        y = g("Conv", x, w, pads=[kk // 2 for kk in k] * 2)
    elif form == "residual":
        odd = [kk - 1 + kk % 2 for kk in k]
        y = conv(x, c, c, odd, pads=[kk // 2 for kk in odd] * 2)
        y = g("Add", g("Mul", y, g.f32(d.weights(c, *[1] * axes))), x)
    else:
        p = pads()
        ends = [e + p[i] + p[i + axes] - dd * (kk - 1) for i, (e, kk, dd) in enumerate(zip(s, k, dil))]
        y = conv(x, c, n, k, pads=p, dilations=dil if min(ends) > 0 else [1] * axes, strides=strides)
    return g.give(g(act, y) if act else y)


def onnx_shape(s, k):
    return [e + 2 * (kk // 2) - kk + 1 for e, kk in zip(s, k)]


def pools(d):
    """Pools of odd pads, of ceil_mode, of SAME, of dilations, in one to three axes; and one that gives indices."""
    op = d.of(("MaxPool", "MaxPool", "AveragePool", "LpPool"))
    g = Graph(f"pool {op}", opset=22)
    axes = d.of((1, 2, 2, 3))
    s = [int(v) for v in d.rng.choice(((50, 333, 4000), (9, 27, 57), (5, 8, 17))[axes - 1], axes)]
    k = [int(d.of((1, 2, 3, 4, 7) if axes < 3 else (1, 2, 3))) for _ in s]
    kind = d.of(("f32", "f32", "f32", "f16", "f64"))
    x = g.input(text(kind, [d.of((1, 2)), d.of((1, 3, 17, 32)), *s]), 0, 1)
    more = {"kernel_shape": k, "strides": [int(d.of((1, 2, 3))) for _ in s]}
    if d.of((0, 0, 1)):
        more["auto_pad"] = d.of(("SAME_UPPER", "SAME_LOWER"))
    else:
        more["pads"] = [int(d.rng.integers(0, kk)) for kk in (*k, *k)]
        more["ceil_mode"] = d.of((0, 1))
        if op != "LpPool" and d.of((0, 1)):
            more["dilations"] = [2 if kk * 2 < e else 1 for kk, e in zip(k, s)]
    if op == "LpPool":
        more["p"] = d.of((1, 2, 3))
    if op == "AveragePool":
        more["count_include_pad"] = d.of((0, 1))
    g.tell(**more)
    if op == "MaxPool" and d.of((0, 0, 1)):
        return g.give(*g(op, x, outputs=2, **more))
    return g.give(g(op, x, **more))


def spectra(d):
    """Signals cut into frames and turned, by STFT, DFT or a convolution of sines; powers, filters, logarithms."""
    form = d.of(("stft", "conv", "dft", "back", "filter"))
    g = Graph(f"spectrum {form}")
    frame = d.of((64, 128, 400, 512))
    hop, length = frame // d.of((2, 4)), d.of((2000, 8000, 16000))
    g.tell(frame=frame, hop=hop)
    window, bins = np.hanning(frame).astype(np.float32), frame // 2 + 1
    if form == "filter":  # a product of spectra
        x = g.input(text("f32", [d.of((1, 4)), length // 10, 1]))
        f = g("DFT", x, None, g.constant(np.array(1)), onesided=0)
        re, im = (g("Gather", f, g.constant(np.array(i)), axis=-1) for i in (0, 1))
        a, b = (g.f32(d.weights(length // 10)) for _ in range(2))
        re, im = g("Sub", g("Mul", re, a), g("Mul", im, b)), g("Add", g("Mul", re, b), g("Mul", im, a))
        y = g("Concat", g("Unsqueeze", re, g.ints(-1)), g("Unsqueeze", im, g.ints(-1)), axis=-1)
        return g.give(g("Slice", g("DFT", y, None, g.constant(np.array(1)), inverse=1), g.ints(0), g.ints(1), g.ints(-1)))
    turn = 2 * np.pi * np.outer(np.arange(bins), np.arange(frame)) / frame
    if form == "back":  # overlapped frames are added
        x = g.input(text("f32", [1, 2 * bins, length // hop]))
        w = (np.concatenate([np.cos(turn), -np.sin(turn)]) * window / frame).astype(np.float32)[:, None]
        y = g("ConvTranspose", x, w, strides=[hop])
        return g.give(g("Slice", y, g.ints(frame // 2), g.ints(-frame // 2), g.ints(2)))
    x = g.input(text("f32", [d.of((1, 2)), length]))
    if form == "stft":
        f = g("STFT", g("Unsqueeze", x, g.ints(2)), g.constant(np.array(hop)), window, onesided=1)
        p = g("ReduceSum", g("Mul", f, f), g.ints(-1), keepdims=0)
    elif form == "dft":
        at = np.arange(0, length - frame, hop)[:, None] + np.arange(frame)
        f = g(
            "DFT",
            g("Unsqueeze", g("Mul", g("Gather", x, at, axis=1), window), g.ints(3)),
            None,
            g.constant(np.array(2)),
            onesided=1,
        )
        p = g("ReduceSumSquare", f, g.ints(-1), keepdims=0)
    else:
        w = (np.concatenate([np.cos(turn), -np.sin(turn)]) * window).astype(np.float32)[:, None]
        v = g("Pad", g("Unsqueeze", x, g.ints(1)), g.ints(0, 0, frame // 2, 0, 0, frame // 2), mode="reflect")
        a, b = g("Split", g("Conv", v, w, strides=[hop]), axis=1, num_outputs=2, outputs=2)
        p = g("Transpose", g("Add", g("Pow", a, g.f32(2.0)), g("Pow", b, g.f32(2.0))), perm=[0, 2, 1])
        if d.of((0, 1)):
            p = g("Sqrt", p)
    mel = g("MatMul", p, np.abs(d.weights(bins, d.of((40, 80)))))
    y = g("Log", g("Max", mel, g.f32(1e-6))) if d.of((0, 1)) else g("Log", g("Add", mel, g.f32(1.0)))
    return g.give(g("Sub", y, g("ReduceMean", y, g.ints(1))))


def grids(d):
    """Flows and upsampling: places computed, images read there; pixels shuffled; volumes of correlation."""
    form = d.of(("warp", "affine", "shuffle", "correlation", "up", "preprocess", "blur", "hand-linear", "up3"))
    g = Graph(f"grid {form}")
    c, h, w = d.of((1, 3, 16, 32)), d.of((9, 16, 33, 64)), d.of((12, 32, 61))
    if form == "warp":
        x, flow = g.input(text("f32", [1, c, h, w])), g.input(text("f32", [1, 2, h, w]))
        base = np.stack(np.meshgrid(np.arange(w), np.arange(h)))[None].astype(np.float32)
        at = g("Add", flow, base)
        at = g("Div", g("Mul", at, g.f32(2.0)), np.array([w - 1, h - 1], np.float32).reshape(1, 2, 1, 1))
        at = g("Transpose", g("Sub", at, g.f32(1.0)), perm=[0, 2, 3, 1])
        return g.give(g("GridSample", x, at, align_corners=1, padding_mode=d.of(("zeros", "border"))))
    if form == "affine":
        x, theta = g.input(text("f32", [2, c, h, w])), g.input("f32 2x2x3")
        return g.give(g("GridSample", x, g("AffineGrid", theta, g.ints(2, c, 15, 20)), mode=d.of(("linear", "cubic"))))
    if form == "shuffle":
        r = d.of((2, 3, 4))
        g.tell(r=r)
        x = g.input(text(d.of(("f32", "f16", "u8")), [1, c * r * r, h, w]), 0, 1)
        v = g("Transpose", g("Reshape", x, g.ints(1, c, r, r, h, w)), perm=[0, 1, 4, 2, 5, 3])
        return g.give(g("Reshape", v, g.ints(1, c, h * r, w * r)))
    if form == "correlation":
        a, b = (g.input(text("f32", [1, c, h, w])) for _ in range(2))
        padded = g("Pad", b, g.ints(0, 0, 1, 1, 0, 0, 1, 1))
        each = [
            g("ReduceMean", g("Mul", a, g("Slice", padded, g.ints(i, j), g.ints(i + h, j + w), g.ints(2, 3))), g.ints(1))
            for i in range(3)
            for j in range(3)
        ]
        return g.give(g("Concat", *each, axis=1))
    if form in ("up", "up3"):
        s = [1, c, h, w] if form == "up" else [1, c, 5, 8, 9]
        x, scale = g.input(text("f32", s)), d.of((1.5, 2.0, 3.0))
        mode = d.of(("linear", "nearest", "cubic") if form == "up" else ("linear", "nearest"))
        g.tell(scale=scale, mode=mode)
        y = g("Resize", x, None, g.f32(1, 1, *[scale] * (len(s) - 2)), mode=mode)
        return g.give(g("Conv", y, d.weights(5, c, *[3] * (len(s) - 2)), pads=[1] * 2 * (len(s) - 2)))
    if form == "preprocess":
        x = g.input(text("u8", [1, 4 * h, 4 * w, 3]), 0, 255)
        v = g("Cast", x, to=1)
        if d.of((0, 1)):
            v = g("Div", g("Sub", v, g.f32(123.7, 116.3, 103.5)), g.f32(58.4, 57.1, 57.4))
            v = g("Transpose", v, perm=[0, 3, 1, 2])
        else:
            v = g("Transpose", g("Mul", v, g.f32(1 / 255)), perm=[0, 3, 1, 2])
            v = g("Div", g("Sub", v, g.f32([[[0.4]], [[0.5]], [[0.5]]])), g.f32([[[0.2]], [[0.2]], [[0.3]]]))
        antialias = d.of((0, 1))
        return g.give(g("Resize", v, None, None, g.ints(1, 3, 32, 48), mode=d.of(("linear", "cubic")), antialias=antialias))
    x = g.input(text("f32", [1, c, h, w]))
    if form == "blur":  # each channel by the same taps
        k = np.tile(np.outer((1, 2, 1), (1, 2, 1)).astype(np.float32)[None, None] / 16, (c, 1, 1, 1))
        return g.give(g("Conv", g("Pad", x, g.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"), k, group=c, strides=[2, 2]))
    at = g.input(text("f32", [500]), 0, h - 2)  # between two rows, by hand
    low = g("Floor", at)
    below = g("Cast", low, to=7)
    t = g("Reshape", g("Sub", at, low), g.ints(1, 1, -1, 1))
    a, b = g("Gather", x, below, axis=2), g("Gather", x, g("Add", below, g.constant(np.array(1))), axis=2)
    return g.give(g("Add", a, g("Mul", t, g("Sub", b, a))))


def choices(d):
    """Classes, boxes, beams: what follows a network."""
    form = d.of(("argmax", "beam", "boxes", "threshold", "nms", "ctc", "codes", "topk-mask", "median", "nucleus"))
    g = Graph(f"choice {form}")
    n, c = d.of((1, 33, 300, 2000)), d.of((5, 80, 1000))
    if form == "argmax":
        s = [1, d.of((3, 21)), d.of((33, 65, 128)), d.of((40, 77))]
        x = g.input(text(d.of(("f32", "f16")), s))
        return g.give(
            g("Cast", g("ArgMax", x, axis=1, keepdims=0), to=d.of((2, 6))), g("ReduceMax", g("Softmax", x, axis=1), g.ints(1))
        )
    if form == "beam":
        beams, k = d.of((1, 4, 5)), d.of((2, 8))
        logits, past = g.input(text("f32", [beams, c])), g.input(text("f32", [beams, 1]))
        total = g("Reshape", g("Add", g("LogSoftmax", logits, axis=-1), past), g.ints(1, -1))
        best, at = g("TopK", total, g.ints(k), outputs=2)
        width = g.constant(np.array(c))
        return g.give(best, g("Div", at, width), g("Mod", at, width))
    if form == "boxes":  # from middles and sizes to corners, of anchors
        x, anchors = g.input(text("f32", [1, n, 4])), np.abs(d.weights(1, n, 4)) + np.float32(1)
        xy, wh = g("Split", x, axis=2, num_outputs=2, outputs=2)
        axy, awh = np.split(anchors, 2, 2)
        middle = g("Add", g("Mul", g("Mul", xy, g.f32(0.1)), awh), axy)
        size = g("Mul", g("Exp", g("Mul", wh, g.f32(0.2))), awh)
        half = g("Div", size, g.f32(2.0))
        corners = g("Concat", g("Sub", middle, half), g("Add", middle, half), axis=2)
        return g.give(g("Clip", corners, g.f32(0.0), g.f32(1.0)))
    if form == "threshold":  # what is above it, by its indices
        x = g.input(text("f32", [n, c]))
        at = g("Transpose", g("NonZero", g("Greater", x, g.f32(0.5))), perm=[1, 0])
        return g.give(g("GatherND", x, at), at)
    if form == "nms":
        corner, size = g.input(text("f32", [1, n, 2]), 0, 9), g.input(text("f32", [1, n, 2]), 1, 3)
        boxes, scores = g("Concat", corner, g("Add", corner, size), axis=2), g.input(text("f32", [1, 3, n]), 0, 1)
        kept = g("NonMaxSuppression", boxes, scores, g.ints(50), g.f32([0.5]), g.f32([0.3]))
        rows = g("Gather", kept, g.constant(np.array(2)), axis=1)
        return g.give(g("Gather", g("Squeeze", boxes, g.ints(0)), rows))
    if form == "ctc":  # the best path, without repeats and blanks
        x = g.input(text("f32", [1, n, c]))
        best = g("Squeeze", g("ArgMax", x, axis=2, keepdims=0), g.ints(0))
        before = g("Concat", g.ints(-1), g("Slice", best, g.ints(0), g.ints(-1), g.ints(0)), axis=0)
        kept = g("And", g("Not", g("Equal", best, before)), g("Not", g("Equal", best, g.constant(np.array(0)))))
        return g.give(g("Compress", best, kept, axis=0))
    if form == "codes":  # the nearest code
        width, codes = d.of((8, 64)), d.of((16, 512))
        x, table = g.input(text("f32", [n, width])), d.weights(codes, width)
        far = g("Sub", g("ReduceSumSquare", x, g.ints(1)), g("Mul", g("MatMul", x, table.T.copy()), g.f32(2.0)))
        at = g("ArgMin", g("Add", far, (table**2).sum(1)), axis=1, keepdims=0)
        q = g("Gather", table, at)
        return g.give(g("Add", x, g("Sub", q, x)), at)
    x = g.input(text("f32", [n, c]))
    if form == "topk-mask":
        best, _ = g("TopK", x, g.ints(min(5, c)), outputs=2)
        least = g("Slice", best, g.ints(-1), g.ints(2**62), g.ints(1))
        return g.give(g("Softmax", g("Where", g("Less", x, least), g.f32(-1e9), x), axis=-1))
    ordered, at = g("TopK", x, g.ints(c), outputs=2)
    if form == "median":
        return g.give(g("Gather", ordered, g.constant(np.array(c // 2)), axis=1))
    chance = g("Softmax", ordered, axis=-1)
    total = g("CumSum", chance, g.constant(np.array(1)), exclusive=1)
    kept = g("Where", g("Greater", total, g.f32(0.9)), g.f32(-1e9), ordered)
    return g.give(g("ScatterElements", x, at, kept, axis=1))


def integers(d):
    """Positions, masks and indices computed from tokens."""
    form = d.of(("positions", "buckets", "mask", "hash", "onehot", "histogram", "bits", "range", "dates"))
    g = Graph(f"integer {form}")
    kind = d.of(("i64", "i64", "i32"))
    dtype = np.int32 if kind == "i32" else np.int64
    b, s = d.of((1, 2, 8)), d.of((7, 64, 300))
    x = g.input(text(kind, [b, s]), 0, 9)

    def number(v):
        return g.constant(np.array(v, dtype))

    if form == "positions":
        real = g("Cast", g("Not", g("Equal", x, number(1))), to=6)
        at = g("Add", g("Mul", g("CumSum", real, g.constant(np.array(1))), real), g.constant(np.int32(1)))
        return g.give(g("Gather", d.weights(s + 2, 32), g("Cast", at, to=7)))
    if form == "buckets":  # of relative positions, as T5
        at = g("Range", g.constant(np.array(0)), g.constant(np.array(s)), g.constant(np.array(1)))
        apart = g("Sub", g("Unsqueeze", at, g.ints(0)), g("Unsqueeze", at, g.ints(1)))
        side = g("Mul", g("Cast", g("Greater", apart, g.constant(np.array(0))), to=7), g.constant(np.array(16)))
        far = g("Abs", apart)
        large = g("Log", g("Div", g("Cast", g("Max", far, g.constant(np.array(1))), to=1), g.f32(8.0)))
        large = g("Add", g.constant(np.array(8)), g("Cast", g("Mul", g("Div", large, g.f32(math.log(16.0))), g.f32(8.0)), to=7))
        large = g("Min", large, g.constant(np.array(15)))
        bucket = g("Add", side, g("Where", g("Less", far, g.constant(np.array(8))), far, large))
        bias = g("Transpose", g("Gather", d.weights(32, 8), bucket), perm=[2, 0, 1])
        return g.give(g("Add", g("Unsqueeze", bias, g.ints(0)), g("Cast", g("Unsqueeze", x, g.ints(1, 3)), to=1)))
    if form == "mask":
        at = g("Range", g.constant(np.array(0)), g.constant(np.array(s)), g.constant(np.array(1)))
        seen = g("LessOrEqual", g("Unsqueeze", at, g.ints(0)), g("Unsqueeze", at, g.ints(1)))
        real = g("Unsqueeze", g("Greater", x, number(2)), g.ints(1))
        return g.give(g("Where", g("And", seen, real), g.f32(0.0), g.f32(-1e9)))
    if form == "hash":
        v = g("Mod", g("Add", g("Mul", x, number(31)), number(7)), number(1009))
        return g.give(g("ReduceSum", g("Gather", d.weights(1009, 16), v), g.ints(1), keepdims=0))
    if form == "onehot":
        v = g("OneHot", x, g.constant(np.array(10)), g.f32(0, 1))
        return g.give(g("Einsum", v, d.weights(10, 24), equation="bsc,cd->bsd"))
    if form == "histogram":
        ones = g("Expand", g.constant(np.array(1, dtype)), g("Shape", g("Reshape", x, g.ints(-1))))
        zeros = g("ConstantOfShape", g.ints(10), value=numpy_helper.from_array(np.zeros(1, dtype)))
        return g.give(g("ScatterElements", zeros, g("Reshape", x, g.ints(-1)), ones, reduction="add"))
    if form == "bits":
        u = g("Cast", x, to=12)
        low = g("BitwiseAnd", u, g.constant(np.array(1, np.uint32)))
        high = g("BitShift", u, g.constant(np.array(1, np.uint32)), direction="RIGHT")
        return g.give(g("Cast", g("BitwiseXor", low, high), to=7), g("BitwiseOr", high, g("BitwiseNot", low)))
    if form == "range":
        v = g("Add", g("Mul", g("Unsqueeze", x, g.ints(2)), number(8)), np.arange(8, dtype=dtype))
        return g.give(g("Reshape", v, g.ints(b, -1)), g("ReduceMax", v, g.ints(0, 2)), g("ReduceSum", v, g.ints(1)))
    y = g("Div", g("Sub", x, number(3)), number(4))
    return g.give(g("Sub", x, g("Mul", y, number(4))), g("Clip", y, number(0), number(1)), g("Equal", y, number(0)))


def mixes(d):
    """Products of three, capsules, experts, outer products, mixers, embeddings of time."""
    form = d.of(("three", "capsule", "experts", "bilinear", "mixer", "time", "gram", "film", "lora", "cross", "linear-attention"))
    g = Graph(f"mix {form}")
    b, n, c = d.of((1, 2, 5)), d.of((4, 17, 49, 196)), d.of((8, 31, 64))
    x = g.input(text("f32", [b, n, c]))
    if form == "three":
        form, *parts = d.of(
            (
                ("bnc,cd,bmd->bnm", (c, 9), (b, 12, 9)),
                ("bnc,nc,cd->bd", (n, c), (c, 15)),
                ("bnc,c,d->bnd", (c,), (7,)),
                ("bnc,bnd,bne->bcde", (b, n, 5), (b, n, 6)),
            )
        )
        return g.give(g("Einsum", x, *(g.input(text("f32", p)) for p in parts), equation=form))
    if form == "capsule":
        votes, logits = g.f32(d.weights(n, 10, c, 16)), g("ConstantOfShape", g.ints(b, n, 10, 1))
        u = g("Einsum", x, votes, equation="bnc,njcd->bnjd")
        for turn in range(3):
            s = g("ReduceSum", g("Mul", g("Softmax", logits, axis=2), u), g.ints(1))
            square = g("ReduceSumSquare", s, g.ints(-1))
            v = g("Mul", g("Div", square, g("Add", square, g.f32(1.0))), g("Div", s, g("Sqrt", g("Add", square, g.f32(1e-8)))))
            if turn < 2:
                logits = g("Add", logits, g("ReduceSum", g("Mul", u, v), g.ints(-1)))
        return g.give(v)
    if form == "experts":
        best, at = g("TopK", g("Softmax", g("MatMul", x, d.weights(c, 4)), axis=-1), g.ints(2), outputs=2)
        zeros = g("ConstantOfShape", g.ints(b, n, 4))
        share = g("ScatterElements", zeros, at, g("Div", best, g("ReduceSum", best, g.ints(-1))), axis=2)
        y = g("Relu", g("MatMul", g("Unsqueeze", x, g.ints(1)), d.weights(4, c, 2 * c)))
        y = g("MatMul", y, d.weights(4, 2 * c, c))
        return g.give(
            g("ReduceSum", g("Mul", y, g("Unsqueeze", g("Transpose", share, perm=[0, 2, 1]), g.ints(3))), g.ints(1), keepdims=0)
        )
    if form == "bilinear":
        y = g.input(text("f32", [b, n, 5]))
        outer = g("Mul", g("Unsqueeze", x, g.ints(3)), g("Unsqueeze", y, g.ints(2)))
        return g.give(g("MatMul", g("Reshape", outer, g.ints(b, n, 5 * c)), d.weights(5 * c, 12)))
    if form == "mixer":
        v = g("Transpose", x, perm=[0, 2, 1])
        v = g("MatMul", g("Gelu", g("Add", g("MatMul", v, d.weights(n, 2 * n)), d.weights(2 * n))), d.weights(2 * n, n))
        return g.give(g("Add", x, g("Transpose", v, perm=[0, 2, 1])))
    if form == "time":
        t = g("Cast", g.input(text("i64", [b]), 0, 999), to=1)
        angle = g("Mul", g("Unsqueeze", t, g.ints(1)), np.exp(-np.arange(32) / 4).astype(np.float32))
        e = g("Concat", g("Sin", angle), g("Cos", angle), axis=1)
        h = g("Gemm", e, d.weights(2 * c, 64), d.weights(2 * c), transB=1)
        h = g("Gemm", g("Mul", h, g("Sigmoid", h)), d.weights(2 * c, 2 * c), d.weights(2 * c), transB=1)
        scale, shift = g("Split", g("Unsqueeze", h, g.ints(1)), axis=2, num_outputs=2, outputs=2)
        return g.give(g("Add", g("Mul", x, g("Add", scale, g.f32(1.0))), shift))
    if form == "gram":
        return g.give(g("Div", g("MatMul", g("Transpose", x, perm=[0, 2, 1]), x), g.f32(float(n))))
    if form == "film":
        z = g.input(text("f32", [b, 1, c]))
        return g.give(g("Relu", g("Add", g("Mul", g("MatMul", x, d.weights(c, c)), z), g("Neg", z))))
    if form == "lora":
        y = g("MatMul", x, d.weights(c, 96))
        return g.give(g("Add", y, g("Mul", g("MatMul", g("MatMul", x, d.weights(c, 4)), d.weights(4, 96)), g.f32(2.0))))
    if form == "cross":
        s = g("MatMul", x, d.weights(c, 1))
        return g.give(g("Add", g("Mul", x, s), x))
    q, k = (g("Add", g("Elu", g("MatMul", x, d.weights(c, c))), g.f32(1.0)) for _ in range(2))
    kv = g("Einsum", k, x, equation="bnd,bne->bde")
    z = g("Reciprocal", g("Einsum", q, g("ReduceSum", k, g.ints(1), keepdims=0), equation="bnd,bd->bn"))
    return g.give(g("Mul", g("MatMul", q, kv), g("Unsqueeze", z, g.ints(2))))


KINDS = (convolutions, pools, spectra, grids, choices, integers, mixes)
