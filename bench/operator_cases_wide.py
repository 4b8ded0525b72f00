"""Cases of operators.py where forms are many: every order of axes, broadcasts over many of them, indices of tuples, operators of
newer opsets and of ONNX Runtime's own domain."""

import itertools

import numpy as np
from operator_cases import IMAGE, ROWS, case, floats, ints, weights

# Extents whose products are about a million elements, none of them alike.
EXTENTS = {3: (64, 96, 160), 4: (16, 24, 40, 64), 5: (8, 12, 16, 20, 32)}


def permutations():
    """Every order of three to five axes that moves elements, elements of 1, 2, 4 and 8 bytes (over three axes: one size each)."""
    kinds = ("u8", "f16", "f32", "i64")
    for rank, extents in EXTENTS.items():
        text = "x".join(map(str, extents))
        orders = [p for p in itertools.permutations(range(rank)) if p != tuple(range(rank))]
        for i, perm in enumerate(orders):
            for kind in kinds if rank == 3 else (kinds[i % 4],):
                yield case("Transpose", f"{kind} {text}", perm=list(perm))


def broadcasts():
    """Operands whose axes of 1 lie anywhere among four and five axes."""
    for rank, extents in ((4, EXTENTS[4]), (5, EXTENTS[5])):
        full = "x".join(map(str, extents))
        for mask in range(1, 2**rank - 1, 1 if rank == 4 else 3):
            other = "x".join("1" if mask >> a & 1 else str(e) for a, e in enumerate(extents))
            yield case("Add", f"f32 {full}", f"f32 {other}")
        flipped = "x".join("1" if a % 2 else str(e) for a, e in enumerate(extents))
        crossed = "x".join(str(e) if a % 2 else "1" for a, e in enumerate(extents))
        for op, kind in itertools.product(("Mul", "Less"), ("f32", "f16", "i64", "u8")):
            yield case(op, f"{kind} {flipped}", f"{kind} {crossed}", low=0)
        yield case("Where", f"bool {flipped}", f"f32 {crossed}", f"f32 {full}")
        yield case("Where", f"bool {full}", f"f32 {flipped}", "f32 1")
        yield case("Expand", f"f32 {flipped}", ints(*extents))


def tuples():
    """Gathering and scattering by tuples of indices, with slices of all lengths."""
    for kind in ("f32", "u8", "i64"):
        for data, indices, high in (
            ("64x64x256", "20000x2", 63),
            ("4096x384", "8192x1", 4095 if kind != "u8" else 255),
            ("8x56x56x64", "400x2", 7),
        ):
            yield case("GatherND", f"{kind} {data}", f"i64 {indices}", low=0, high=high)
        yield case("GatherND", f"{kind} 64x128x256", "i64 64x200x1", batch_dims=1, low=0, high=127)
    rng = np.random.default_rng(6)
    for kind, reduction in itertools.product(("f32", "i64", "u8"), ("none", "add", "max")):
        rows = rng.permutation(4096)[:2048].reshape(-1, 1)
        yield case("ScatterND", f"{kind} {ROWS}", rows, f"{kind} 2048x384", reduction=reduction)
        spots = np.stack([rng.permutation(512)[np.arange(100000) % 512], np.arange(100000) // 200], 1)
        yield case("ScatterND", f"{kind} 512x512", spots, f"{kind} 100000", reduction=reduction)
    for axis in (0, 1, 2):
        yield case("Compress", f"u8 {IMAGE}", np.arange((8, 64, 56)[axis]) % 2 == 0, axis=axis)
    for kind, axis in itertools.product(("i64", "i32"), (-1, 0, 1)):
        yield (
            case("OneHot", f"{kind} 4096", np.array(384), floats(0, 1), axis=axis, low=0, high=383)
            if axis < 1
            else case("OneHot", f"{kind} 64x64", np.array(384), floats(0, 1), axis=1, low=0, high=383)
        )
    for kind, upper in itertools.product(("f32", "f16", "bool"), (0, 1)):
        yield case("Trilu", f"{kind} 64x160x160", np.array(3), upper=upper)


def recent():
    """Operators of opsets 22 to 24 in their forms."""
    for causal, kv in itertools.product((0, 1), (8, 2)):
        yield case("Attention", "f32 2x8x128x64", f"f32 2x{kv}x128x64", f"f32 2x{kv}x128x64", opset=23, is_causal=causal)
    heads = {"q_num_heads": 8, "kv_num_heads": 8}
    yield case("Attention", *["f32 2x128x512"] * 3, opset=23, **heads)
    yield case("Attention", *["f32 2x128x512"] * 3, "f32 128x128", opset=23, **heads)
    yield case("Attention", *["f32 2x128x512"] * 3, "bool 128x128", opset=23, **heads)
    yield case("Attention", *["f32 2x8x128x64"] * 3, opset=23, softcap=20.0)
    yield case(
        "Attention", "f32 2x8x1x64", "f32 2x8x1x64", "f32 2x8x1x64", None, "f32 2x8x511x64", "f32 2x8x511x64", opset=23, outputs=3
    )
    for way in (0, 1):
        yield case("RotaryEmbedding", "f32 2x8x512x64", "f32 2x512x32", "f32 2x512x32", opset=23, interleaved=way)
        yield case("RotaryEmbedding", "f32 2x512x512", "f32 2x512x32", "f32 2x512x32", opset=23, num_heads=8, interleaved=way)
    yield case("Swish", f"f32 {IMAGE}", opset=24)
    for axis in (1, 2, 3):
        yield case("RMSNormalization", f"f32 {IMAGE}", "f32 " + "x".join(("64", "56", "56")[axis - 1 :]), opset=23, axis=axis)
        yield case("LayerNormalization", f"f32 {IMAGE}", "f32 " + "x".join(("64", "56", "56")[axis - 1 :]), axis=axis)
    for groups in (1, 32, 64):
        yield case("GroupNormalization", f"f32 {IMAGE}", "f32 64", "f32 64", num_groups=groups)
    yield case("GroupNormalization", "f32 4x64x8x16x16", "f32 64", "f32 64", num_groups=8)
    yield case("GroupNormalization", "f32 4x64x3136", "f32 64", "f32 64", num_groups=8)


def recurrences():
    """Small and large cells, with lengths of each sequence, with peepholes, batch first."""
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, size, hidden, lengths in (
            (20, 4, 16, 16, True),
            (1, 1, 16, 16, False),
            (50, 8, 128, 128, True),
            (10, 32, 256, 512, False),
        ):
            yield case(
                op,
                f"f32 {steps}x{batch}x{size}",
                weights(1, gates * hidden, size),
                weights(1, gates * hidden, hidden),
                weights(1, 2 * gates * hidden),
                np.arange(steps - batch + 1, steps + 1, dtype=np.int32).clip(1) if lengths else None,
                outputs=2,
                hidden_size=hidden,
            )


def microsoft():
    """ONNX Runtime's own operators, as its optimisers and quantizers write them."""

    def own(op, *inputs, **attributes):
        return case(op, *inputs, domain="com.microsoft", **attributes)

    yield own("FusedMatMul", "f32 8x12x128x64", "f32 8x12x128x64", transB=1, alpha=0.125)
    yield own("FusedMatMul", "f32 256x512", weights(384, 512), transB=1)
    yield own("FusedMatMul", "f32 512x256", weights(512, 384), transA=1)
    yield own("FusedGemm", "f32 256x512", weights(512, 384), weights(384), activation="Relu")
    yield own("FusedConv", "f32 4x64x56x56", weights(64, 64, 3, 3), weights(64), pads=[1] * 4, activation="Relu")
    yield own("BiasGelu", f"f32 {ROWS}", "f32 384")
    yield own("FastGelu", f"f32 {ROWS}", "f32 384")
    yield own("QuickGelu", f"f32 {ROWS}")
    yield own("Gelu", f"f32 {ROWS}")
    yield own("SkipLayerNormalization", "f32 8x512x384", "f32 8x512x384", "f32 384", "f32 384", "f32 384")
    yield own("SkipSimplifiedLayerNormalization", "f32 8x512x384", "f32 8x512x384", "f32 384")
    yield own("MultiHeadAttention", *["f32 2x128x512"] * 3, num_heads=8)
    yield own("MultiHeadAttention", *["f32 2x128x512"] * 3, "f32 1536", num_heads=8)
    yield own("Attention", "f32 2x128x512", weights(512, 1536), weights(1536), num_heads=8)
    yield own("RotaryEmbedding", "f32 2x8x512x64", "i64 1", "f32 1024x32", "f32 1024x32", low=0, high=2)
    rng = np.random.default_rng(8)
    four = rng.integers(0, 255, (512, 512 // 32, 16)).astype(np.uint8)
    for rows in (1, 128):
        yield own("MatMulNBits", f"f32 {rows}x512", four, weights(512 * 16), K=512, N=512, bits=4, block_size=32)
    scale, zero = floats(0.05).reshape(()), np.array(3, np.uint8)
    for op in ("QLinearAdd", "QLinearMul"):
        yield own(op, f"u8 {IMAGE}", scale, zero, f"u8 {IMAGE}", scale, zero, scale, zero)
        yield own(op, f"u8 {IMAGE}", scale, zero, "u8 1x64x1x1", scale, zero, scale, zero)
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        yield own(op, f"u8 {IMAGE}", scale, zero, scale, zero)
    yield own("QLinearGlobalAveragePool", f"u8 {IMAGE}", scale, zero, scale, zero)
    yield own("QLinearAveragePool", f"u8 {IMAGE}", scale, zero, scale, zero, kernel_shape=[3, 3], strides=[2, 2])
    yield own(
        "DynamicQuantizeMatMul", "f32 256x512", weights(512, 384, kind=np.uint8), floats(0.1).reshape(()), np.array(3, np.uint8)
    )
    yield own("MatMulIntegerToFloat", "u8 256x512", weights(512, 384, kind=np.uint8), scale, scale, zero, zero, low=0, high=200)


FAMILIES = (permutations, broadcasts, tuples, recent, recurrences, microsoft)
