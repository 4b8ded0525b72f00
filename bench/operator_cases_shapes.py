"""Cases of operators.py at shapes that no kernel was made for: odd extents, ranks of 1 to 6, last axes of 2 or 3 elements,
axes in the middle, axes of 1 anywhere. About a million elements each, and no extent is a multiple of 8."""

import itertools

import numpy as np
from operator_cases import case, floats, ints, weights

RANKS = ("1000003", "1021x1027", "101x103x99", "31x33x35x29", "7x17x9x31x31", "5x7x9x11x13x23")
# Few elements lie side by side: the last axis is short, or of 1.
THIN = ("350003x3", "65537x2x7", "333x1001x3", "1021x1027x1", "33x31x5x199x1")
# An axis, and extents around it.
AXES = (
    ("1021x1027", 0),
    ("101x103x99", 1),
    ("101x103x99", 0),
    ("31x33x35x29", 2),
    ("7x17x9x31x31", 2),
    ("5x7x9x11x13x23", 3),
    ("65537x2x7", 1),
    ("350003x3", 1),
    ("333x1001x3", 1),
    ("3x350003", 0),
    ("2x65537x7", 1),
    ("1000003", 0),
)
SCALE, ZERO = floats(0.05).reshape(()), np.array(3, np.uint8)


def extents(text):
    return [int(d) for d in text.split("x")]


def odd_pointwise():
    for shape in (*RANKS, *THIN):
        for op in ("Relu", "Gelu", "Sigmoid", "Exp", "Erf"):
            yield case(op, f"f32 {shape}")
        yield case("Add", f"f32 {shape}", f"f32 {shape}")
        yield case("Cast", f"f32 {shape}", to=7)
        yield case("Where", f"bool {shape}", f"f32 {shape}", f"f32 {shape}")
        for op in ("QLinearAdd", "QLinearMul"):
            yield case(op, f"u8 {shape}", SCALE, ZERO, f"u8 {shape}", SCALE, ZERO, SCALE, ZERO, domain="com.microsoft")
        yield case("QuantizeLinear", f"f32 {shape}", SCALE, ZERO)
        yield case("DequantizeLinear", f"u8 {shape}", SCALE, ZERO)
    for kind, shape in itertools.product(("f32", "f16", "f64"), ("1021x1027", "350003x3")):
        yield case("Gelu", f"{kind} {shape}")
        yield case("Gelu", f"{kind} {shape}", approximate="tanh")


def odd_broadcasts():
    """Each axis alone kept or left out by the second operand."""
    for shape in ("1021x1027", "101x103x99", "31x33x35x29", "7x17x9x31x31", "333x1001x3"):
        full = extents(shape)
        for axis in range(len(full)):
            kept = "x".join(str(e) if a == axis else "1" for a, e in enumerate(full))
            left = "x".join("1" if a == axis else str(e) for a, e in enumerate(full))
            for other in (kept, left):
                yield case("Mul", f"f32 {shape}", f"f32 {other}")
                yield case(
                    "QLinearAdd", f"u8 {shape}", SCALE, ZERO, f"u8 {other}", SCALE, ZERO, SCALE, ZERO, domain="com.microsoft"
                )
                yield case("Greater", f"i64 {other}", f"i64 {shape}")


def odd_axes():
    for shape, axis in AXES:
        size = extents(shape)[axis]
        for op in ("Softmax", "LogSoftmax", "ArgMax"):
            yield case(op, f"f32 {shape}", axis=axis)
        for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp"):
            yield case(op, f"f32 {shape}", ints(axis), low=0.5, high=1.1)
        yield case("ReduceSum", f"i64 {shape}", ints(axis))
        yield case("CumSum", f"f32 {shape}", np.array(axis))
        yield case("LpNormalization", f"f32 {shape}", axis=axis)
        if size >= 3:
            yield case("TopK", f"f32 {shape}", ints(3), axis=axis, outputs=2, low=-(10**6), high=10**6)
        yield case("Concat", f"f32 {shape}", f"f32 {shape}", axis=axis)
        yield case("Gather", f"f32 {shape}", np.arange(size - 1, -1, -1), axis=axis)
        yield case("Slice", f"f32 {shape}", ints(1), ints(size), ints(axis))
        yield case("Slice", f"f32 {shape}", ints(0), ints(size), ints(axis), ints(2))
        if axis and len(extents(shape)) > 1:
            yield case("QuantizeLinear", f"f32 {shape}", np.full(size, 0.05, np.float32), np.ones(size, np.uint8), axis=axis)
            yield case("DequantizeLinear", f"u8 {shape}", np.full(size, 0.05, np.float32), np.ones(size, np.uint8), axis=axis)
        pads = np.zeros(2 * len(extents(shape)), np.int64)
        pads[axis] = 1
        yield case("Pad", f"f32 {shape}", pads)


def odd_norms():
    """Every axis that a norm may begin at."""
    for shape in ("1021x1027", "101x103x99", "31x33x35x29", "333x1001x3", "350003x3", "7x17x9x31x31"):
        full = extents(shape)
        for axis in range(1, len(full)):
            scale = "x".join(map(str, full[axis:]))
            yield case("LayerNormalization", f"f32 {shape}", f"f32 {scale}", f"f32 {scale}", axis=axis)
            yield case("RMSNormalization", f"f32 {shape}", f"f32 {scale}", opset=23, axis=axis)
    for shape in ("31x33x1029", "5x33x85x75", "3x33x9x35x33", "1025x33x31", "4001x255"):
        channels = extents(shape)[1]
        pair = f"f32 {channels}", f"f32 {channels}"
        yield case("BatchNormalization", f"f32 {shape}", *pair, *pair, low=0.5)
        if shape.count("x") > 1:
            yield case("InstanceNormalization", f"f32 {shape}", *pair)
            yield case("GroupNormalization", f"f32 {shape}", *pair, num_groups=3)
            yield case("LRN", f"f32 {shape}", size=3)


def odd_windows():
    for channels, size in ((3, 223), (17, 85), (33, 37), (129, 13)):
        image = f"f32 3x{channels}x{size}x{size - 2}"
        for op in ("MaxPool", "AveragePool"):
            yield case(op, image, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
            yield case(op, image, kernel_shape=[2, 3], ceil_mode=1)
        yield case("GlobalAveragePool", image)
        for w, more in (
            ((31, channels, 3, 3), {"pads": [1] * 4}),
            ((65, channels, 1, 1), {}),
            ((channels, 1, 3, 3), {"group": channels, "pads": [1] * 4}),
            ((13, channels, 5, 3), {"strides": [3, 2]}),
        ):
            yield case("Conv", image, weights(*w), weights(w[0]), **more)
            if w[0] != 13:
                yield case("ConvTranspose", image, weights(channels, w[0] // more.get("group", 1), *w[2:]), **more)
        for mode in ("nearest", "linear"):
            yield case("Resize", image, floats(), None, ints(3, channels, 2 * size + 1, size), mode=mode)


def odd_products():
    for a, b in (
        ("1x1023", "1023x1001"),
        ("7x1023", "1023x1001"),
        ("333x129", "129x255"),
        ("1001x3", "3x1001"),
        ("1001x1023", "1023x1"),
        ("33x7x129", "33x129x15"),
        ("3x5x77x33", "3x5x33x77"),
        ("20001x5", "5x7"),
        ("1023", "1023x1001"),
        ("2001x33", "33x2"),
        ("25x2047", "2047x1023"),
        ("3x49x515", "515x129"),
    ):
        for kind in ("f32", "f16"):
            yield case("MatMul", f"{kind} {a}", f"{kind} {b}")
        yield case("MatMul", f"f32 {a}", weights(*extents(b)))
        if a.count("x") == 1 and b.count("x") == 1:
            yield case("MatMulInteger", f"u8 {a}", weights(*extents(b), kind=np.int8), np.array(3, np.uint8), low=0, high=100)
            yield case("Gemm", f"f32 {a}", weights(*extents(b)[::-1]), weights(extents(b)[1]), transB=1)


def shallow_products():
    """Outer products, and others of few elements to a sum."""
    for a, b in (
        ("2x17x1", "1x65537"),
        ("1000x1", "1x1001"),
        ("65537x1", "1x3"),
        ("257x2", "2x1000"),
        ("2x1000x3", "2x3x257"),
        ("1000x3", "3x1001"),
        ("65537x3", "3x4"),
        ("8x1000x2", "8x2x100"),
        ("33x5", "5x4097"),
        ("1000x15", "15x257"),
    ):
        for kind in ("f32", "f16"):
            yield case("MatMul", f"{kind} {a}", f"{kind} {b}")
            if a.count("x") == 1:
                n = extents(b)[1]
                yield case("Gemm", f"{kind} {a}", f"{kind} {n}x{extents(b)[0]}", f"{kind} {n}", transB=1)


def short_rows():
    """Operands that repeat along or around rows of 1 to 31 elements."""
    for n in (2, 3, 5, 8, 15, 16, 31):
        rows = 400_000 // n
        row, one = f"{rows}x{n}", f"{rows}x1"
        for kind in ("f32", "u8", "i64"):
            yield case("Where", f"bool {one}", f"{kind} {row}", f"{kind} {row}", low=0)
            yield case("Greater", f"{kind} {row}", f"{kind} {one}", low=0)
        yield case("Add", f"f32 {one}", f"f32 {row}")
        yield case("Mul", f"f16 {row}", f"f16 1x{n}")
        yield case("Where", f"bool 16x1x31x{n}", "u8 16x1x31x1", f"u8 16x63x31x{n}", low=0)
        yield case("LessOrEqual", f"f64 16x63x1x{n}", f"f64 16x1x15x{n}")


def narrow_casts():
    """Of bools, and to bools."""
    for shape in ("17x33x31", "65537x3"):
        for to in (1, 2, 3, 6, 7, 10, 11):
            yield case("Cast", f"bool {shape}", to=to)
        for kind in ("f32", "f16", "f64", "u8", "i8", "i32", "i64"):
            yield case("Cast", f"{kind} {shape}", to=9, low=0)
    for shape, axis in (("33x129x2", 1), ("4097x8", 1), ("31x257x5", 1), ("257x17x63", 0)):
        yield case("Hardmax", f"f32 {shape}", axis=axis)


FAMILIES = (
    odd_pointwise,
    odd_broadcasts,
    odd_axes,
    odd_norms,
    odd_windows,
    odd_products,
    shallow_products,
    short_rows,
    narrow_casts,
)
