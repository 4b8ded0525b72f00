"""Operators whose sizes follow from values that only a run knows run by kernels, whatever the values become from run to run."""
import json

import numpy as np
import onnx
import onnxruntime
import pytest
import smelt
from onnx import TensorProto, helper

KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "float64": TensorProto.DOUBLE}
RNG = np.random.default_rng(1)
X = RNG.standard_normal((40, 30, 20)).astype(np.float32)
I = np.array   # noqa: E741

# By operator: what its inputs are in the first run and in those behind it, and its attributes.
CASES = {
    "Range": ([(I(0), I(5000), I(1)), (I(7), I(90000), I(2)), (I(5), I(9), I(1)), (I(7), I(90000), I(2))], {}),
    "ConstantOfShape": ([(I([70, 80]),), (I([3]),), (I([0, 9]),), (I([1000, 30]),)], {}),
    "Expand": ([(X[:, :, :1], I([40, 30, 50])), (X[:, :, :1], I([2, 40, 30, 7]))], {}),
    "Tile": ([(X, I([1, 2, 1])), (X, I([2, 1, 3]))], {}),
    "Slice": ([(X, I([0]), I([35])), (X, I([3]), I([40])), (X, I([3]), I([3]))], {}),
    "Pad": ([(X, I([0, 1, 2, 3, 4, 5])), (X, I([1, 0, 0, 0, 0, 0]))], {}),
    "TopK": ([(X, I([5])), (X, I([20]))], {"outputs": 2}),
    "OneHot": ([(I(range(200)) % 90, I(100), I([0.0, 1.0], np.float32)), (I(range(200)) % 90, I(64), I([2.0, 1.0], np.float32))], {}),
    "Resize": ([(X[None], None, None, I([1, 40, 60, 40])),
                (X[None], None, None, I([1, 40, 11, 50]))], {"mode": "linear"}),
    "AffineGrid": ([(X[:4, :2, :3], I([4, 1, 60, 70])), (X[:4, :2, :3], I([4, 1, 33, 90]))], {}),
    "HannWindow": ([(I(9000),), (I(70000),)], {}),
}


def case(op):
    runs, attributes = CASES[op]
    attributes = dict(attributes)
    outputs = [f"y{i}" for i in range(attributes.pop("outputs", 1))]
    ranks_only = op in ("ConstantOfShape", "Expand")   # the length differs from run to run
    inputs = [helper.make_tensor_value_info(f"x{i}", KINDS[v.dtype.name], [None] * v.ndim if ranks_only else v.shape)
              for i, v in enumerate(runs[0]) if v is not None]
    node = helper.make_node(op, ["" if v is None else f"x{i}" for i, v in enumerate(runs[0])], outputs, "step", **attributes)
    graph = helper.make_graph([node], "late", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs])
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    return model, [{f"x{i}": v for i, v in enumerate(values) if v is not None} for values in runs]


@pytest.mark.parametrize("op", CASES)
def test_results_are_onnx_runtimes(op):
    model, runs = case(op)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = smelt.Session(model.SerializeToString(), threads=2, tuning_level=0)
    references = smelt.Session(model.SerializeToString(), threads=2, tuning_level=0, tactics="-cpu,-avx2,-onednn")
    for feeds in [*runs, *runs[::-1]]:
        expected = theirs.run(None, feeds)
        for session in (ours, references):
            for found, e in zip(session.run(None, feeds), expected, strict=True):
                assert found.shape == e.shape
                np.testing.assert_allclose(found, e, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", CASES)
def test_explain_names_a_kernel(op, command, tmp_path):
    model, _ = case(op)
    onnx.save(model, tmp_path / "late.onnx")
    said = command("explain", tmp_path / "late.onnx", "--kernels", "--json", "--tuning-level", 0, "--no-cache")
    rows = [row for row in json.loads(said.stdout)["tactics"] if row["result"] == "runs"]
    assert all(not row["tactic"].startswith("reference") for row in rows), rows
