"""Random cases of operators.py of one operator each in forms that the other draws leave out: no elements, no axes and six axes,
uneven parts, seldom attributes, recurrent networks in every form, ONNX Runtime's operators with all inputs."""

import math

import numpy as np
from operator_cases import case, floats, ints, scalar, words
from operator_cases_draw import ANY, drawn, text
from operator_cases_odd_draw import REALS, WHOLE, dtype, shape
from operator_cases_odd_more import images, microsoft, products, recurrent


def pointwise(d):
    op = d.of(
        words(
            "Add Sub Mul Div Max Min Equal Less Where And Xor Mod BitShift BitwiseOr Pow Sum Cast Clip PRelu CastLike Sign Round"
        )
    )
    s = shape(d)
    a, b, c = ([1 if d.of((0, 0, 1)) and e else e for e in s][int(d.of((0, 0, 0, len(s) // 2))) :] for _ in range(3))
    kind = d.of((*REALS, *WHOLE))
    if op in ("And", "Xor"):
        return case(op, text("bool", a), text("bool", b))
    if op in ("Equal", "Where") and d.of((0, 0, 1)):
        kind = "bool"
    if op == "Where":
        return case(op, text("bool", a), text(kind, b), text(kind, c), low=0)
    if op == "Mod":
        return case(op, text(kind, a), text(kind, b), low=1, fmod=1 if kind[0] == "f" else d.of((0, 1)))
    if op in ("BitShift", "BitwiseOr"):
        kind = d.of(("u8", "u16", "u32", "u64") if op == "BitShift" else WHOLE)
        more = {"direction": d.of(("LEFT", "RIGHT"))} if op == "BitShift" else {}
        return case(op, text(kind, a), text(kind, b), low=0, **more)
    if op == "Pow":
        kind, power = d.of(("f32", "f32", "i32", "i64", "f64")), d.of(("f32", "f32", "i32", "i64", "f64"))
        return case(op, text(kind, a), d.of((text(power, b), scalar(3, dtype(power)), scalar(2, dtype(power)))), low=1)
    if op in ("Max", "Min", "Sum"):
        kind = kind if op != "Sum" else d.of(REALS)
        return case(op, *[text(kind, v) for v in (a, b, c)[: d.of((1, 2, 3))]], low=0)
    if op == "Cast":
        return case(op, text(d.of(ANY), s), to=d.of((1, 10, 2, 3, 5, 6, 7, 9, 11, 12, 13)), low=0)
    if op == "CastLike":
        return case(op, text(d.of(ANY), s), text(d.of(ANY), [1]), low=0)
    if op == "Clip":
        return case(op, text(kind, s), d.of((None, scalar(1, dtype(kind)))), d.of((None, scalar(2, dtype(kind)))), low=0)
    if op == "PRelu":
        return case(op, text("f32", s), text("f32", [1 if d.of((0, 1)) else e for e in s]))
    if op in ("Sign", "Round"):
        return case(op, text(kind if op == "Sign" else d.of(REALS), s))
    return case(op, text(kind, a), text(kind, b), low=1)


def reductions(d):
    op = d.of(
        words(
            "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceLogSum "
            "ReduceSumSquare ArgMax ArgMin Softmax LogSoftmax CumSum TopK LpNormalization"
        )
    )
    s = shape(d, (1, 2, 3, 4, 5, 6))
    axis = d.axis(s)
    if op in ("ArgMax", "ArgMin"):
        s = [max(e, 1) for e in s]
        return case(
            op,
            text(d.of((*REALS, "i8", "u8", "i32", "i64")), s),
            axis=axis - d.of((0, len(s))),
            keepdims=d.of((0, 1)),
            select_last_index=d.of((0, 1)),
        )
    if op in ("Softmax", "LogSoftmax"):
        return case(op, text(d.of(REALS), s), axis=axis, opset=d.of((11, 13, 21)))
    if op == "CumSum":
        return case(op, text(d.of(("f32", "f64", "i32", "i64")), s), np.array(axis), exclusive=d.of((0, 1)), reverse=d.of((0, 1)))
    if op == "TopK":
        k = min(s[axis], d.of((1, 2, 7, 30)))
        return case(
            op,
            text(d.of((*REALS, "i8", "u8", "i32", "i64")), s),
            ints(k),
            axis=axis,
            largest=d.of((0, 1)),
            outputs=2,
            low=-(10**6) if k else 0,
            high=10**6,
        )
    if op == "LpNormalization":
        return case(op, text(d.of(("f32", "f64")), s), axis=axis, p=d.of((1, 2)))
    kind = d.of((*REALS, "i32", "i64", *(["i8", "u8"] if op in ("ReduceMax", "ReduceMin") else [])))
    if op.startswith("ReduceLog"):
        kind = d.of(REALS)
    if op in ("ReduceMax", "ReduceMin"):
        s = [max(e, 1) for e in s]
        kind = d.of((kind, kind, "bool"))
    axes = [a - d.of((0, len(s))) for a in range(len(s)) if d.of((0, 1))]
    return case(
        op,
        text(kind, s),
        *([ints(*axes)] if axes or d.of((0, 1)) else []),
        keepdims=d.of((0, 1)),
        noop_with_empty_axes=d.of((0, 1)),
        low=0.5 if kind[0] == "f" else 0,
        high=1.5 if kind[0] == "f" else 2,
    )


def movement(d):
    op = d.of(
        words(
            "Slice Concat Split Pad Tile Expand Transpose Gather GatherElements GatherND ScatterND "
            "ScatterElements OneHot NonZero Compress Trilu EyeLike ReverseSequence Squeeze Flatten Range Unique "
            "SpaceToDepth CenterCropPad"
        )
    )
    s, kind = shape(d, (1, 2, 3, 4, 5, 6)), d.of(ANY)
    axis = d.axis(s)
    if op == "Slice":
        axes = [a for a in range(len(s)) if d.of((0, 1))] or [axis]
        steps = [d.of((1, 1, 2, 3, -1, -2)) for _ in axes]
        begin = [d.of((0, 1, s[a] // 3)) if st > 0 else d.of((-1, -2)) for a, st in zip(axes, steps)]
        end = [d.of((-1, s[a], 2**62)) if st > 0 else d.of((0, -(2**62))) for a, st in zip(axes, steps)]
        return case(op, text(kind, s), ints(*begin), ints(*end), ints(*axes), ints(*steps))
    if op == "Concat":
        parts = [[d.of((0, 1, 2, 5, 17)) if a == axis else e for a, e in enumerate(s)] for _ in range(d.of((1, 2, 5, 30)))]
        return case(op, *[text(kind, p) for p in parts], axis=axis)
    if op == "Split":
        n = d.of((2, 3))
        if s[axis] >= n and (s[axis] - 1) // -(-s[axis] // n) + 1 == n:
            return case(op, text(kind, s), axis=axis, num_outputs=n, outputs=n)
        return case(op, text(kind, s), ints(s[axis] // 2, 0, s[axis] - s[axis] // 2), axis=axis, outputs=3)
    if op == "Pad":
        axes = [a for a in range(len(s)) if d.of((0, 1))] or [axis]
        mode = d.of(("constant", "edge", "reflect", "wrap"))
        high = [min(4, max(s[a] - 1, 0)) if mode in ("reflect", "wrap") else 4 for a in axes]
        if 0 in s and mode != "constant":
            mode = "constant"
        pads = ints(*(int(d.rng.integers(0, h + 1)) for h in (*high, *high)))
        value = [scalar(1, dtype(kind))] if mode == "constant" and d.of((0, 1)) else [None]
        return case(op, text(kind, s), pads, *value, ints(*axes), mode=mode)
    if op == "Tile":
        times = [d.of((1, 1, 2, 3)) for _ in s]
        return case(op, text(kind, s), ints(*times))
    if op == "Expand":
        return case(op, text(kind, [1 if d.of((0, 1)) else e for e in s][d.of((0, 0, len(s) // 2)) :]), ints(*s))
    if op == "Transpose":
        return case(op, text(kind, s), perm=[int(v) for v in d.rng.permutation(len(s))])
    if op in ("Gather", "GatherElements", "ReverseSequence", "ScatterElements", "ScatterND", "OneHot", "Trilu", "Unique"):
        s = [max(e, 1) for e in s]
    if op == "Gather":
        at = d.of(([], [1], [7], [3, 40], [2, 0]))
        return case(op, text(kind, s), np.asarray(d.rng.integers(-s[axis], s[axis], at), d.of((np.int32, np.int64))), axis=axis)
    if op == "GatherElements":
        few = [e if a == axis else max(1, e - d.of((0, 1))) for a, e in enumerate(s)]
        return case(op, text(kind, s), np.asarray(d.rng.integers(-s[axis], s[axis], few), d.of((np.int32, np.int64))), axis=axis)
    if op == "GatherND":
        s = [d.of((1, 3, 8)), d.of((4, 30)), d.of((1, 16, 33)), d.of((1, 9, 64))]
        batch, depth = d.of((0, 1, 2)), d.of((1, 2))
        at = np.stack([d.rng.integers(-e, e, (*s[:batch], d.of((5,)))) for e in s[batch : batch + depth]], -1)
        return case(op, text(kind, s), at, batch_dims=batch)
    if op == "ScatterND":
        depth = d.of([n for n in (1, 2, 3) if n <= len(s)])
        at = np.stack([d.rng.integers(0, e, 40) for e in s[:depth]], -1)
        at = np.unique(at, axis=0)
        kind = d.of(("f32", "f64", "f16", "i64", "i32", "u8"))
        return case(
            op, text(kind, s), at, text(kind, [len(at), *s[depth:]]), reduction=d.of(("none", "add", "mul", "min", "max")), low=0
        )
    if op == "ScatterElements":
        few = [max(1, e // d.of((1, 2))) for e in s]
        at = np.argsort(d.rng.random(few), axis)
        kind = d.of(("f32", "f64", "f16", "i64", "i32", "u8", "bool"))
        reduction = "none" if kind == "bool" else d.of(("none", "add", "mul", "min", "max"))
        return case(op, text(kind, s), at - s[axis] * d.of((0, 1)), text(kind, few), axis=axis, reduction=reduction, low=0)
    if op == "OneHot":
        kind, s = d.of(("i64", "i32", "f32")), s[:3]
        return case(
            op,
            text(kind, s),
            ints(d.of((1, 5, 33))),
            d.of((floats(0, 1), ints(2, 3))),
            axis=d.of((-1, 0, len(s))),
            low=-3,
            high=4,
        )
    if op == "NonZero":
        return case(op, text(d.of(("f32", "i64", "bool", "u8", "i32")), s), low=0, high=1)
    if op == "Compress":
        n = s[axis] if d.of((0, 1)) else math.prod(s)
        more = {"axis": axis} if n == s[axis] else {}
        return case(op, text(kind, s), text("bool", [max(n - d.of((0, 1)), 0)]), low=0, **more)
    if op == "Trilu":
        s = s if len(s) > 1 else [3, *s]
        return case(op, text(kind, s), scalar(d.of((-70, -1, 0, 2, 70)), np.int64), upper=d.of((0, 1)))
    if op == "EyeLike":
        return case(
            op,
            text(d.of(("f32", "i64", "i32", "f64")), [d.of((1, 5, 200)), d.of((1, 7, 333))]),
            k=d.of((-2, 0, 3)),
            dtype=d.of((1, 7, 11)),
        )
    if op == "ReverseSequence":
        s = s if len(s) > 1 else [*s, 7]
        time = d.of((0, 1))
        return case(op, text(kind, s), d.rng.integers(1, s[time] + 1, s[1 - time]), batch_axis=1 - time, time_axis=time)
    if op == "Squeeze":
        return case(op, text(kind, [1, *s, 1]), ints(0, -1))
    if op == "Flatten":
        return case(op, text(kind, s), axis=d.of((0, axis, len(s))))
    if op == "Range":
        to = d.of((np.float32, np.int32, np.int64, np.float64))
        return case(op, scalar(d.of((0, 5)), to), scalar(d.of((9, 4000)), to), scalar(d.of((1, 3)), to))
    if op == "Unique":
        kind = d.of(("f32", "i64", "f64", "i8"))
        return case(op, text(kind, s), outputs=4, low=0, high=3, sorted=1, **({"axis": axis} if d.of((0, 1)) else {}))
    if op == "SpaceToDepth":
        r = d.of((2, 3))
        return case(
            op,
            text(d.of(("f32", "f64", "u8", "f16")), [d.of((1, 2)), d.of((1, 3, 16)), r * d.of((1, 5, 16)), r * d.of((3, 20))]),
            blocksize=r,
        )
    return case(op, text(d.of(("f32", "i32", "u8", "f64")), s), ints(*(d.of((e + 3, max(e - 2, 1))) for e in s)))


KINDS = (
    pointwise,
    pointwise,
    reductions,
    reductions,
    movement,
    movement,
    movement,
    products,
    recurrent,
    images,
    images,
    microsoft,
)


def odd_cases(count, seed):
    """So many cases, one kind after the other. No two are alike."""
    return drawn(KINDS, count, seed)
