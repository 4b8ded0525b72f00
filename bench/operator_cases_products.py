"""Cases of operators.py that multiply: products, convolutions, pools."""

import itertools

import numpy as np
from operator_cases import IMAGE, case, floats, weights


def products():
    shapes = (
        ("256x512", "512x512"),
        ("1x2048", "2048x2048"),
        ("2048x2048", "2048x1"),
        ("64x128x64", "64x64x128"),
        ("8x12x128x64", "8x12x64x128"),
        ("8x128x256", "256x256"),
        ("512x17", "17x513"),
        ("4096", "4096x512"),
        ("16x1x64x64", "1x16x64x64"),
        ("512x3", "3x4096"),
        ("100000x4", "4x4"),
    )
    for (a, b), kind in itertools.product(shapes, ("f32", "f64", "f16", "i32", "i64")):
        yield case("MatMul", f"{kind} {a}", f"{kind} {b}")
        if kind == "f32":
            yield case("MatMul", f"f32 {a}", weights(*map(int, b.split("x"))))
    for a, b, kind in itertools.product((0, 1), (0, 1), ("f32", "f64", "f16")):
        left, right = "512x256" if a else "256x512", "384x512" if b else "512x384"
        yield case("Gemm", f"{kind} {left}", f"{kind} {right}", f"{kind} 384", transA=a, transB=b, alpha=0.5, beta=2.0)
    for b in ("u8", "i8"):
        zero = np.array(3, np.uint8), np.array(0, np.dtype(f"{'u' if b == 'u8' else ''}int8"))
        yield case("MatMulInteger", "u8 256x512", f"{b} 512x512", *zero, low=0, high=100)
        yield case("MatMulInteger", "u8 256x512", weights(512, 512, kind=zero[1].dtype), *zero, low=0, high=100)
        yield case(
            "QLinearMatMul",
            "u8 256x512",
            floats(0.1),
            zero[0].reshape(1),
            weights(512, 512, kind=zero[1].dtype),
            floats(0.1),
            zero[1].reshape(1),
            floats(5),
            zero[0].reshape(1),
            low=0,
            high=100,
        )
    for equation, a, b in (
        ("bij,bjk->bik", "16x128x128", "16x128x128"),
        ("bhid,bhjd->bhij", "4x8x128x64", "4x8x128x64"),
        ("bhwc,hkc->bhwk", "4x32x32x64", "32x32x64"),
        ("ij,kj->ik", "512x256", "384x256"),
        ("i,j->ij", "1024", "1024"),
        ("bchw,bc->bhw", "8x64x56x56", "8x64"),
        ("bnchw,bmchw->bnm", "4x8x16x16x16", "4x8x16x16x16"),
        ("nctw,cd->ndtw", "8x64x56x56", "64x96"),
        ("ijk,jil->kl", "64x64x64", "64x64x64"),
        ("bi,bi->b", "4096x384", "4096x384"),
    ):
        yield case("Einsum", f"f32 {a}", f"f32 {b}", equation=equation)
    yield case("Einsum", "f32 64x160x160", equation="bii->bi")
    yield case("Det", "f32 256x32x32")


def convolutions():
    def conv(x, w, op="Conv", bias=True, **attributes):
        kind = {"f32": np.float32, "f16": np.float16, "f64": np.float64}[x[:3]]
        channels = w[0] if op == "Conv" else w[1] * attributes.get("group", 1)
        return case(op, x, weights(*w, kind=kind), weights(channels, kind=kind) if bias else None, **attributes)

    for kind in ("f32", "f16"):
        yield conv(f"{kind} 4x64x56x56", (64, 64, 3, 3), pads=[1] * 4)
        yield conv(f"{kind} 4x64x56x56", (128, 64, 1, 1))
        yield conv(f"{kind} 4x64x56x56", (64, 1, 3, 3), group=64, pads=[1] * 4)
        yield conv(f"{kind} 4x32x28x28", (32, 16, 4, 4), op="ConvTranspose", strides=[2, 2], pads=[1] * 4)
    two_d = (
        ((64, 64, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ((64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        ((64, 16, 3, 3), {"pads": [1] * 4, "group": 4}),
        ((64, 2, 3, 3), {"pads": [1] * 4, "group": 32}),
        ((128, 1, 3, 3), {"pads": [1] * 4, "group": 64}),
        ((64, 1, 7, 7), {"pads": [3] * 4, "group": 64}),
        ((64, 1, 5, 5), {"pads": [2] * 4, "group": 64, "strides": [2, 2]}),
        ((64, 1, 3, 3), {"pads": [4] * 4, "group": 64, "dilations": [4, 4]}),
        ((64, 64, 1, 7), {"pads": [0, 3, 0, 3]}),
        ((64, 64, 7, 1), {"pads": [3, 0, 3, 0]}),
        ((3, 64, 3, 3), {"pads": [1] * 4}),
        ((65, 64, 3, 3), {"pads": [0, 1, 2, 1]}),
        ((64, 64, 5, 5), {"pads": [2] * 4}),
        ((64, 64, 2, 2), {"strides": [2, 2]}),
        ((64, 1, 31, 31), {"pads": [15] * 4, "group": 64}),
        ((1, 64, 1, 1), {}),
        ((64, 64, 1, 1), {"strides": [2, 2]}),
    )
    for w, attributes in two_d:
        yield conv("f32 4x64x56x56", w, **attributes)
    for x, w, attributes in (
        ("4x3x224x224", (64, 3, 7, 7), {"pads": [3] * 4, "strides": [2, 2]}),
        ("4x1x224x224", (32, 1, 3, 3), {"pads": [1] * 4}),
        ("4x3x224x224", (96, 3, 16, 16), {"strides": [16, 16]}),
        ("4x17x40x40", (31, 17, 3, 3), {"pads": [1] * 4}),
    ):
        yield conv(f"f32 {x}", w, **attributes)
    for w, attributes in (
        ((256, 256, 3), {"pads": [1, 1]}),
        ((256, 256, 1), {}),
        ((256, 1, 31), {"pads": [15, 15], "group": 256}),
        ((256, 128, 9), {"pads": [4, 4], "group": 2}),
        ((256, 256, 3), {"pads": [4, 4], "dilations": [4]}),
        ((1, 256, 7), {"pads": [3, 3]}),
    ):
        yield conv("f32 2x256x400", w, **attributes)
    yield conv("f32 1x1x160000", (512, 1, 10), strides=[5])
    yield conv("f32 1x512x1600", (512, 512, 3), strides=[2])
    for w, attributes in (
        ((32, 16, 3, 3, 3), {"pads": [1] * 6}),
        ((32, 16, 1, 1, 1), {}),
        ((16, 1, 3, 3, 3), {"pads": [1] * 6, "group": 16}),
        ((32, 16, 1, 3, 3), {"pads": [0, 1, 1] * 2}),
        ((32, 16, 3, 1, 1), {"pads": [1, 0, 0] * 2}),
    ):
        yield conv("f32 1x16x16x32x32", w, **attributes)
    for x, w, attributes in (
        ("4x64x28x28", (64, 32, 2, 2), {"strides": [2, 2]}),
        ("4x64x28x28", (64, 32, 3, 3), {"strides": [2, 2], "pads": [1] * 4}),
        ("4x64x28x28", (64, 1, 4, 4), {"strides": [2, 2], "pads": [1] * 4, "group": 64}),
        ("2x256x200", (256, 128, 16), {"strides": [8], "pads": [4, 4]}),
        ("4x64x28x28", (64, 64, 3, 3), {"pads": [1] * 4}),
        ("1x16x8x16x16", (16, 8, 2, 2, 2), {"strides": [2, 2, 2]}),
        ("1x512x400", (512, 1, 1024), {"strides": [256]}),
    ):
        yield conv(f"f32 {x}", w, op="ConvTranspose", **attributes)
    for kind in (np.uint8, np.int8):
        zero = np.array(1, kind)
        for w, attributes in (
            ((64, 64, 3, 3), {"pads": [1] * 4}),
            ((64, 1, 3, 3), {"pads": [1] * 4, "group": 64}),
            ((128, 64, 1, 1), {}),
        ):
            w = weights(*w, kind=kind)
            yield case("ConvInteger", "u8 4x64x56x56", w, np.array(3, np.uint8), zero, low=0, high=200, **attributes)
            yield case(
                "QLinearConv",
                "u8 4x64x56x56",
                floats(0.1).reshape(()),
                np.array(3, np.uint8),
                w,
                floats(0.1).reshape(()),
                zero,
                floats(9).reshape(()),
                np.array(3, np.uint8),
                low=0,
                high=200,
                **attributes,
            )
    yield case("DeformConv", "f32 1x64x28x28", weights(64, 64, 3, 3), "f32 1x18x28x28", opset=22, pads=[1] * 4, low=-1, high=1)


def pools():
    for op, attributes in itertools.product(
        ("MaxPool", "AveragePool", "LpPool"),
        (
            {"kernel_shape": [2, 2], "strides": [2, 2]},
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
            {"kernel_shape": [3, 3], "pads": [1] * 4},
            {"kernel_shape": [5, 5], "pads": [2] * 4},
            {"kernel_shape": [13, 13], "pads": [6] * 4},
        ),
    ):
        yield case(op, f"f32 {IMAGE}", **attributes)
    for op, kind in (
        ("MaxPool", "u8"),
        ("MaxPool", "i8"),
        ("MaxPool", "f16"),
        ("MaxPool", "f64"),
        ("AveragePool", "f16"),
        ("AveragePool", "f64"),
    ):
        yield case(op, f"{kind} {IMAGE}", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for op in ("MaxPool", "AveragePool"):
        yield case(op, "f32 8x64x3136", kernel_shape=[3], strides=[2])
        yield case(op, "f32 2x32x16x32x32", kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6)
        yield case(op, f"f32 {IMAGE}", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        yield case(op, f"f32 {IMAGE}", kernel_shape=[3, 3], dilations=[2, 2])
    yield case("MaxPool", f"f32 {IMAGE}", kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    yield case("AveragePool", f"f32 {IMAGE}", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    for op, kind in itertools.product(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), ("f32", "f16", "f64")):
        yield case(op, f"{kind} {IMAGE}")
    yield case(
        "MaxUnpool", "f32 8x64x28x28", np.arange(8 * 64 * 28 * 28).reshape(8, 64, 28, 28) * 4, kernel_shape=[2, 2], strides=[2, 2]
    )
    yield case("MaxRoiPool", "f32 1x64x56x56", floats(*([0, 4, 4, 40, 40] * 64)).reshape(64, 5), pooled_shape=[7, 7])


FAMILIES = (products, convolutions, pools)
