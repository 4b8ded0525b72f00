"""Small graphs in 8 bits, and the same in f32, as seeds draw them: what quantisers of several makers write, and what users mix.
Products and convolutions; quantised_cases_plain.py has the other operators."""

import numpy as np
import quantised_cases_plain
from onnx import TensorProto, helper
from quantised_graph import OWN, Graph


def activation(g, x):
    kind = g.of("", "", "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "silu")
    g.say(kind)
    if kind == "Clip":
        return g.op("Clip", x, g.constant(np.float32(0)), g.constant(np.float32(6)))
    if kind == "silu":
        return g.op("Mul", x, g.between(g.op("Sigmoid", x), "u8", 0, 1 / 256))
    return g.op(kind, x) if kind else x


def bias(g, count, form):
    """none, floats, or 32-bit integers behind a DequantizeLinear."""
    if form == "none":
        return []
    numbers = g.rng.integers(-2000, 2000, count).astype(np.int32)
    scales = np.full(count, 2e-4, np.float32)
    if form == "f32" or not g.quantised:
        return [g.constant((numbers * scales).astype(np.float32))]
    return [g.op("DequantizeLinear", g.constant(numbers), g.constant(scales), axis=0)]


def conv_shape(g, rank):
    """Channels, outputs, groups, taps, extents and attributes of a convolution."""
    groups = g.of("one", "one", "one", "some", "depthwise", "doubled")
    c = g.size(3, 256, 8)
    k = g.size(3, 256, 8)
    if groups == "some":
        count = g.of(2, 4, 8)
        c, k = max(1, c // count) * count, max(1, k // count) * count
    elif groups in ("depthwise", "doubled"):
        count, k = c, c * (1 + (groups == "doubled"))
    else:
        count = 1
    taps = [g.of(1, 3, 3, 5) if i == 0 or g.rng.random() < 0.2 else 0 for i in range(rank)]
    taps = [t or taps[0] for t in taps]
    extent = g.size(*{1: (32, 2000), 2: (7, 64), 3: (4, 16)}[rank])
    dilation = g.of(1, 1, 1, 2)
    stride = g.of(1, 1, 2)
    pads = [t // 2 * dilation for t in taps] * 2 if g.rng.random() < 0.8 else [0] * 2 * rank
    extents = [max(extent, dilation * (t - 1) + 1) for t in taps]
    extents[-1] += g.of(0, 0, 1, 3)
    while count * 2 * (c // count) * (k // count) * np.prod(taps) * np.prod(extents) > 4e8:  # some milliseconds in f32
        extents = [max(dilation * (t - 1) + 1, e // 2) for e, t in zip(extents, taps, strict=True)]
        if c > 64:
            c, k = c // 2 // count * count or c, k // 2 // count * count or k
    attributes = {"group": count, "kernel_shape": taps, "strides": [stride] * rank, "dilations": [dilation] * rank, "pads": pads}
    g.say(f"groups{count}", f"stride{stride}", f"dilation{dilation}" if dilation > 1 else "", "pads" if any(pads) else "unpadded")
    return c, k, count, taps, extents, attributes


def conv(g):
    rank = g.of(1, 2, 2, 2, 3)
    c, k, count, taps, extents, attributes = conv_shape(g, rank)
    kind, zero = g.kind()
    x = g.input((g.of(1, 1, 2), c, *extents), kind, zero)
    w_kind, w_zero = g.weights_kind()
    w = g.weight((k, c // count, *taps), w_kind, g.of(0, 0, None), w_zero)
    form = g.of("none", "f32", "i32")
    y = activation(g, g.op("Conv", x, w, *bias(g, k, form), **attributes))
    if g.of(False, False, True):
        kind, zero = g.kind()
        g.say("twice")
        y = g.between(y, kind, zero)
        y = g.op("Conv", y, g.weight((32, k, *[1] * rank), "s8", 0))
    out, zero = g.kind()
    g.output(y, g.of(out, out, out, None), zero)


def conv_and_sum(g):
    """A residual block's end, of two types."""
    c, k, count, taps, extents, attributes = conv_shape(g, 2)
    attributes["strides"] = [1, 1]
    attributes["pads"] = [t // 2 * attributes["dilations"][0] for t in taps] * 2
    kind, zero = g.kind()
    x = g.input((1, c, *extents), kind, zero)
    other = g.input((1, k, *extents), *g.kind())
    y = g.op("Conv", x, g.weight((k, c // count, *taps), "s8", g.of(0, None)), *bias(g, k, "i32"), **attributes)
    if g.of(True, False):
        y = g.between(y, kind, zero)
    y = g.op("Add", *g.of((y, other), (other, y)))
    g.output(g.op("Relu", y) if g.of(True, False) else y, kind, zero)


def conv_transpose(g):
    c, k = g.size(4, 128, 8), g.size(4, 128, 8)
    rank, taps, stride = g.of(1, 2, 2), g.of(2, 3, 4), g.of(1, 2, 2)
    extent = g.size(7, 32) if rank == 2 else g.size(32, 500)
    x = g.input((1, c, *[extent] * rank), *g.kind())
    w_kind, w_zero = g.weights_kind()
    w = g.weight((c, k, *[taps] * rank), w_kind, g.of(None, 1), w_zero)
    pads = [g.of(0, (taps - 1) // 2)] * 2 * rank
    g.say(f"stride{stride}", f"pads{pads[0]}")
    y = g.op("ConvTranspose", x, w, *bias(g, k, g.of("none", "f32", "i32")), strides=[stride] * rank, pads=pads)
    g.output(activation(g, y), *g.kind())


def product(g):
    m, k, n = g.size(1, 512), g.size(16, 1024, 16), g.size(16, 1024, 16)
    while m * k * n > 1e8:
        m, k = max(1, m // 2), max(16, k // 2)
    x = g.input(g.of((m, k), (m, k), (1, m, k), (2, max(1, m // 2), k)), *g.kind())
    w_kind, w_zero = g.weights_kind()
    if g.of(True, False) and len(g.inputs[0].type.tensor_type.shape.dim) == 2:
        turned = g.of(0, 1)
        g.say(f"Gemm transB{turned}")
        w = g.weight((n, k) if turned else (k, n), w_kind, g.of(None, 1 - turned), w_zero, np.sqrt(n / k) if not turned else 1)
        y = g.op("Gemm", x, w, *bias(g, n, g.of("none", "f32", "i32")), transB=turned)
    else:
        w = g.weight((k, n), w_kind, g.of(None, 1, 1, 0), w_zero, np.sqrt(n / k))
        y = g.op("MatMul", x, w)
        if g.of(True, False):
            y = g.op("Add", y, *bias(g, n, "f32"))
    out, zero = g.kind()
    g.output(activation(g, y), g.of(out, out, out, None), zero)


def product_of_computed(g):
    """An attention's products, with a softmax between."""
    heads, m, d = g.of(1, 4, 8), g.size(16, 256), g.of(32, 64, 64, 40)
    kind, zero = g.kind()
    q = g.input((1, heads, m, d), kind, zero)
    k = g.input((1, heads, d, m), *g.kind())
    s = g.between(g.op("MatMul", q, k), *g.kind())
    if g.of(True, False):
        s = g.op("Mul", s, g.constant(np.float32(0.125)))
        s = g.between(s, *g.kind())
    p = g.between(g.op("Softmax", s), "u8", 0, 1 / 255)
    v = g.input((1, heads, m, d), *g.kind())
    g.output(g.op("MatMul", p, v), *g.kind())


def qlinear_conv(g):
    rank = g.of(1, 2, 2, 2)
    c, k, count, taps, extents, attributes = conv_shape(g, rank)
    kind, zero = g.kind()
    x = g.input((1, c, *extents), kind, zero)
    w = g.weight((k, c // count, *taps), g.of("s8", kind), g.of(0, None), 0)
    numbers = g.rng.integers(-2000, 2000, k).astype(np.int32)
    if g.quantised:
        out = g.scaled(kind, zero, 0.05)
        g.end(g.op("QLinearConv", *g.of_bytes(x), *g.of_bytes(w), *out, g.constant(numbers), **attributes))
    else:
        g.end(g.op("Conv", x, w, g.constant((numbers * 2e-4).astype(np.float32)), **attributes))


def qlinear_matmul(g):
    m, k, n = g.size(1, 512), g.size(16, 512, 16), g.size(16, 512, 16)
    kind, zero = g.kind()
    x = g.input(g.of((m, k), (1, m, k)), kind, zero)
    w = g.weight((k, n), g.of("s8", kind), g.of(None, 1), 0, np.sqrt(n / k))
    if g.quantised:
        g.end(g.op("QLinearMatMul", *g.of_bytes(x), *g.of_bytes(w), *g.scaled(kind, zero, 0.05)))
    else:
        g.end(g.op("MatMul", x, w))


def qgemm(g):
    m, k, n = g.size(1, 256), g.size(16, 512, 16), g.size(16, 512, 16)
    kind, zero = g.kind()
    x = g.input((m, k), kind, zero)
    turned = g.of(0, 1)
    w = g.weight((n, k) if turned else (k, n), g.of("s8", kind), g.of(None, 1 - turned), 0)
    numbers = g.rng.integers(-2000, 2000, n).astype(np.int32)
    g.say(f"transB{turned}")
    if g.quantised:
        a, b = g.of_bytes(x), g.of_bytes(w)
        out = g.of(True, False)
        g.end(g.op("QGemm", *a, *b, g.constant(numbers), *(g.scaled(kind, zero, 0.05) if out else ()), domain=OWN, transB=turned))
    else:
        g.of(True, False)
        g.end(g.op("Gemm", x, w, g.constant((numbers * 2e-4).astype(np.float32)), transB=turned))


def dynamic(g):
    """Scales that a run finds: ONNX Runtime's dynamic quantiser, and its fused forms."""
    op = g.of("MatMulInteger", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")
    w_kind, w_zero = g.weights_kind()
    g.say(op)
    if op == "ConvInteger":
        c, k, count, taps, extents, attributes = conv_shape(g, 2)
        x = g.floats((1, c, *extents))
        w = g.weight((k, c // count, *taps), w_kind, None, w_zero)
        if not g.quantised:
            return g.end(g.op("Conv", x, w, **attributes))
        q, scale, zero = g.op("DynamicQuantizeLinear", x, outputs=3)
        b, b_scale, b_zero = g.of_bytes(w)
        y = g.op("Cast", g.op("ConvInteger", q, b, zero, b_zero, **attributes), to=TensorProto.FLOAT)
        return g.end(g.op("Mul", y, g.op("Mul", scale, b_scale)))
    m, k, n = g.size(1, 512), g.size(16, 1024, 16), g.size(16, 1024, 16)
    while m * k * n > 1e8:
        m, k = max(1, m // 2), max(16, k // 2)
    x = g.floats(g.of((m, k), (1, m, k)))
    w = g.weight((k, n), w_kind, g.of(None, 1) if op != "MatMulInteger" else None, w_zero, np.sqrt(n / k))
    if not g.quantised:
        return g.end(g.op("MatMul", x, w))
    b, b_scale, b_zero = g.of_bytes(w)
    if op == "DynamicQuantizeMatMul":
        return g.end(g.op(op, x, b, b_scale, b_zero, domain=OWN))
    q, scale, zero = g.op("DynamicQuantizeLinear", x, outputs=3)
    if op == "MatMulIntegerToFloat":
        return g.end(g.op(op, q, b, scale, b_scale, zero, b_zero, domain=OWN))
    y = g.op("Cast", g.op("MatMulInteger", q, b, zero, b_zero), to=TensorProto.FLOAT)
    return g.end(g.op("Mul", y, g.op("Mul", scale, b_scale)))


def sixteen_bits(g):
    kind = g.of("u16", "s16")
    op = g.of("Conv", "MatMul", "Add", "Mul", "Softmax", "LayerNormalization", "Sigmoid", "Gelu")
    g.say(op)
    zero = 32768 if kind == "u16" else 0
    c, h = g.size(8, 128, 8), g.size(7, 40)
    if op in ("Conv",):
        y = g.op(op, g.input((1, c, h, h), kind, zero), g.weight((c, c, 3, 3), "s8", 0), pads=[1, 1, 1, 1])
    elif op == "MatMul":
        y = g.op(op, g.input((1, h * 4, c), kind, zero), g.weight((c, c * 2), g.of("s8", "s16"), g.of(None, 1)))
    elif op in ("Add", "Mul"):
        y = g.op(op, g.input((1, c, h, h), kind, zero), g.input((1, c, h, h), kind, zero))
    else:
        x = g.input((1, c, h * h), kind, zero)
        more = [g.constant(np.ones(h * h, np.float32))] if op.startswith("Layer") else []
        y = g.op(op, x, *more)
    g.output(y, kind, zero)


def four_bits(g):
    """Weights in blocks along K behind DequantizeLinear."""
    m, block = g.size(1, 64), g.of(16, 32, 64, 128)
    k, n = block * g.of(2, 4, 8), g.size(32, 1024, 16)
    signed = g.of(True, False)
    low, high = (-8, 7) if signed else (0, 15)
    q = g.rng.integers(low, high, (k, n), endpoint=True)
    scales = g.rng.uniform(0.01, 0.03, (k // block, n)).astype(np.float32)
    zeros = None if signed and g.of(True, False) else g.rng.integers(low, high, (k // block, n), endpoint=True)
    g.say("i4" if signed else "u4", f"block{block}", f"{k}x{n}", "" if zeros is None else "zeros")
    x = g.floats(g.of((m, k), (1, m, k)))
    if not g.quantised:
        wide = np.repeat(0 if zeros is None else zeros, block, 0) if zeros is not None else 0
        return g.end(g.op("MatMul", x, g.constant(((q - wide) * np.repeat(scales, block, 0)).astype(np.float32))))
    kind = TensorProto.INT4 if signed else TensorProto.UINT4
    names = []
    for array in (q, zeros):
        if array is not None:
            g.constants.append(helper.make_tensor(f"c{len(g.constants)}", kind, array.shape, array.flatten().tolist()))
            names.append(g.constants[-1].name)
    w = g.op("DequantizeLinear", names[0], g.constant(scales), *names[1:], axis=0, block_size=block)
    return g.end(g.op("MatMul", x, w))


def float8(g):
    """Weights, and with some activations, in 8-bit floats."""
    m, k, n = g.size(1, 128), g.size(32, 512, 16), g.size(32, 512, 16)
    w = g.rng.standard_normal((k, n)).astype(np.float32)
    x = g.floats((m, k))
    scale = g.constant(np.float32(1 / np.sqrt(k)))
    g.say(f"{k}x{n}")
    both = g.of(True, False)
    if not g.quantised:
        return g.end(g.op("MatMul", x, g.constant((w / np.sqrt(k)).astype(np.float32))))
    g.constants.append(helper.make_tensor(f"c{len(g.constants)}", TensorProto.FLOAT8E4M3FN, w.shape, w.flatten().tolist()))
    kept = g.constants[-1].name
    if both:
        g.constants.append(helper.make_tensor("f8zero", TensorProto.FLOAT8E4M3FN, (), [0.0]))
        one = g.constant(np.float32(0.02))
        x = g.op("DequantizeLinear", g.op("QuantizeLinear", x, one, "f8zero"), one, "f8zero")
    return g.end(g.op("MatMul", x, g.op("DequantizeLinear", kept, scale)))


def attention(g):
    """QAttention."""
    heads, d, s, b = g.of(4, 8, 12), g.of(32, 64), g.size(8, 128), g.of(1, 2)
    hidden = heads * d
    x = g.input((b, s, hidden), "u8", g.of(128, 100))
    w = g.weight((hidden, 3 * hidden), g.of("s8", "u8"), g.of(None, None, 1), 0, np.sqrt(3))
    c = g.constant(g.rng.standard_normal(3 * hidden).astype(np.float32))
    if g.quantised:
        (a, a_scale, a_zero), (v, v_scale, v_zero) = g.of_bytes(x), g.of_bytes(w)
        return g.end(g.op("QAttention", a, v, c, a_scale, v_scale, "", a_zero, v_zero, domain=OWN, num_heads=heads))
    return g.end(g.op("Attention", x, w, c, domain=OWN, num_heads=heads))


def embedding(g):
    """QEmbedLayerNormalization."""
    hidden, words, places, s, b = g.of(128, 256, 768), 1000, 128, g.size(8, 128), g.of(1, 4)
    ids = g.fed_by("ids", g.rng.integers(0, words, (b, s)).astype(np.int32))
    kinds = g.fed_by("kinds", g.rng.integers(0, 2, (b, s)).astype(np.int32))
    tables = [g.weight(shape, "u8", None, 128) for shape in ((words, hidden), (places, hidden), (2, hidden))]
    norms = [g.weight((hidden,), "u8", None, z, 30) for z in (0, 128)]
    g.say(f"{b}x{s}")
    if not g.quantised:
        return g.end(g.op("EmbedLayerNormalization", ids, kinds, *tables, *norms, domain=OWN, outputs=2)[0])
    q, scales, zeros = zip(*(g.of_bytes(t) for t in (*tables, *norms)), strict=True)
    return g.end(g.op("QEmbedLayerNormalization", ids, kinds, *q, "", *scales, *zeros, domain=OWN, outputs=2)[0])


FAMILIES = {
    f.__name__: f
    for f in (
        conv,
        conv_and_sum,
        conv_transpose,
        product,
        product_of_computed,
        qlinear_conv,
        qlinear_matmul,
        qgemm,
        dynamic,
        sixteen_bits,
        four_bits,
        float8,
        attention,
        embedding,
        *quantised_cases_plain.FAMILIES,
    )
}


def case(family, seed):
    """The graph in 8 bits and the one in f32."""
    pair = [Graph(seed, quantised) for quantised in (True, False)]
    for g in pair:
        FAMILIES[family](g)
    return pair
