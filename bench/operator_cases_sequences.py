"""Cases of operators.py of sequences, images, signals and trees."""
import itertools

import numpy as np
from operator_cases import ROWS, case, floats, ints, weights


def sequences():
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, size, hidden, ways in (
            (50, 1, 128, 128, 1),
            (50, 8, 128, 256, 1),
            (100, 1, 80, 256, 2),
            (1, 1, 256, 256, 1),
        ):
            attributes = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "forward"}
            yield case(
                op,
                f"f32 {steps}x{batch}x{size}",
                weights(ways, gates * hidden, size),
                weights(ways, gates * hidden, hidden),
                weights(ways, 2 * gates * hidden),
                outputs=2,
                **attributes,
            )
    yield case(
        "GRU",
        "f32 50x8x128",
        weights(1, 768, 128),
        weights(1, 768, 256),
        weights(1, 1536),
        outputs=2,
        hidden_size=256,
        linear_before_reset=1,
    )
    for heads, length, width in ((8, 128, 64), (4, 1024, 32), (16, 1, 64)):
        yield case(
            "Attention", f"f32 2x{heads}x{length}x{width}", f"f32 2x{heads}x512x{width}", f"f32 2x{heads}x512x{width}", opset=23
        )
    yield case("RotaryEmbedding", "f32 2x8x512x64", "f32 2x512x32", "f32 2x512x32", opset=23)


def images():
    for mode, padding in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection")):
        yield case("GridSample", "f32 2x32x64x64", "f32 2x64x64x2", mode=mode, padding_mode=padding, low=-1, high=1)
    yield case("GridSample", "f32 1x8x16x32x32", "f32 1x16x32x32x3", mode="linear", low=-1, high=1)
    yield case("AffineGrid", "f32 8x2x3", ints(8, 3, 224, 224))
    boxes = (
        np.sort(np.random.default_rng(4).uniform(0, 50, (256, 2, 2)), axis=1).reshape(256, 4)[:, [0, 1, 2, 3]].astype(np.float32)
    )
    for mode in ("avg", "max"):
        yield case(
            "RoiAlign",
            "f32 1x64x56x56",
            boxes,
            np.zeros(256, np.int64),
            output_height=7,
            output_width=7,
            sampling_ratio=2,
            mode=mode,
        )
    many = np.sort(np.random.default_rng(4).uniform(0, 1, (1, 4000, 2, 2)), axis=2).reshape(1, 4000, 4).astype(np.float32)
    yield case("NonMaxSuppression", many, "f32 1x4x4000", ints(200), floats(0.5), floats(0.6), low=0, high=1)
    yield case("Col2Im", "f32 4x288x3136", ints(56, 56), ints(3, 3), pads=[1] * 4)


def signals():
    yield case("DFT", "f32 64x1024x1", opset=20, onesided=1)
    yield case("DFT", "f32 64x1000x2", opset=20)
    yield case("DFT", "f32 64x1009x2", opset=20)
    yield case("DFT", "f32 16x64x256x2", None, np.array(1), opset=20)
    yield case("STFT", "f32 4x16000x1", np.array(160), np.hanning(400).astype(np.float32), np.array(400), onesided=1)
    yield case("HannWindow", np.array(400000))
    yield case("MelWeightMatrix", np.array(80), np.array(1024), np.array(16000), floats(0)[0], floats(8000)[0])


def trees():
    """128 trees of depth 7 over 32 features."""
    rng, depth, count = np.random.default_rng(5), 7, 128
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    leaf = np.arange(nodes) >= inner
    each = {
        "nodes_nodeids": np.arange(nodes),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_truenodeids": np.where(leaf, 0, 2 * np.arange(nodes) + 1),
        "nodes_falsenodeids": np.where(leaf, 0, 2 * np.arange(nodes) + 2),
    }
    attributes = {k: np.tile(v, count).tolist() for k, v in each.items()}
    attributes.update(
        nodes_treeids=np.repeat(np.arange(count), nodes).tolist(),
        nodes_featureids=rng.integers(0, 32, count * nodes).tolist(),
        nodes_values=rng.uniform(-3, 3, count * nodes).astype(float).tolist(),
    )
    at = [(t, n) for t in range(count) for n in range(inner, nodes)]
    values = rng.uniform(0, 1, len(at)).tolist()
    regress = {
        "target_treeids": [t for t, _ in at],
        "target_nodeids": [n for _, n in at],
        "target_ids": [0] * len(at),
        "target_weights": values,
    }
    classes = {
        "class_treeids": [t for t, _ in at],
        "class_nodeids": [n for _, n in at],
        "class_ids": [i % 3 for i in range(len(at))],
        "class_weights": values,
    }
    for rows in (1, 2000):
        yield case("TreeEnsembleRegressor", f"f32 {rows}x32", domain="ai.onnx.ml", n_targets=1, **attributes, **regress)
        yield case(
            "TreeEnsembleClassifier",
            f"f32 {rows}x32",
            domain="ai.onnx.ml",
            outputs=2,
            classlabels_int64s=[0, 1, 2],
            **attributes,
            **classes,
        )
    yield case(
        "LinearClassifier",
        "f32 4096x32",
        domain="ai.onnx.ml",
        outputs=2,
        coefficients=weights(96).tolist(),
        intercepts=[0.1, 0.2, 0.3],
        classlabels_ints=[0, 1, 2],
    )
    yield case("LinearRegressor", f"f32 {ROWS}", domain="ai.onnx.ml", coefficients=weights(384).tolist(), intercepts=[0.1])
    yield case(
        "SVMRegressor",
        "f32 1000x32",
        domain="ai.onnx.ml",
        kernel_type="RBF",
        kernel_params=[0.1, 0.0, 3.0],
        n_supports=200,
        rho=[0.1],
        coefficients=weights(200).tolist(),
        support_vectors=weights(200 * 32).tolist(),
    )


FAMILIES = (sequences, images, signals, trees)
