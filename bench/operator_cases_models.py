"""Random cases of operators.py out of models that users bring: what opsets 18 to 24 added, and what ONNX Runtime's optimisers and
quantizers write, with few and many rows and random attributes. Sizes are those of small models, so that calls count too."""

import numpy as np
from operator_cases import case, own, scalar, words
from operator_cases_draw import SCALE, ZERO, drawn, text
from operator_cases_models_images import images, others
from operator_cases_models_rare import rare

ROWS = (1, 1, 2, 3, 7, 16, 33, 128, 257)
WIDTHS = (48, 64, 96, 100, 256, 384, 511, 768)


def norms(d):
    op = d.of(
        words(
            "LayerNormalization RMSNormalization GroupNormalization SkipLayerNormalization EmbedLayerNormalization "
            "SkipSimplifiedLayerNormalization MeanVarianceNormalization LpNormalization SimplifiedLayerNormalization"
        )
    )
    rows, width, kind = d.of(ROWS), d.of(WIDTHS), d.of(("f32", "f32", "f16"))
    x, one = text(kind, [1, rows, width]), text(kind, [width])
    if op in ("LayerNormalization", "RMSNormalization"):
        s = d.shape((2, 3, 4), 50, 300_000)
        axis = d.axis(s)
        one = text(kind, s[axis:])
        more = {"outputs": 3} if op[0] == "L" and d.of((0, 0, 1)) and kind == "f32" else {}
        return case(op, text(kind, s), one, *([one] if op[0] == "L" and d.of((0, 1)) else []), opset=23, axis=axis, **more)
    if op == "GroupNormalization":
        channels, groups = d.of(((6, 3), (32, 32), (32, 1), (64, 8), (30, 5)))
        s = [d.of((1, 2)), channels, *(int(v) for v in d.rng.choice((1, 3, 7, 8, 15, 33), d.of((1, 2, 3))))]
        return case(op, text(kind, s), *[text(kind, [channels])] * 2, num_groups=groups)
    if op == "MeanVarianceNormalization":
        s = d.shape((3, 4), 50, 300_000)
        return case(op, text("f32", s), axes=sorted({d.axis(s), d.axis(s)}))
    if op == "LpNormalization":
        s = d.shape((1, 2, 3, 4), 50, 300_000)
        return case(op, text("f32", s), axis=d.axis(s), p=d.of((1, 2)))
    if op == "SimplifiedLayerNormalization":
        return case(op, x, one, axis=-1, epsilon=1e-5)
    if op == "SkipLayerNormalization":
        return own(op, x, x, one, *([one] if d.of((0, 1)) else [None]), *([one] if d.of((0, 1)) else []))
    if op == "EmbedLayerNormalization":
        rows = d.of((1, 8, 128))
        segments = d.of((0, 1))
        return own(
            op,
            text("i32", [2, rows]),
            text("i32", [2, rows]) if segments else None,
            d.weights(500, width),
            d.weights(130, width),
            d.weights(2, width) if segments else None,
            d.weights(width),
            d.weights(width),
            *([text("i32", [2, rows])] if d.of((0, 1)) else []),
            low=0,
            high=1,
            outputs=2,
        )
    return own(op, x, x, one, *([one] if d.of((0, 1)) else []))


def attentions(d):
    op = d.of(words("Attention Attention MultiHeadAttention GroupQueryAttention own QAttention RotaryEmbedding rotary"))
    heads, width, batch = d.of((1, 2, 4, 8, 12)), d.of((8, 16, 32, 40, 64, 80, 128)), d.of((1, 1, 2))
    q, total = d.of((1, 1, 2, 7, 33, 128)), d.of((1, 17, 64, 129, 300))
    hidden = heads * width
    if op == "Attention":
        kv = d.of([h for h in (1, 2, 4, 8, 12) if heads % h == 0])
        forms = {"is_causal": d.of((0, 0, 1)), "softcap": d.of((0.0, 0.0, 20.0))}
        mask = d.of((None, None, "f32", "bool"))
        mask = mask and text(mask, d.of(([q, total], [batch, 1, q, total], [batch, heads, q, total])))
        if d.of((0, 1)):
            args = [text("f32", [batch, n, rows, width]) for n, rows in ((heads, q), (kv, total), (kv, total))]
        else:
            args = [text("f32", [batch, rows, n * width]) for n, rows in ((heads, q), (kv, total), (kv, total))]
            forms.update(q_num_heads=heads, kv_num_heads=kv)
        return case(op, *args, *([mask] if mask else []), opset=23, **forms)
    if op == "MultiHeadAttention":
        k = text("f32", [batch, total, hidden])
        return own(
            op, text("f32", [batch, q, hidden]), k, k, *([text("f32", [3 * hidden])] if d.of((0, 1)) else []), num_heads=heads
        )
    if op == "own":
        bias = d.weights(3 * hidden)
        mask = [text("i32", [batch, q])] if d.of((0, 1)) else []
        return own(
            "Attention",
            text("f32", [batch, q, hidden]),
            d.weights(hidden, 3 * hidden),
            bias,
            *mask,
            low=0,
            high=1,
            num_heads=heads,
            unidirectional=d.of((0, 1)),
        )
    if op == "QAttention":
        w = d.rng.integers(0, 255, (hidden, 3 * hidden)).astype(d.of((np.uint8, np.int8)))
        return own(
            op,
            text("u8", [batch, q, hidden]),
            w,
            d.weights(3 * hidden),
            scalar(0.02),
            scalar(0.01),
            None,
            scalar(128, np.uint8),
            scalar(3, w.dtype),
            low=0,
            high=255,
            num_heads=heads,
        )
    if op == "GroupQueryAttention":
        kv, width = d.of([h for h in (1, 2, 4, 8, 12) if heads % h == 0]), d.of((16, 32, 64, 128))
        past = d.of((0, 0, 64, 200)) if q == 1 else 0
        cos = d.weights(512, width // 2)
        rotary = d.of((0, 1))
        cache = text("f32", [batch, kv, past, width])
        return own(
            op,
            text("f32", [batch, q, heads * width]),
            *[text("f32", [batch, q, kv * width])] * 2,
            cache,
            cache,
            np.full(batch, past + q - 1, np.int32),
            np.array(past + q, np.int32),
            *([cos, cos] if rotary else []),
            outputs=3,
            num_heads=heads,
            kv_num_heads=kv,
            do_rotary=rotary,
        )
    width = 2 * (width // 4) * 2
    cos = text("f32", [batch, q, width // 2])
    if op == "rotary":
        cos = d.weights(512, width // 2)
        return own(
            "RotaryEmbedding",
            text("f32", [batch, q, heads * width]),
            d.rng.integers(0, 300, (batch, q)),
            cos,
            cos,
            interleaved=d.of((0, 1)),
            num_heads=heads,
        )
    x = [batch, heads, q, width] if d.of((0, 1)) else [batch, q, heads * width]
    return case(op, text("f32", x), cos, cos, opset=23, interleaved=d.of((0, 1)), num_heads=heads)


def products(d):
    op = d.of(
        words(
            "FusedMatMul FusedGemm MatMulNBits MatMulNBits DynamicQuantizeMatMul MatMulIntegerToFloat QGemm "
            "GatherBlockQuantized QLinearMatMul MatMulInteger MatMul Gemm Einsum"
        )
    )
    m, k, n = d.of(ROWS), d.of(WIDTHS), d.of((*WIDTHS, 1, 3, 10, 1000))
    if op == "FusedMatMul":
        a, b, batch = d.of((0, 1)), d.of((0, 1)), d.of(([], [2], [2, 3]))
        right = [n, k] if b else [k, n]
        return own(
            op,
            text("f32", [*batch, *([k, m] if a else [m, k])]),
            d.weights(*right) if d.of((0, 1)) else text("f32", [*batch, *right]),
            transA=a,
            transB=b,
            alpha=0.125,
        )
    if op == "FusedGemm":
        b = d.of((0, 1))
        return own(
            op,
            text("f32", [m, k]),
            d.weights(*([n, k] if b else [k, n])),
            d.weights(n),
            transB=b,
            activation=d.of(("Relu", "Tanh", "Sigmoid", "LeakyRelu")),
        )
    if op == "MatMulNBits":
        bits, block = d.of((4, 4, 8)), d.of((16, 32, 64, 128))
        k = d.of((64, 256, 384, 512))
        blocks = -(-k // block)
        w = d.rng.integers(0, 255, (n, blocks, block * bits // 8)).astype(np.uint8)
        zeros = [d.rng.integers(0, 255, (n, -(-blocks * bits // 8))).astype(np.uint8)] if d.of((0, 1)) else []
        return own(
            op,
            text("f32", [m, k]),
            w,
            d.weights(n, blocks),
            *zeros,
            K=k,
            N=n,
            bits=bits,
            block_size=block,
            accuracy_level=d.of((0, 4)),
        )
    kind = d.of((np.int8, np.uint8))
    w = d.rng.integers(*((-128, 127) if kind is np.int8 else (0, 255)), (k, n)).astype(kind)
    if op == "DynamicQuantizeMatMul":
        each = d.of((1, n))
        return own(
            op,
            text("f32", [m, k]),
            w,
            d.weights(each) + np.float32(0.2),
            np.full(each, 3, kind),
            *([d.weights(n)] if d.of((0, 1)) else []),
        )
    if op == "MatMulIntegerToFloat":
        return own(op, text("u8", [m, k]), w, SCALE, SCALE, ZERO, scalar(3, kind), low=0, high=255)
    if op == "QGemm":
        return own(
            op,
            text("u8", [m, k]),
            SCALE,
            ZERO,
            w,
            SCALE,
            scalar(3, kind),
            d.rng.integers(-99, 99, n).astype(np.int32),
            scalar(4.0),
            ZERO,
            low=0,
            high=255,
        )
    if op == "GatherBlockQuantized":
        data = d.rng.integers(0, 255, (300, k // 4 * 2)).astype(np.uint8)
        blocks = -(-(k // 4 * 4) // 32)
        return own(
            op,
            data,
            d.rng.integers(0, 300, (1, m)),
            d.weights(300, blocks),
            bits=4,
            block_size=32,
            gather_axis=0,
            quantize_axis=1,
        )
    if op == "QLinearMatMul":
        return case(op, text("u8", [m, k]), SCALE, ZERO, w, SCALE, scalar(3, kind), scalar(4.0), ZERO, low=0, high=255)
    if op == "MatMulInteger":
        return case(op, text("u8", [m, k]), w, ZERO, scalar(3, kind), low=0, high=255)
    if op == "Einsum":
        b, i, j, c = d.of((1, 2, 4)), d.of(ROWS), d.of((5, 16, 33, 64)), d.of((8, 17, 64))
        form, left, right = d.of(
            (
                ("bij,bjk->bik", [b, i, j], [b, j, c]),
                ("bij,bkj->bik", [b, i, j], [b, c, j]),
                ("bhij,bhkj->bhik", [b, 2, i, j], [b, 2, c, j]),
                ("bijk,bkl->bijl", [b, 3, i, j], [b, j, c]),
                ("bihd,bjhd->bhij", [b, i, 3, j], [b, c, 3, j]),
                ("ij,kj->ikj", [i, j], [c, j]),
                ("bij,j->bi", [b, i, j], [j]),
                ("bi,bi->b", [b, j], [b, j]),
                ("nchw,cr->nrhw", [b, j, i, 5], [j, c]),
                ("bhij,bjhd->bihd", [b, 2, i, j], [b, j, 2, c]),
                ("i,j->ij", [i], [c]),
            )
        )
        return case(op, text("f32", left), text("f32", right), equation=form)
    kind = d.of(("f32", "f32", "f16", "f64"))
    if op == "MatMul":
        return case(op, text(kind, [m, k]), d.weights(k, n) if kind == "f32" and d.of((0, 1)) else text(kind, [k, n]))
    a, b = d.of((0, 1)), d.of((0, 1))
    return case(
        op,
        text(kind, [k, m] if a else [m, k]),
        text(kind, [n, k] if b else [k, n]),
        text(kind, d.of(([n], [1], [m, 1], [m, n]))),
        transA=a,
        transB=b,
        alpha=d.of((1.0, 0.5)),
        beta=d.of((1.0, 0.5)),
    )


def activations(d):
    op = d.of(
        words(
            "Swish Gelu BiasGelu FastGelu QuickGelu gelu BitwiseXor BitwiseNot BitShift HardSwish Mish Celu Shrink "
            "DequantizeLinear QuantizeLinear QLinearSoftmax QLinearWhere Clip PRelu Softmax IsInf"
        )
    )
    s, kind = d.shape((1, 2, 3, 4), 30, 300_000), d.of(("f32", "f32", "f16"))
    if op in ("Swish", "HardSwish", "Mish", "Celu", "Shrink"):
        return case(op, text("f32" if op in ("Celu", "Shrink") else kind, s), opset=24)
    if op == "Gelu":
        return case(op, text(kind, s), approximate=d.of(("none", "tanh")))
    if op in ("BiasGelu", "FastGelu", "QuickGelu", "gelu"):
        return own(
            {"gelu": "Gelu"}.get(op, op), text("f32", s), *([text("f32", s[-1:])] if op in ("BiasGelu", "FastGelu") else [])
        )
    if op.startswith("Bit"):
        kind = d.of(("u8", "u32", "u64") if op == "BitShift" else ("u8", "i32", "i64", "u16"))
        more = {"direction": d.of(("LEFT", "RIGHT"))} if op == "BitShift" else {}
        return case(op, text(kind, s), *([] if op == "BitwiseNot" else [text(kind, s)]), low=0, high=6, **more)
    if op == "QLinearSoftmax":
        return own(
            op, text("u8", s), SCALE, ZERO, scalar(1 / 256), scalar(0, np.uint8), axis=d.axis(s), opset=13, low=0, high=255
        )
    if op == "QLinearWhere":
        return own(op, text("bool", s), text("u8", s), SCALE, ZERO, text("u8", s), SCALE, ZERO, SCALE, ZERO, low=0, high=255)
    if op == "DequantizeLinear":
        axis, to = d.axis(s), d.of(("u8", "i8", "i32", "u16"))
        return case(op, text(to, s), d.weights(s[axis]) + np.float32(1), axis=axis, low=0, high=90)
    if op == "QuantizeLinear":
        axis, to = d.axis(s), d.of((np.uint8, np.int8, np.uint16))
        return case(op, text("f32", s), d.weights(s[axis]) + np.float32(1), np.full(s[axis], 3, to), axis=axis)
    if op == "Clip":
        return case(op, text("f16", s), scalar(0, np.float16), scalar(2, np.float16))
    if op == "PRelu":
        return case(op, text(kind, s), text(kind, [s[1] if len(s) > 1 else s[0], *[1] * (len(s) - 2)] if len(s) > 1 else s))
    if op == "Softmax":
        return case(op, text(kind, s), axis=d.axis(s))
    return case(op, text("f32", s))


KINDS = (norms, attentions, products, activations, images, others, rare)


def model_cases(count, seed):
    """So many cases, one kind after the other. No two are alike."""
    return drawn(KINDS, count, seed)
