"""Cases of operators.py that move, choose and sort elements."""

import itertools

import numpy as np
from operator_cases import IMAGE, ROWS, case, floats, ints

KINDS = ("f32", "u8", "f16", "i64")


def layouts():
    perms = ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0), (2, 0, 3, 1))
    for perm, kind in itertools.product(perms, KINDS):
        yield case("Transpose", f"{kind} {IMAGE}", perm=list(perm))
    for perm in ((1, 0),):
        yield from (case("Transpose", f"{kind} {ROWS}", perm=list(perm)) for kind in KINDS)
    yield case("Transpose", "f32 4x8x8x8x8x12x16", perm=[0, 3, 1, 5, 2, 4, 6])
    yield case("Transpose", "f32 1024x3x512", perm=[0, 2, 1])
    yield case("Transpose", "f32 8x12544x3", perm=[0, 2, 1])
    for axis, kind in itertools.product((0, 1, 2, 3), KINDS):
        yield case("Concat", *[f"{kind} 8x32x56x56"] * 2, axis=axis)
        yield case("Split", f"{kind} {IMAGE}", axis=axis, num_outputs=4, outputs=4)
    yield case("Concat", *[f"f32 4096x{n}" for n in (1, 3, 64, 17)], axis=1)
    yield case("Concat", *["f32 64x64x16"] * 24, axis=2)
    yield case("Split", "f32 4096x384", ints(1, 127, 256), axis=1, outputs=3)
    for op, mode, kind in itertools.product(("DepthToSpace",), ("DCR", "CRD"), KINDS):
        yield case(op, f"{kind} {IMAGE}", blocksize=2, mode=mode)
    for kind in KINDS:
        yield case("SpaceToDepth", f"{kind} {IMAGE}", blocksize=2)
        yield case("Reshape", f"{kind} {IMAGE}", ints(8, -1))
        yield case("Expand", f"{kind} 8x64x1x1", ints(8, 64, 56, 56))
        yield case("Expand", f"{kind} 1x56x56", ints(8, 64, 56, 56))
        yield case("Expand", f"{kind} 8x64x56x1", ints(8, 64, 56, 56))
        yield case("Tile", f"{kind} 8x16x56x28", ints(1, 4, 1, 2))
        yield case("Tile", f"{kind} 4096x3", ints(1, 128))
        yield case("Trilu", f"{kind} 64x160x160", upper=0)
    for mode, kind in itertools.product(("constant", "edge", "reflect", "wrap"), KINDS):
        yield case("Pad", f"{kind} {IMAGE}", ints(0, 0, 1, 1, 0, 0, 1, 1), mode=mode)
    yield case("Pad", f"f32 {IMAGE}", ints(0, 3, 0, 0, 0, 5, 0, 0))
    yield case("Pad", f"f32 {IMAGE}", ints(0, 0, -3, 0, 0, 0, -5, -1))
    yield case("CenterCropPad", f"f32 {IMAGE}", ints(48, 64), axes=[2, 3])


def slices():
    for kind in KINDS:
        for begin, end, axes, steps in (
            (ints(1), ints(55), ints(3), ints(1)),
            (ints(0, 0), ints(56, 56), ints(2, 3), ints(2, 2)),
            (ints(-1), ints(-1000), ints(3), ints(-1)),
            (ints(-1), ints(-1000), ints(2), ints(-1)),
            (ints(-1), ints(-1000), ints(1), ints(-1)),
            (ints(1), ints(64), ints(1), ints(3)),
            (ints(2), ints(7), ints(0), ints(1)),
            (ints(0), ints(56), ints(3), ints(5)),
        ):
            yield case("Slice", f"{kind} {IMAGE}", begin, end, axes, steps)
    yield case("Slice", "f32 4096x3x128", ints(1), ints(2), ints(1))


def gathers():
    rng = np.random.default_rng(2)
    for axis, kind in itertools.product((0, 1, 2, 3), KINDS):
        yield case("Gather", f"{kind} {IMAGE}", rng.integers(0, 8, 32), axis=axis)
    for kind in KINDS:
        yield case("Gather", f"{kind} 30000x64", "i64 8x512", axis=0, low=0, high=9999)
        yield case("Gather", f"{kind} 4096x384", np.array(7), axis=1)
        yield case("GatherElements", f"{kind} {ROWS}", "i64 4096x384", axis=1, low=0, high=200)
        yield case("GatherElements", f"{kind} {ROWS}", "i64 4096x384", axis=0, low=0, high=200)
        yield case("GatherND", f"{kind} 512x512x8", "i64 100000x2", low=0, high=511 if kind != "u8" else 200)
        yield case("GatherND", f"{kind} 64x64x64", "i64 200000x3", low=0, high=63)
        yield case(
            "ScatterElements",
            f"{kind} {ROWS}",
            rng.permuted(np.tile(np.arange(384), (4096, 1)), axis=1),
            f"{kind} {ROWS}",
            axis=1,
        )
        yield case("ScatterElements", f"{kind} {ROWS}", rng.integers(0, 4096, (512, 384)), f"{kind} 512x384", axis=0)
        yield case("ScatterND", f"{kind} 4096x384", rng.permutation(4096)[:2048, None], f"{kind} 2048x384")
        yield case("ScatterND", f"{kind} 512x512", rng.integers(0, 512, (50000, 2)), f"{kind} 50000")
    for reduction, kind in itertools.product(("add", "max", "mul"), ("f32", "i64")):
        yield case(
            "ScatterElements", f"{kind} {ROWS}", rng.integers(0, 384, (4096, 384)), f"{kind} {ROWS}", axis=1, reduction=reduction
        )
        yield case(
            "ScatterElements", f"{kind} {ROWS}", rng.integers(0, 384, (4096, 384)), f"{kind} {ROWS}", axis=0, reduction=reduction
        )
        yield case("ScatterND", f"{kind} 4096x384", rng.integers(0, 4096, (4096, 1)), f"{kind} {ROWS}", reduction=reduction)
    yield case("OneHot", "i64 4096", np.array(512), floats(0, 1), axis=-1, low=0, high=511)
    yield case("OneHot", "i64 64x64", np.array(256), floats(0, 1), axis=1, low=0, high=255)
    yield case("ArrayFeatureExtractor", f"f32 {ROWS}", ints(3, 7, 100), domain="ai.onnx.ml")


def sparse():
    for kind in ("f32", "bool", "i64", "u8"):
        yield case("NonZero", f"{kind} {IMAGE}", low=-1, high=1)
    yield case("Compress", f"f32 {IMAGE}", np.arange(64) % 3 == 0, axis=1)
    yield case("Compress", f"f32 {IMAGE}", "bool 1605632")
    for kind, kept in itertools.product(("f32", "i64", "u8"), (0, 1)):
        yield case("Unique", f"{kind} 400000", sorted=kept, outputs=4, low=0, high=200)
    yield case("Unique", "i64 200000", outputs=4, low=0, high=10**9)
    yield case("Unique", "i64 20000x3", axis=0, outputs=4, low=0, high=9)
    yield case("ReverseSequence", "f32 256x64x96", np.full(64, 200), batch_axis=1, time_axis=0)
    yield case("Range", np.array(0), np.array(10**6), "i64", low=1, high=1)
    yield case("ConstantOfShape", "i64 2", low=1024, high=1024)
    yield case("EyeLike", "f32 1024x1024")
    yield case("RandomNormalLike", f"f32 {IMAGE}", seed=1.0)
    yield case("RandomUniformLike", f"f32 {IMAGE}", seed=1.0)
    yield case("Bernoulli", f"f32 {IMAGE}", seed=1.0, low=0, high=1)
    yield case("Multinomial", "f32 256x1000", sample_size=20, seed=1.0, low=0)
    yield case("Binarizer", f"f32 {ROWS}", domain="ai.onnx.ml", threshold=0.5)
    yield case("Imputer", f"f32 {ROWS}", domain="ai.onnx.ml", imputed_value_floats=[0.0], replaced_value_float=1.0)
    yield case(
        "LabelEncoder",
        "i64 4096x64",
        domain="ai.onnx.ml",
        keys_int64s=list(range(8)),
        values_floats=[float(i) for i in range(8)],
        default_float=-1.0,
        low=0,
        high=9,
    )
    yield case("OneHotEncoder", "i64 4096x16", domain="ai.onnx.ml", cats_int64s=list(range(8)), zeros=1, low=0, high=7)


def resizes():
    empty = np.array([], np.float32)
    for mode, scale, how in itertools.product(
        ("nearest", "linear", "cubic"), (2.0, 0.5, 1.3), ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    ):
        yield case("Resize", "f32 4x32x64x64", empty, floats(1, 1, scale, scale), mode=mode, coordinate_transformation_mode=how)
    for mode, kind in itertools.product(("nearest", "linear"), ("u8", "f16", "i8", "i32")):
        yield case("Resize", f"{kind} 4x32x64x64", empty, floats(1, 1, 2, 2), mode=mode)
    for mode in ("nearest", "linear", "cubic"):
        yield case("Resize", "f32 4x128x128x8", empty, floats(1, 2, 2, 1), mode=mode)
        yield case("Resize", "f32 8x64x2048", empty, floats(1, 1, 2), mode=mode)
    for mode in ("nearest", "linear"):
        yield case("Resize", "f32 1x16x24x32x32", empty, floats(1, 1, 2, 2, 2), mode=mode)
        yield case("Resize", "f32 4x32x64x64", empty, floats(1, 1, 0.4, 0.4), mode=mode, antialias=int(mode == "linear"))
    yield case("Upsample", "f32 4x32x64x64", floats(1, 1, 2, 2), mode="linear", opset=9)


def quantised():
    scale, by_channel = floats(0.05).reshape(()), np.full(64, 0.05, np.float32)
    for kind, target in itertools.product(("f32", "f16"), (np.uint8, np.int8)):
        own = scale.astype({"f32": np.float32, "f16": np.float16}[kind])
        yield case("QuantizeLinear", f"{kind} {IMAGE}", own, np.array(1, target))
        yield case("DequantizeLinear", f"{'u8' if target == np.uint8 else 'i8'} {IMAGE}", own, np.array(1, target))
    for axis in (1,):
        yield case("QuantizeLinear", f"f32 {IMAGE}", by_channel, np.ones(64, np.uint8), axis=axis)
        yield case("DequantizeLinear", f"u8 {IMAGE}", by_channel, np.ones(64, np.uint8), axis=axis)
    yield case(
        "QuantizeLinear",
        f"f32 {ROWS}",
        np.full((4096, 12), 0.05, np.float32),
        np.ones((4096, 12), np.uint8),
        axis=1,
        block_size=32,
    )
    yield case(
        "DequantizeLinear",
        f"u8 {ROWS}",
        np.full((4096, 12), 0.05, np.float32),
        np.ones((4096, 12), np.uint8),
        axis=1,
        block_size=32,
    )
    yield case("DequantizeLinear", "i32 8x64x56x56", scale)
    yield case("DynamicQuantizeLinear", f"f32 {IMAGE}", outputs=3)
    yield case("DynamicQuantizeLinear", f"f32 {ROWS}", outputs=3)


def large():
    """Results of 25 and 103 MB, which the system would hand out as new pages at each run."""
    for shape in ("8x64x112x112", "8x64x224x224"):
        yield case("Relu", f"f32 {shape}")
        yield case("Add", f"f32 {shape}", f"f32 {shape}")
        yield case("Transpose", f"f32 {shape}", perm=[0, 2, 3, 1])
        yield case("Split", f"f32 {shape}", axis=1, num_outputs=2, outputs=2)
    yield case("Concat", "f32 8x32x112x112", "f32 8x32x112x112", axis=1)
    yield case("Resize", "f32 8x64x56x56", np.zeros(0, np.float32), floats(1, 1, 2, 2), mode="nearest")


FAMILIES = (layouts, slices, gathers, sparse, resizes, quantised, large)
