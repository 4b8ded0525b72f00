"""What of ONNX Runtime's operators smelt refuses, and what it says."""
import pathlib
import re

import numpy as np
import onnx
import pytest
import smelt
from conftest import ROOT
from microsoft_models import HEADS, HIDDEN, B, S, floats, model_of
from onnx import TensorProto, helper

pytestmark = pytest.mark.usefixtures("own_numbers")


def test_layouts_of_one_machine_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "m.onnx"
    model = model_of("ReorderOutput", {"x": floats(1, 8, 2, 2)}, {"channels": 8}, domain="com.microsoft.nchwc")
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    onnx.save(model, path)
    with pytest.raises(smelt.UnsupportedError, match="ORT_ENABLE_EXTENDED"):
        smelt.Session(path)


@pytest.mark.parametrize("attributes, inputs, said", [
    ({"do_rotary": 1}, {}, "do_rotary is 1, expected 0"),
    ({"past_present_share_buffer": 1}, {}, "past_present_share_buffer is 1, expected 0"),
    ({}, {"mask": np.ones((B, 1, S, S), np.int32)}, "has rank 4, expected 1 to 3"),
])
def test_what_is_not_supported_is_named(tmp_path, attributes, inputs, said):
    given = {"x": floats(B, S, 24), "w": floats(24, 3 * HIDDEN), "b": floats(3 * HIDDEN), **inputs}
    path = pathlib.Path(tmp_path) / "m.onnx"
    onnx.save(model_of("Attention", given, {"num_heads": HEADS, **attributes}), path)
    with pytest.raises(smelt.UnsupportedError, match=f"'node' \\(com.microsoft::Attention\\): .*{said}"):
        smelt.Session(path)


REFUSED = [
    ("Inverse", {"x": (2, 3)}, {}, "expected square matrices"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 3), "images": (5,), "size": (2,)}, {}, "expected \\[boxes, 4\\]"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 4), "images": (4,), "size": (2,)}, {}, "for 5 boxes"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 4), "images": (5,), "size": (2,)}, {"mode": "cubic"}, "expected 'bilinear'"),
    ("NGramRepeatBlock", {"ids": (3, 8), "scores": (2, 5)}, {"ngram_size": 2}, "expected the same batch"),
    ("NGramRepeatBlock", {"ids": (3, 8), "scores": (3, 5)}, {"ngram_size": 0}, "expected 1 or more"),
    ("DynamicTimeWarping", {"x": (2, 3, 4)}, {}, "expected \\[M, N\\]"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 4, 8), "v": (2, 5, 8)}, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"},
     "expected \\[B, T, width\\]"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 5, 8), "v": (2, 5, 8)}, {"q_num_heads": 3, "kv_num_heads": 2, "update_rule": "linear"},
     "expected one to divide the other"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 5, 8), "v": (2, 5, 8)}, {"q_num_heads": 2, "kv_num_heads": 2}, "needs input 4"),
    ("MoE", {"x": (5, 8), "router": (4, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {}, "expected \\[5, experts\\]"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 7), "b1": None, "w2": (3, 8, 8)}, {}, "expected \\[3, 8, 8\\]"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {"k": 4}, "k is 4 of 3 experts"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {"activation_type": "swiglu"},
     "swiglu_fusion is 0"),
    ("UnfoldTensor", {"x": (4, 5)}, {"dim": 2, "size": 1}, "dim is 2 of rank 2"),
    ("UnfoldTensor", {"x": (4, 5)}, {"dim": 1, "size": 0}, "size 0"),
    ("ConvTransposeWithDynamicPads", {"x": (1, 4, 6), "w": (4, 3, 3), "pads": (3,)}, {}, "has 3 elements|have 3 elements"),
    ("CausalConvWithState", {"x": (1, 4, 6), "w": (4, 1, 3)}, {"dilation": 1 << 62}, "dilation is"),
    ("MRotaryEmbedding", {"x": (1, 2, 3, 8), "p": (3, 1, 3), "cos": (9, 4), "sin": (9, 4)}, {"mrope_section": [4, 4, 4]}, "whose sum"),
]


INTEGERS = {"images": np.int32, "size": np.int32, "ids": np.int64, "pads": np.int64, "p": np.int64}


@pytest.mark.parametrize("op, shapes, attributes, said", REFUSED, ids=[f"{i}-{row[0]}" for i, row in enumerate(REFUSED)])
def test_wrong_shapes_and_attributes_are_named(op, shapes, attributes, said):
    inputs = {n: None if s is None else np.ones(s, INTEGERS.get(n, np.float32)) for n, s in shapes.items()}
    outputs = 2 if op in ("LinearAttention", "CausalConvWithState") else 1
    with pytest.raises(smelt.Error, match=said):
        smelt.Session(model_of(op, inputs, attributes, outputs, constants=("w", "size")), tuning_level=0).run(None, {
            n: x for n, x in inputs.items() if x is not None and n not in ("w", "size")})


@pytest.mark.parametrize("op, inputs, attributes, said", [
    ("Inverse", {"x": np.ones((1, 2, 2), np.float32)}, {}, "matrix 0 has no inverse"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([2], np.int32),
                       "size": np.array([2, 2], np.int32)}, {}, "is of image 2, expected 0 to 1"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([0], np.int32),
                       "size": np.array([0, 2], np.int32)}, {}, "expected 1 or more"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([0], np.int32),
                       "size": np.array([2**31 - 1, 2**31 - 1], np.int32)}, {}, "memory|elements|bytes"),
    ("NGramRepeatBlock", {"ids": np.array([[9, 9, 9]]), "scores": np.ones((1, 5), np.float32)}, {"ngram_size": 2}, "token 9 at"),
])
def test_wrong_values_are_named(op, inputs, attributes, said):
    session = smelt.Session(model_of(op, inputs, attributes), tuning_level=0)
    with pytest.raises(smelt.Error, match=said):
        session.run(None, inputs)


def test_places_that_are_no_numbers_lie_outside():
    inputs = {"x": np.ones((1, 1, 3, 3), np.float32), "boxes": np.array([[np.nan, 0, np.inf, 1]], np.float32), "images": np.zeros(1, np.int32),
              "size": np.array([3, 3], np.int32)}
    got = smelt.Session(model_of("CropAndResize", inputs, {"extrapolation_value": 7.0}), tuning_level=0).run(None, inputs)[0]
    assert np.all(got == 7)


def kernels_of_onnx_runtime():
    """The operators that it registers for its processor: names by domain, with the newest version that a kernel takes."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    newest = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain in ("", "ai.onnx.ml", "com.microsoft"):
            key = kernel.domain, kernel.op_name
            newest[key] = max(newest.get(key, 0), kernel.version_range[0])
    schemas = {}
    for schema in state.get_all_operator_schema():
        schemas.setdefault((schema.domain, schema.name), []).append(schema)
    return newest, schemas


def test_what_onnx_runtime_runs_runs_or_is_listed_with_a_reason():
    newest, schemas = kernels_of_onnx_runtime()
    text = (ROOT / "docs/onnxruntime.md").read_text().split("## Refused")[1].split("\n## ")[0]
    refused = {name for row in re.findall(r"^\| ([A-Za-z0-9, ]+) \|", text, re.MULTILINE) for name in row.split(", ")}
    unknown = set()
    for (domain, op), since in newest.items():
        # ONNX's operators for trial are of the opsets below 10.
        known = [s for s in schemas.get((domain, op), []) if s.since_version <= since]
        count = max((s.min_input for s in known), default=1)
        values = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ["n"]) for i in range(max(count, 1))]
        opset = 8 if not domain and since < 7 else since if not domain else 17
        node = helper.make_node(op, [v.name for v in values], ["y"], domain=domain)
        model = helper.make_model(
            helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info("y")]), ir_version=9,
            opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", since if domain == "ai.onnx.ml" else 3),
                           helper.make_opsetid("com.microsoft", 1)])
        try:
            smelt.Session(model, tuning_level=0)
        except smelt.Error as e:
            if "smelt cannot run" in str(e):
                unknown.add(op)
    assert len(newest) > 250
    assert unknown - refused == set(), "neither run nor stand in docs/onnxruntime.md with a reason"
    assert refused - unknown - {"operators"} == set(), "run: take them off docs/onnxruntime.md"
