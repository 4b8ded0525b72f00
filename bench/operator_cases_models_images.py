"""The cases of operator_cases_models.py that are images, windows, scattered elements, signals and losses."""

import math

import numpy as np
from operator_cases import case, floats, ints, own, scalar, words
from operator_cases_draw import text


def images(d):
    op = d.of(
        words(
            "CenterCropPad Col2Im GridSample GridSample Resize Resize Resize NhwcMaxPool FusedConv AffineGrid DepthToSpace "
            "SpaceToDepth DeformConv MaxRoiPool RoiAlign MaxUnpool MaxPool AveragePool LpPool Pad ConvTranspose Upsample"
        )
    )
    rank = d.of((1, 2, 2, 3))
    s = [d.of((1, 2)), d.of((1, 3, 8, 16)), *(int(v) for v in d.rng.choice((5, 8, 13, 16, 32, 33), rank))]
    if op == "CenterCropPad":
        axes = list(range(2, len(s)))
        return case(op, text(d.of(("f32", "u8")), s), ints(*(int(v) for v in d.rng.choice((3, 8, 20, 40), rank))), axes=axes)
    if op == "Col2Im":
        h, w, kh, kw = d.of((8, 15, 32)), d.of((8, 15)), d.of((1, 2, 3)), d.of((1, 2, 3))
        stride, pad, dil = d.of((1, 2)), d.of((0, 1)), d.of((1, 2))
        blocks = math.prod((e + 2 * pad - dil * (k - 1) - 1) // stride + 1 for e, k in ((h, kh), (w, kw)))
        return case(
            op,
            text("f32", [2, 4 * kh * kw, blocks]),
            ints(h, w),
            ints(kh, kw),
            strides=[stride] * 2,
            pads=[pad] * 4,
            dilations=[dil] * 2,
        )
    if op == "GridSample":
        rank = d.of((2, 2, 3))
        s = [*s[:2], *(int(v) for v in d.rng.choice((5, 8, 13, 33), rank))]
        out = [int(v) for v in d.rng.choice((4, 9, 16), rank)]
        return case(
            op,
            text(d.of(("f32", "f32", "f64")), s),
            text("f32", [s[0], *out, rank]),
            low=-1,
            high=1,
            align_corners=d.of((0, 1)),
            mode=d.of(("linear", "nearest") if rank == 3 else ("linear", "nearest", "cubic")),
            padding_mode=d.of(("zeros", "border", "reflection")),
        )
    if op == "Resize":
        mode = d.of(("nearest", "linear", "linear", "cubic")) if rank == 2 else d.of(("nearest", "linear"))
        more = {"antialias": 1} if mode != "nearest" and rank == 2 and d.of((0, 1)) else {}
        sizes = ints(*s[:2], *(int(v) for v in d.rng.choice((4, 7, 16, 24, 64), rank)))
        if mode == "nearest":
            more["nearest_mode"] = d.of(("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"))
        if mode == "cubic":
            more.update(cubic_coeff_a=d.of((-0.75, -0.5)), exclude_outside=d.of((0, 1)))
        return case(
            op,
            text("f32" if mode == "cubic" else d.of(("f32", "u8")), s),
            floats(),
            None,
            sizes,
            mode=mode,
            low=0,
            high=200,
            coordinate_transformation_mode=d.of(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")),
            **more,
        )
    if op == "NhwcMaxPool":
        return own(
            op,
            text(d.of(("u8", "i8")), [s[0], 33, 20, s[1]]),
            kernel_shape=[3, 3],
            strides=[d.of((1, 2))] * 2,
            pads=[1] * 4,
            low=0,
            high=99,
        )
    if op == "FusedConv":
        w = d.weights(d.of((3, 8, 17)), s[1], *[3] * rank)
        return own(
            op,
            text("f32", s),
            w,
            d.weights(len(w)),
            pads=[1] * 2 * rank,
            strides=[d.of((1, 2))] * rank,
            activation=d.of(("Relu", "Tanh", "Sigmoid")),
        )
    if op == "AffineGrid":
        r = d.of((2, 3))
        return case(
            op,
            text("f32", [2, r, r + 1]),
            ints(2, 3, *(int(v) for v in d.rng.choice((5, 16, 33), r))),
            align_corners=d.of((0, 1)),
        )
    if op == "DepthToSpace":
        return case(op, text("f32", [2, 16, 9, 13]), blocksize=d.of((2, 4)), mode=d.of(("DCR", "CRD")))
    if op == "SpaceToDepth":
        return case(op, text("f32", [2, s[1], 12, 32]), blocksize=d.of((2, 4)))
    if op == "DeformConv":
        return case(
            op,
            text("f32", [1, 8, 16, 16]),
            d.weights(8, 8, 3, 3),
            text("f32", [1, 18, 16, 16]),
            None,
            *([text("f32", [1, 9, 16, 16])] if d.of((0, 1)) else []),
            pads=[1] * 4,
            low=-2,
            high=2,
        )
    if op in ("MaxRoiPool", "RoiAlign"):
        boxes = np.sort(d.rng.uniform(0, 15, (d.of((1, 9, 50)), 2, 2)), axis=1).reshape(-1, 4).astype(np.float32)
        x = text("f32", [1, 8, 16, 16])
        if op == "MaxRoiPool":
            return case(op, x, np.concatenate([np.zeros((len(boxes), 1), np.float32), boxes], 1), pooled_shape=[3, 3])
        return case(
            op,
            x,
            boxes,
            np.zeros(len(boxes), np.int64),
            output_height=7,
            output_width=5,
            sampling_ratio=d.of((0, 1, 2)),
            mode=d.of(("avg", "max")),
            coordinate_transformation_mode=d.of(("half_pixel", "output_half_pixel")),
        )
    if op == "MaxUnpool":
        return case(
            op, text("f32", [1, 4, 8, 8]), d.rng.permutation(1024)[:256].reshape(1, 4, 8, 8), kernel_shape=[2, 2], strides=[2, 2]
        )
    if op in ("MaxPool", "AveragePool", "LpPool"):
        k = [d.of((2, 3, 5)) for _ in range(rank)]
        more = {"dilations": [d.of((1, 1, 2)) for _ in range(rank)]} if op != "LpPool" and max(k) == 2 else {}
        if op == "AveragePool":
            more["count_include_pad"] = d.of((0, 1))
        return case(
            op,
            text("f32", s),
            kernel_shape=k,
            strides=[d.of((1, 2)) for _ in range(rank)],
            pads=[v // 2 for v in k] * 2,
            ceil_mode=d.of((0, 1)) if op == "MaxPool" else 0,
            low=0,
            **more,
        )
    if op == "Pad":
        mode = d.of(("constant", "edge", "reflect", "wrap"))
        return case(
            op,
            text(d.of(("f32", "u8", "f16", "i64")), s),
            ints(*d.rng.integers(0, 3, 2 * len(s)))
            if mode in ("constant", "edge")
            else ints(0, 0, *d.rng.integers(0, 4, rank), 0, 0, *d.rng.integers(0, 4, rank)),
            mode=mode,
        )
    if op == "ConvTranspose":
        k = [d.of((2, 3, 4)) for _ in range(rank)]
        strides = [d.of((1, 2)) for _ in k]
        return case(
            op, text("f32", s), d.weights(s[1], d.of((1, 8, 16)), *k), strides=strides, pads=[d.of((0, 1)) for _ in k] * 2
        )
    return case(
        "Resize",
        text("f32", [1, 8, 13, 13]),
        floats(),
        floats(1, 1, 2, 2),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def others(d):
    op = d.of(
        words(
            "ScatterElements ScatterElements ScatterND GatherElements ReduceLogSumExp ReduceLogSum ReduceL2 ReduceSumSquare STFT "
            "DFT DFT MelWeightMatrix HannWindow TfIdfVectorizer CumSum TopK Unique NonZero GatherND OneHot EyeLike Range Trilu "
            "BlackmanWindow Det Inverse TensorScatter ReverseSequence CDist LinearAttention MoE BiasSoftmax "
            "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss Hardmax"
        )
    )
    s = d.shape((1, 2, 3, 4), 30, 200_000)
    axis = d.axis(s)
    if op == "ScatterElements":
        few = [max(1, e // 2) for e in s]
        kind = d.of(("f32", "i64", "f16"))
        return case(
            op,
            text(kind, s),
            d.rng.integers(0, s[axis], few),
            text(kind, few),
            axis=axis,
            reduction=d.of(("add", "mul", "max", "min")),
        )
    if op == "ScatterND":
        return case(
            op,
            text("f32", s),
            d.rng.integers(0, s[0], (max(1, s[0] // 2), 1)),
            text("f32", [max(1, s[0] // 2), *s[1:]]),
            reduction=d.of(("add", "mul", "max", "min")),
        )
    if op == "GatherElements":
        few = [max(1, e // 2) for e in s]
        return case(op, text(d.of(("f32", "u8")), s), d.rng.integers(-s[axis], s[axis], few), axis=axis)
    if op.startswith("Reduce"):
        axes = [a for a in range(len(s)) if d.of((0, 1))]
        return case(op, text("f32", s), *([ints(*axes)] if axes else []), keepdims=d.of((0, 1)), low=0.5, high=1)
    if op == "STFT":
        frame = d.of((64, 100, 256))
        return case(
            op,
            text("f32", [1, d.of((1000, 4000)), 1]),
            np.array(d.of((frame // 2, frame // 4))),
            np.hanning(frame).astype(np.float32),
            np.array(frame),
            onesided=d.of((0, 1)),
        )
    if op == "DFT":
        n = d.of((16, 31, 64, 100, 128, 240, 512, 1000))
        pair = d.of((1, 2))
        return case(
            op,
            text("f32", [d.of((1, 4, 33)), n, pair]),
            opset=20,
            onesided=d.of((0, 1)) if pair == 1 else 0,
            inverse=0 if pair == 1 else d.of((0, 1)),
        )
    if op == "MelWeightMatrix":
        return case(op, np.array(d.of((8, 40, 80))), np.array(d.of((256, 512))), np.array(16000), floats(0)[0], floats(8000)[0])
    if op.endswith("Window"):
        return case(op, np.array(d.of((64, 400, 10000))), periodic=d.of((0, 1)))
    if op == "TfIdfVectorizer":
        return case(
            op,
            text("i64", [d.of((1, 7, 64)), d.of((10, 100))]),
            low=0,
            high=20,
            max_gram_length=2,
            max_skip_count=d.of((0, 1, 3)),
            min_gram_length=1,
            mode=d.of(("TF", "IDF", "TFIDF")),
            ngram_counts=[0, 5],
            ngram_indexes=list(range(10)),
            pool_int64s=[2, 3, 5, 4, 7, 5, 6, 7, 8, 6, 7, 2, 3, 9, 9],
            weights=[0.5] * 10,
        )
    if op == "CumSum":
        return case(op, text(d.of(("f32", "i64")), s), np.array(axis), reverse=d.of((0, 1)), exclusive=d.of((0, 1)))
    if op == "TopK":
        return case(
            op,
            text("f32", s),
            ints(min(s[axis], d.of((1, 5, 40)))),
            axis=axis,
            largest=d.of((0, 1)),
            outputs=2,
            low=-(10**6),
            high=10**6,
        )
    if op == "Unique":
        return (
            case(op, text(d.of(("f32", "i64")), s), axis=axis, outputs=4, low=0, high=1)
            if d.of((0, 1))
            else case(op, text("i64", s), outputs=4, low=0, high=99)
        )
    if op == "NonZero":
        return case(op, text("f32", s), low=-1, high=1)
    if op == "GatherND":
        return case(op, text("f32", s), d.rng.integers(0, s[0], (max(1, s[0] // 2), 1)))
    if op == "OneHot":
        return case(
            op, text("i64", [d.of((1, 30, 300))]), np.array(d.of((3, 16, 255))), floats(0, 1), axis=d.of((0, -1)), low=-3, high=5
        )
    if op == "EyeLike":
        return case(op, text("f32", [d.of((5, 64)), d.of((7, 64))]), k=d.of((-1, 0, 2)))
    if op == "Range":
        return case(op, scalar(0, np.int64), scalar(d.of((10, 1000)), np.int64), scalar(d.of((1, 3)), np.int64))
    if op == "Trilu":
        s = d.shape((2, 3), 30, 200_000)
        return case(op, text(d.of(("f32", "i64", "bool")), s), np.array(d.of((-1, 0, 1))), low=0, upper=d.of((0, 1)))
    if op in ("Det", "Inverse"):
        n = d.of((1, 2, 3, 8, 33))
        return (case if op == "Det" else own)(op, text("f32", [d.of((1, 5)), n, n]), low=-1, high=1)
    if op == "TensorScatter":
        return case(op, "f32 2x4x64x16", "f32 2x4x3x16", ints(5, 20), opset=24, mode=d.of(("linear", "circular")))
    if op == "ReverseSequence":
        return case(op, "f32 20x4x33", ints(3, 20, 7, 1), batch_axis=1, time_axis=0)
    if op == "CDist":
        return own(
            op, text("f32", [d.of((3, 40)), 16]), text("f32", [d.of((5, 64)), 16]), metric=d.of(("euclidean", "sqeuclidean"))
        )
    if op == "LinearAttention":
        return own(
            op, *[text("f32", [1, d.of((1, 9)), 64])] * 3, None, q_num_heads=4, kv_num_heads=4, update_rule="linear", outputs=2
        )
    if op == "MoE":
        e, h, i = 4, d.of((32, 64)), d.of((64, 128))
        rows = d.of((1, 7, 40))
        return own(
            op,
            text("f32", [rows, h]),
            text("f32", [rows, e]),
            d.weights(e, i, h),
            d.weights(e, i),
            d.weights(e, h, i),
            d.weights(e, h),
            k=d.of((1, 2)),
            activation_type=d.of(("relu", "gelu", "silu")),
        )
    if op == "BiasSoftmax":
        return own(op, "f32 2x4x16x16", "f32 2x1x16x16", axis=3, is_inner_broadcast=0)
    if op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        return case(op, "f32 16x10", d.rng.integers(0, 10, 16), reduction=d.of(("mean", "sum", "none")))
    return case("Hardmax", text("f32", s), axis=axis)
