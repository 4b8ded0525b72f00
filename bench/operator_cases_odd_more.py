"""The cases of operator_cases_odd.py that multiply, repeat, or read images, and ONNX Runtime's own operators."""

import numpy as np
from operator_cases import case, floats, ints, own, scalar, words
from operator_cases_draw import text
from operator_cases_odd_draw import REALS, dtype, shape


def products(d):
    op = d.of(words("MatMul MatMul Gemm Gemm Einsum MatMulInteger Det"))
    m, k, n = d.of((1, 2, 7, 33, 100)), d.of((1, 3, 16, 65, 257)), d.of((1, 3, 8, 50, 129))
    kind = d.of((*REALS, "i32", "i64", "u32"))
    if op == "MatMul":
        a, b = d.of((([2, 1], [1, 3]), ([3], []), ([], [4]), ([2, 3], [2, 3]), ([5, 1, 2], [2]), ([1], [4]), ([2, 1, 3], [5, 1])))
        form = d.of(("mm", "mm", "vm", "mv", "vv"))
        left = [k] if form[0] == "v" else [*a, m, k]
        right = [k] if form[1] == "v" else [*b, k, n]
        return case(op, text(kind, left), text(kind, right))
    if op == "Gemm":
        a, b = d.of((0, 1)), d.of((0, 1))
        kind = d.of(REALS)
        c = d.of(([], [1], [n], [1, n], [m, 1], [m, n], [1, 1], None))
        return case(
            op,
            text(kind, [k, m] if a else [m, k]),
            text(kind, [n, k] if b else [k, n]),
            *([text(kind, c)] if c is not None else []),
            transA=a,
            transB=b,
            alpha=d.of((1.0, -0.5)),
            beta=d.of((1.0, 0.0, 2.0)),
        )
    if op == "Einsum":
        e, s = d.of(
            (
                ("ij,jk,kl->il", ([m, k], [k, n], [n, 5])),
                ("...ij,...jk->...ik", ([2, 3, m, k], [3, k, n])),
                ("bik,bjk,bk->bij", ([2, m, k], [2, n, k], [2, k])),
                ("ii->i", ([k, k],)),
                ("ijk->kji", ([m, k, n],)),
                ("i,i", ([k], [k])),
                ("ij->", ([m, k],)),
                ("bhqd,bkhd->bhqk", ([2, 3, m, 16], [2, n, 3, 16])),
                ("ijkl,jl->ik", ([2, k, m, 5], [k, 5])),
                ("abc,cd,be->ade", ([m, 4, 9], [9, 6], [4, 5])),
                ("a,b,c->abc", ([m], [7], [n])),
                ("iij->j", ([7, 7, k],)),
                ("...c,c->...", ([2, m, k], [k])),
            )
        )
        return case(op, *[text(d.of(("f32",)), v) for v in s], equation=e)
    if op == "Det":
        return case(op, text("f32", [*d.of(([], [3], [2, 4])), *[d.of((1, 2, 3, 5, 20))] * 2]), low=-1, high=1)
    left, right = d.of(("u8", "i8")), d.of(("u8", "i8"))
    zeros = [scalar(2, dtype(left)), d.of((scalar(1, dtype(right)), np.arange(n).astype(dtype(right)) % 5))]
    return case(op, text(left, [*d.of(([], [3])), m, k]), text(right, [k, n]), *zeros, low=0, high=100)


def recurrent(d):
    """Lengths, clips, peepholes, other activations, directions."""
    op, gates = d.of((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, size, hidden = d.of((1, 5, 40)), d.of((1, 2, 7, 32)), d.of((1, 10, 64, 129)), d.of((3, 16, 50, 128))
    way = d.of(("forward", "reverse", "bidirectional"))
    ways = 2 if way == "bidirectional" else 1
    more = {"direction": way, "hidden_size": hidden}
    if op == "GRU":
        more["linear_before_reset"] = d.of((0, 1))
    if d.of((0, 0, 1)):
        more["clip"] = 0.5
    if d.of((0, 0, 1)):
        each = {
            "LSTM": d.of((["HardSigmoid", "Tanh", "Relu"], ["Sigmoid", "Softsign", "Tanh"])),
            "GRU": ["HardSigmoid", "Tanh"],
            "RNN": d.of((["Relu"], ["Sigmoid"], ["Softsign"])),
        }[op]
        more["activations"] = each * ways
    if op == "LSTM" and d.of((0, 0, 0, 1)):
        more["input_forget"] = 1
    lengths = d.rng.integers(1, steps + 1, batch).astype(np.int32) if d.of((0, 1)) else None
    state = [text("f32", [ways, batch, hidden])] if d.of((0, 1)) else [None]
    rest = [*state, *([*state, d.weights(ways, 3 * hidden) if d.of((0, 1)) else None] if op == "LSTM" else [])]
    while rest and rest[-1] is None:
        rest.pop()
    return case(
        op,
        text("f32", [steps, batch, size]),
        d.weights(ways, gates * hidden, size),
        d.weights(ways, gates * hidden, hidden),
        d.weights(ways, 2 * gates * hidden) if d.of((0, 1)) else None,
        lengths,
        *rest,
        outputs=3 if op == "LSTM" else 2,
        **more,
    )


def images(d):
    op = d.of(
        words(
            "Resize Resize Resize GridSample RoiAlign BatchNormalization InstanceNormalization GroupNormalization "
            "LRN Upsample GlobalMaxPool MaxUnpool DeformConv Conv ConvTranspose QLinearConv"
        )
    )
    axes = d.of((1, 2, 2, 3))
    c = d.of((1, 3, 6, 17, 32))
    s = [d.of((1, 2)), c, *(int(v) for v in d.rng.choice((5, 8, 13, 20, 31), axes))]
    if op == "Resize":
        mode = d.of(("nearest", "linear", "cubic") if axes < 3 else ("nearest", "linear"))
        how = d.of(
            ("half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize")
        )
        by_axes = how != "tf_crop_and_resize" and d.of((0, 1))
        near = {"nearest_mode": d.of(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))} if mode == "nearest" else {}
        if how == "tf_crop_and_resize":
            roi = floats(*[0] * 2, *[0.1] * axes, *[1] * 2, *[0.8] * axes)
            near["extrapolation_value"] = 7.0
        else:
            roi = None
        kind = d.of(("f32", "f32", "f16", "u8", "i8"))
        kind = "f32" if mode == "cubic" else kind
        new = [d.of((e, 2 * e, e + 3, max(1, e // 2), 1)) for e in s[2:]]
        if by_axes:
            near |= {"axes": list(range(2, 2 + axes)), "keep_aspect_ratio_policy": d.of(("stretch", "not_larger", "not_smaller"))}
        sizes = ints(*new) if by_axes else ints(*s[:2], *new)
        return case(op, text(kind, s), roi, None, sizes, mode=mode, coordinate_transformation_mode=how, low=0, high=100, **near)
    if op == "GridSample":
        s = [1, c, 9, 14]
        return case(
            op,
            text(d.of(("f32", "f16", "f64")), s),
            text("f32", [1, 1, d.of((1, 300)), 2]),
            low=-1,
            high=1,
            mode=d.of(("linear", "nearest", "cubic")),
            padding_mode=d.of(("zeros", "border", "reflection")),
            align_corners=d.of((0, 1)),
        )
    if op == "RoiAlign":
        boxes = np.sort(d.rng.uniform(-5, 40, (d.of((0, 1, 30)), 2, 2)), 1).reshape(-1, 4).astype(np.float32)
        return case(
            op,
            text("f32", [2, c, 13, 20]),
            boxes,
            d.rng.integers(0, 2, len(boxes)),
            spatial_scale=0.5,
            sampling_ratio=d.of((0, 3)),
            output_height=d.of((1, 7)),
            output_width=d.of((1, 7)),
            mode=d.of(("avg", "max")),
        )
    if op == "BatchNormalization":
        kind, s = d.of(REALS), d.of((s, s[:2], [7, 333]))
        return case(op, text(kind, s), *[text(kind, s[1:2])] * 4, low=0.5)
    if op == "InstanceNormalization":
        return case(op, text("f32", s), *[text("f32", [c])] * 2)
    if op == "GroupNormalization":
        kind, c = d.of(REALS), d.of((6, 30))
        s[1], opset = c, d.of((18, 21))
        groups = d.of((1, 2, 3, 6))
        return case(op, text(kind, s), *[text(kind, [groups if opset == 18 else c])] * 2, num_groups=groups, opset=opset)
    if op == "LRN":
        return case(op, text("f32", s), size=d.of((1, 3, 4, 7)), alpha=0.1)
    if op == "Upsample":
        return case(
            op,
            text(d.of(("f32", "u8")), [*s[:2], 9, 13]),
            floats(1, 1, 2, d.of((1.5, 3))),
            mode=d.of(("nearest", "linear")),
            opset=9,
        )
    if op == "GlobalMaxPool":
        return case(op, text(d.of(REALS), s))
    if op == "MaxUnpool":
        return case(op, "f32 1x3x20", d.rng.permutation(120)[:60].reshape(1, 3, 20), kernel_shape=[2], strides=[2])
    if op == "DeformConv":
        h, w, groups, off = d.of((5, 20)), d.of((9, 16)), d.of((1, 2)), d.of((1, 2))
        kh, kw, stride = d.of((1, 3)), d.of((1, 3, 5)), d.of((1, 2))
        out = [(e + 2 - k) // stride + 1 for e, k in ((h, kh), (w, kw))]
        return case(
            op,
            text("f32", [1, 8, h, w]),
            d.weights(6, 8 // groups, kh, kw),
            text("f32", [1, 2 * off * kh * kw, *out]),
            d.weights(6),
            *([text("f32", [1, off * kh * kw, *out])] if d.of((0, 1)) else []),
            group=groups,
            offset_group=off,
            strides=[stride] * 2,
            pads=[1] * 4,
            opset=d.of((19, 22)),
        )
    if op == "Conv":
        kind = d.of(("f32", "f32", "f16", "f64"))
        group, each, k = d.of((1, 3, 5)), d.of((1, 2, 4)), [d.of((1, 2, 3, 4)) for _ in range(axes)]
        s[1] = group * d.of((1, 2, 3, 8))
        return case(
            op,
            text(kind, s),
            text(kind, [group * each, s[1] // group, *k]),
            *([text(kind, [group * each])] if d.of((0, 1)) else []),
            group=group,
            pads=[d.of((0, 1, 2)) for _ in range(2 * axes)],
            strides=[d.of((1, 1, 2, 3)) for _ in range(axes)],
        )
    if op == "ConvTranspose":
        group, each, k = d.of((1, 3, 5)), d.of((1, 2, 4)), [d.of((1, 2, 3, 4)) for _ in range(axes)]
        s[1] = group * d.of((1, 2, 3, 8))
        strides = [d.of((1, 2, 3)) for _ in k]
        forms = (
            {"auto_pad": d.of(("SAME_UPPER", "SAME_LOWER"))}
            if d.of((0, 0, 1))
            else {"pads": [d.of((0, 1)) for _ in range(2 * axes)]}
        )
        k = [max(a, b) for a, b in zip(k, strides)]
        return case(op, text("f32", s), d.weights(s[1], each, *k), group=group, strides=strides, **forms)
    group, each = d.of((1, 3)), d.of((2, 7))
    s[1] = group * d.of((1, 3, 8))
    x, w = d.of(("u8", "i8")), d.of((np.int8, np.uint8))
    n = group * each
    per = d.of((0, 1))
    return case(
        op,
        text(x, s),
        scalar(0.05),
        scalar(3, dtype(x)),
        d.weights(n, s[1] // group, *[3] * axes, kind=w),
        np.full(n, 0.1, np.float32) if per else scalar(0.1),
        np.full(n, 1, w) if per else scalar(1, w),
        scalar(0.8),
        scalar(5, dtype(x)),
        d.rng.integers(-50, 50, n).astype(np.int32),
        group=group,
        pads=[d.of((0, 1)) for _ in range(2 * axes)],
        low=0,
        high=100,
    )


def microsoft(d):
    op = d.of(
        words(
            "MultiHeadAttention MultiHeadAttention GroupQueryAttention GroupQueryAttention Attention "
            "SkipLayerNormalization BiasGelu MatMulNBits QuickGelu FusedMatMul Inverse BiasSoftmax FusedConv "
            "QLinearConcat RelativePositionBias GatedRelativePositionBias GroupNorm NhwcFusedConv QuantizeLinear "
            "DequantizeLinear"
        )
    )
    b, s, heads, width = d.of((1, 2)), d.of((1, 5, 33, 100)), d.of((1, 3, 4)), d.of((8, 16, 32, 64))
    hidden = heads * width
    if op == "MultiHeadAttention":
        total = d.of((s, 20, 77))
        x = text("f32", [b, s, hidden])
        kv = text("f32", [b, total, hidden])
        mask = d.of((None, text("i32", [b, total]), text("i32", [b])))
        bias = text("f32", [d.of((1, b)), d.of((1, heads)), s, total]) if d.of((0, 1)) else None
        if d.of((0, 0, 1)):  # earlier keys and values
            past = d.of((1, 30))
            cache = text("f32", [b, heads, past, width])
            x2 = [text("f32", [b, s, hidden])] * 2
            return own(op, x, *x2, None, None, None, cache, cache, num_heads=heads, outputs=3, unidirectional=d.of((0, 1)))
        return own(op, x, kv, kv, text("f32", [3 * hidden]) if d.of((0, 1)) else None, mask, bias, num_heads=heads, low=0, high=1)
    if op == "GroupQueryAttention":
        kv, width, past = d.of([n for n in (1, 2, 4) if heads % n == 0]), d.of((16, 64)), d.of((0, 17, 100))
        s = s if past == 0 else d.of((1, 1, 4))
        b = 1 if past and s > 1 else b
        cache, rotary, packed = text("f32", [b, kv, past, width]), d.of((0, 1)), d.of((0, 1))
        cos = d.weights(256, width // 2)
        forms = {}
        if d.of((0, 0, 1)):
            forms["local_window_size"] = d.of((4, 30))
        if d.of((0, 0, 1)):
            forms["softcap"] = 10.0
        if d.of((0, 0, 1)):
            forms["smooth_softmax"] = 1
        q = (
            [text("f32", [b, s, (heads + 2 * kv) * width]), None, None]
            if packed
            else [text("f32", [b, s, heads * width]), *[text("f32", [b, s, kv * width])] * 2]
        )
        return own(
            op,
            *q,
            cache,
            cache,
            np.full(b, past + s - 1, np.int32),
            np.array(past + s, np.int32),
            *([cos, cos] if rotary else []),
            outputs=3,
            num_heads=heads,
            kv_num_heads=kv,
            do_rotary=rotary,
            rotary_interleaved=d.of((0, 1)),
            **forms,
        )
    if op == "Attention":
        mask = d.of((None, text("i32", [b]), text("i32", [b, s]), text("i32", [b, s, s])))
        bias = [None, text("f32", [b, heads, s, s])] if d.of((0, 1)) else []
        return own(
            op,
            text("f32", [b, s, hidden]),
            d.weights(hidden, 3 * hidden),
            d.weights(3 * hidden),
            mask,
            *bias,
            low=1,
            high=1,
            num_heads=heads,
        )
    if op == "SkipLayerNormalization":
        x = text("f32", [b, s, hidden])
        skip = d.of((x, text("f32", [1, s, hidden]), text("f32", [s, hidden])))
        return own(op, x, skip, text("f32", [hidden]), text("f32", [hidden]), text("f32", [hidden]), outputs=1)
    if op == "BiasGelu":
        return own(op, text("f32", [b, s, hidden]), text("f32", [hidden]))
    if op == "QuickGelu":
        return own(op, text("f32", shape(d, (1, 2, 3))), alpha=d.of((1.0, 1.702, -1.0)))
    if op == "MatMulNBits":
        k, n, bits, block = d.of((32, 100, 160)), d.of((1, 17, 64)), d.of((2, 4, 8)), d.of((16, 32))
        blocks = -(-k // block)
        w = d.rng.integers(0, 255, (n, blocks, block * bits // 8)).astype(np.uint8)
        return own(
            op,
            text("f32", [b, s, k]),
            w,
            np.abs(d.weights(n * blocks)),
            None,
            None,
            *([text("f32", [n])] if d.of((0, 1)) else []),
            K=k,
            N=n,
            bits=bits,
            block_size=block,
        )
    if op == "FusedMatMul":
        x, y = d.of((([3, s, 20], [3, 20, 33]), ([s, 20], [20, 7]), ([2, 1, s, 20], [3, 20, 9])))
        a, t = d.of((0, 1)), d.of((0, 1))

        def flip(v, on):
            return [*v[:-2], v[-1], v[-2]] if on else v

        batch = {"transBatchA": 0, "transBatchB": 0}
        return own(op, text("f32", flip(x, a)), text("f32", flip(y, t)), transA=a, transB=t, alpha=d.of((1.0, 0.3)), **batch)
    if op == "Inverse":
        return own(
            op, text(d.of(("f32", "f64", "f16")), [*d.of(([], [4], [2, 3])), *[d.of((1, 2, 4, 7, 33))] * 2]), low=-1, high=1
        )
    if op == "BiasSoftmax":
        return own(op, text("f32", [b, heads, s, 20]), text("f32", [b, 1, 1, 20]), axis=3, is_inner_broadcast=0)
    if op == "FusedConv":
        c, n = d.of((3, 16)), d.of((5, 16, 33))
        z = [text("f32", [b, n, 10, 12])] if d.of((0, 1)) else []
        act = d.of(
            (
                {"activation": "Clip", "activation_params": [0.0, 6.0]},
                {"activation": "LeakyRelu", "activation_params": [0.1]},
                {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]},
                {"activation": "Relu"},
            )
        )
        return own(op, text("f32", [b, c, 10, 12]), d.weights(n, c, 3, 3), d.weights(n), *z, pads=[1] * 4, **act)
    if op == "QLinearConcat":
        parts = [v for n in (1, 8, 17) for v in (text("u8", [b, n, s]), scalar(0.1), scalar(n, np.uint8))]
        return own(op, scalar(0.2), scalar(3, np.uint8), *parts, axis=1, low=0, high=255)
    if op == "RelativePositionBias":
        return own(
            op, d.weights(32, heads), scalar(s, np.int64), scalar(s, np.int64), max_distance=64, is_bidirectional=d.of((0, 1))
        )
    if op in ("QuantizeLinear", "DequantizeLinear"):
        s = shape(d, (2, 3))
        s = [max(e, 1) for e in s]
        axis, kind = d.axis(s), d.of(("u8", "i8", "u16", "i16"))
        per = np.abs(d.weights(s[axis])) + np.float32(0.01)
        zero = np.full(s[axis], 1, dtype(kind))
        if op[0] == "D":
            return own(op, text(kind, s), per, zero, axis=axis, low=0, high=99)
        return own(op, text("f32", s), per, zero, axis=axis)
    return own("BiasGelu", text("f32", [b, s, hidden]), text("f32", [hidden]))
