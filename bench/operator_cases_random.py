"""Cases of operators.py whose extents nobody chose: drawn by a seed out of sizes around registers, powers of two and primes.

One to five axes; about 20,000 to 2 million elements, of one case in six at most 5,000, or products of some hundred thousand to
some ten million. Types are all that ONNX Runtime has kernels of, f32 in half of the cases."""

import math

import numpy as np
from onnx import helper
from operator_cases import TYPES, case, floats, ints, words
from operator_cases_draw import ANY, FLOATS, INTEGERS, Draw, text
from operator_cases_random_products import convolution, product, quantized, window

UNARY = words(
    "Abs Ceil Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Softplus "
    "Softsign Tanh ThresholdedRelu Not IsNaN Clip"
)
BINARY = words("Add Sub Mul Div Max Min Pow PRelu Greater LessOrEqual Equal And Mod BitwiseAnd")
REDUCTIONS = words(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"
)


def unary(d):
    op, s = d.of(UNARY), d.shape()
    kind = (
        "bool"
        if op == "Not"
        else d.of((*FLOATS, *INTEGERS) if op in ("Abs", "Relu", "Neg", "Sign", "Clip") else FLOATS)
    )
    dtype = helper.tensor_dtype_to_np_dtype(TYPES[kind])
    extra = (np.array(0 if kind[0] == "u" else -1, dtype), np.array(2, dtype)) if op == "Clip" else ()
    return case(op, text(kind, s), *extra, low=0.1)


def binary(d):
    op, s = d.of(BINARY), d.shape()
    kind = (
        "bool"
        if op == "And"
        else d.of(INTEGERS)
        if op in ("BitwiseAnd", "Mod")
        else d.of(("f32", "f64"))
        if op in ("Pow", "PRelu")
        else d.of((*FLOATS, *INTEGERS))
    )
    a, b = list(s), list(s)
    for i in range(len(s)):
        match d.of((0, 0, 1, 2)):
            case 1 if op != "PRelu" and math.prod(a) // a[i] * 20 > math.prod(s):
                a[i] = 1
            case 2:
                b[i] = 1
    return case(op, text(kind, a), text(kind, b), low=1)


def where(d):
    s = d.shape()
    ones = [[1 if d.of((0, 0, 1)) else e for e in s] for _ in range(2)]
    kind = d.of(ANY)
    return case("Where", text("bool", ones[0]), text(kind, ones[1]), text(kind, s), low=0)


def cast(d):
    return case(
        "Cast",
        text(d.of(ANY), d.shape()),
        to=d.of((1, 10, 2, 3, 5, 6, 7, 9, 11)),
        low=0,
    )


def reduction(d):
    op, s = d.of(REDUCTIONS), d.shape()
    kind = d.of(
        {
            "ReduceMax": (*FLOATS, *INTEGERS),
            "ReduceMin": (*FLOATS, *INTEGERS),
        }.get(op, ("f32", "f32", "f64", "i32", "i64"))
    )
    axes = [a for a in range(len(s)) if d.of((0, 1))] or [d.axis(s)]
    return case(
        op, text(kind, s), ints(*axes), low=0.5 if kind[0] == "f" else 0, high=1.1 if kind[0] == "f" else 3, keepdims=d.of((0, 1))
    )


def along(d):
    op, s = d.of(words("Softmax LogSoftmax Hardmax ArgMax ArgMin CumSum TopK LpNormalization")), d.shape()
    axis, kind = d.axis(s), d.of(("f32", "f32", "f64", "i32"))
    if op == "CumSum":
        return case(op, text(kind, s), np.array(axis), reverse=d.of((0, 0, 1)), exclusive=d.of((0, 0, 1)))
    if op in ("ArgMax", "ArgMin"):
        return case(op, text(d.of((kind, "u8", "f16", "i8")), s), axis=axis, select_last_index=d.of((0, 0, 1)))
    if op == "TopK":
        count = min(s[axis], d.of((1, 3, 3, 10, 100)))
        x = text(d.of(("f32", "f32", "i64", "i32", "f64")), s)
        return case(op, x, ints(count), axis=axis, outputs=2, low=-(10**6), high=10**6)
    return case(op, text(d.of(("f32", "f32", "f64", "f16")), s), axis=axis)


def norm(d):
    op = d.of(words("LayerNormalization RMSNormalization BatchNormalization InstanceNormalization GroupNormalization LRN"))
    if op in ("LayerNormalization", "RMSNormalization"):
        s = d.shape((2, 3, 4))
        axis = 1 + int(d.rng.integers(len(s) - 1))
        scale = text("f32", s[axis:])
        return (
            case(op, text("f32", s), scale, scale, axis=axis)
            if op[0] == "L"
            else case(op, text("f32", s), scale, opset=23, axis=axis)
        )
    s = d.image(channels=3 if op[0] == "G" else None)
    pair = [text("f32", s[1:2])] * 2
    if op == "LRN":
        return case(op, text("f32", s), size=3)
    return case(
        op, text("f32", s), *pair, *(pair if op[0] == "B" else ()), low=0.5, **({"num_groups": 3} if op[0] == "G" else {})
    )


def movement(d):
    op = d.of(words("Transpose Concat Split Slice Pad Expand Tile Gather GatherElements Reverse"))
    s, kind = d.shape((2, 3, 4, 5)), d.of(ANY)
    axis = d.axis(s)
    x = text(kind, s)
    if op == "Transpose":
        return case(op, x, perm=[int(v) for v in d.rng.permutation(len(s))])
    if op == "Concat":
        return case(op, x, x, axis=axis)
    if op == "Split" and s[axis] > 1:
        return case(op, x, ints(1, s[axis] - 1), axis=axis, outputs=2)
    if op == "Pad":
        return case(op, x, ints(*d.rng.integers(0, 3, 2 * len(s))), mode=d.of(("constant", "edge")))
    if op == "Expand":
        return case(op, text(kind, [1 if d.of((0, 1)) else e for e in s]), ints(*s))
    if op == "Tile":
        return case(op, x, ints(*(2 if i == axis else 1 for i in range(len(s)))))
    if op == "Gather":
        return case(op, x, d.rng.integers(0, s[axis], max(1, s[axis] // 2)), axis=axis)
    if op == "GatherElements":
        return case(op, x, d.rng.integers(0, s[axis], s), axis=axis)
    step = -1 if op == "Reverse" else d.of((1, 2))
    begin, end = (s[axis], -s[axis] - 1) if step < 0 else (min(1, s[axis] - 1), s[axis])
    return case("Slice", x, ints(begin), ints(end), ints(axis), ints(step))


def selection(d):
    op, s = d.of(words("NonZero Compress Unique OneHot Trilu ScatterElements ScatterND GatherND")), d.shape((1, 2, 3))
    kind = d.of(("f32", "bool", "i64", "u8", "i32"))
    axis = d.axis(s)
    if op == "NonZero":
        return case(op, text(kind, s), low=-1 if kind == "f32" else 0, high=1)
    if op == "Compress":
        if d.of((0, 1)):
            return case(op, text(kind, s), text("bool", [math.prod(s)]), low=0)
        return case(op, text(kind, s), text("bool", [s[axis]]), axis=axis, low=0)
    if op == "Unique":
        return case(op, text("i64", [min(math.prod(s), 200_000)]), outputs=4, low=0, high=d.of((200, 10**9)))
    if op == "OneHot":
        n = d.of((3, 16, 255))
        return case(op, text("i64", d.shape((1, 2), 300, 5000)), np.array(n), floats(0, 1), axis=d.of((0, -1)), low=0, high=n - 1)
    if op == "Trilu":
        return case(op, text(d.of(ANY), d.shape((2, 3))), upper=d.of((0, 1)))
    if op == "ScatterElements":
        order = np.argsort(d.rng.random(s), axis)
        return case(op, text(kind, s), order, text(kind, s), axis=axis, low=0)
    if op == "ScatterND":
        rows = d.rng.permutation(s[0])[: max(1, s[0] // 2), None]
        return case(op, text(kind, s), rows, text(kind, [len(rows), *s[1:]]), low=0)
    return case("GatherND", text(kind, s), d.rng.integers(0, s[0], (max(1, s[0] // 2), 1)))


def learned(d):
    """ai.onnx.ml"""
    own = {"domain": "ai.onnx.ml"}
    op = d.of(
        words(
            "LinearClassifier LinearClassifier LinearRegressor SVMRegressor SVMClassifier Scaler Normalizer Imputer Binarizer "
            "OneHotEncoder LabelEncoder ArrayFeatureExtractor"
        )
    )
    rows, features, classes = d.of((1, 7, 255, 4097)), d.of((3, 4, 7, 15, 33, 129, 257)), d.of((2, 3, 7, 17))
    x = text("f32", [rows, features])
    of = d.of(("NONE", "SOFTMAX", "LOGISTIC"))
    if op == "LinearClassifier":
        return case(
            op,
            x,
            outputs=2,
            coefficients=d.weights(classes * features).tolist(),
            intercepts=d.weights(classes).tolist(),
            classlabels_ints=list(range(classes)),
            post_transform=of,
            **own,
        )
    if op == "LinearRegressor":
        return case(
            op,
            x,
            coefficients=d.weights(classes * features).tolist(),
            intercepts=d.weights(classes).tolist(),
            targets=classes,
            **own,
        )
    svm = {"kernel_type": d.of(("LINEAR", "RBF", "POLY")), "kernel_params": [0.1, 0.0, 3.0]}
    if op == "SVMRegressor":
        return case(
            op,
            text("f32", [min(rows, 1000), features]),
            n_supports=63,
            rho=[0.1],
            coefficients=d.weights(63).tolist(),
            support_vectors=d.weights(63 * features).tolist(),
            **svm,
            **own,
        )
    if op == "SVMClassifier":
        n = 9
        return case(
            op,
            text("f32", [min(rows, 1000), features]),
            outputs=2,
            classlabels_ints=list(range(classes)),
            vectors_per_class=[n] * classes,
            support_vectors=d.weights(n * classes * features).tolist(),
            coefficients=d.weights((classes - 1) * n * classes).tolist(),
            rho=d.weights(classes * (classes - 1) // 2).tolist(),
            **svm,
            **own,
        )
    if op == "Scaler":
        return case(op, x, offset=d.weights(features).tolist(), scale=d.weights(features).tolist(), **own)
    if op == "Normalizer":
        return case(op, x, norm=d.of(("L1", "L2", "MAX")), **own)
    if op == "Imputer":
        return case(op, x, imputed_value_floats=[0.5], replaced_value_float=1.0, **own)
    if op == "Binarizer":
        return case(op, x, threshold=0.5, **own)
    if op == "OneHotEncoder":
        return case(op, text("i64", [rows, features]), cats_int64s=list(range(classes)), zeros=1, low=0, high=classes - 1, **own)
    if op == "LabelEncoder":
        return case(
            op,
            text("i64", [rows, features]),
            keys_int64s=list(range(classes)),
            values_floats=[float(c) for c in range(classes)],
            default_float=-1.0,
            low=0,
            high=classes,
            **own,
        )
    return case(op, x, ints(*d.rng.integers(0, features, 3)), **own)


KINDS = (
    unary,
    binary,
    where,
    cast,
    reduction,
    reduction,
    along,
    along,
    norm,
    movement,
    movement,
    quantized,
    quantized,
    product,
    product,
    convolution,
    convolution,
    window,
    selection,
    learned,
)


def random_cases(count, seed):
    """So many cases, one kind after the other. No two are alike."""
    d, seen = Draw(seed), set()
    while len(seen) < count:
        c = KINDS[len(seen) % len(KINDS)](d)
        if c.name not in seen:
            seen.add(c.name)
            yield c
