"""Models of one node of com.microsoft with random inputs, held to what ONNX Runtime computes."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import smelt
from onnx import helper, numpy_helper

RNG = np.random.default_rng(0)
B, S, P, HEADS, D = 2, 5, 3, 4, 8
HIDDEN = HEADS * D


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def model_of(op, inputs, attributes, outputs=1, constants=(), domain="com.microsoft", opset=17, symbolic=False):
    """A model of one node. `inputs`: arrays by name, or None where one is left out; those in `constants` are initializers.
    `outputs`: how many, or whether each is wanted."""
    names, values, initializers = [], [], []
    for name, x in inputs.items():
        names.append("" if x is None else name)
        if x is None:
            continue
        if name in constants:
            initializers.append(numpy_helper.from_array(x, name))
        else:
            dims = [f"{name}_{i}" if symbolic and i < 2 else d for i, d in enumerate(x.shape)]
            values.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims))
    made = [f"y{i}" if given else "" for i, given in enumerate([True] * outputs if isinstance(outputs, int) else outputs)]
    results = [helper.make_empty_tensor_value_info(name) for name in made if name]
    node = helper.make_node(op, names, made, name="node", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", values, results, initializers)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset),
                                                                helper.make_opsetid("com.microsoft", 1)])


def steps_in_reference(command, path):
    said = command("explain", path, "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2).stdout
    return [row["step"] for row in json.loads(said)["tactics"]
            if row["result"] == "runs" and row["tactic"].startswith("reference")]


def check(folder, model, feeds, tolerance=2e-5, command=None):
    path = folder / "m.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")   # else 8-bit sums saturate on processors without VNNI
    want = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    for optimize in (False, True):
        got = smelt.Session(path, optimize=optimize, tuning_level=0).run(None, feeds)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)
    if command:
        assert steps_in_reference(command, path) == []


def check_node(folder, op, inputs, attributes, outputs=1, constants=(), command=None, tolerance=2e-5, **options):
    for symbolic in (False, True):
        model = model_of(op, inputs, attributes, outputs, constants, symbolic=symbolic, **options)
        feeds = {n: x for n, x in inputs.items() if x is not None and n not in constants}
        check(folder, model, feeds, tolerance, None if symbolic else command)


MASKS = {"none": None, "lengths": np.array([5, 3], np.int32), "ends and starts": np.array([5, 4, 0, 2], np.int32),
         "keys": np.array([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0]], np.int32),   # a row that is hidden whole has 3 digits left
         "pairs": np.maximum(RNG.integers(0, 2, (B, S, S)), np.eye(S)).astype(np.int32)}


def packed(values, bits):
    """[.., n] of small numbers in bytes, the lowest bits first, each row from a byte of its own."""
    each = 8 // bits
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
    parts = values.reshape(*values.shape[:-1], -1, each).astype(np.uint8)
    return np.bitwise_or.reduce(parts << (np.arange(each, dtype=np.uint8) * bits), -1).astype(np.uint8)
