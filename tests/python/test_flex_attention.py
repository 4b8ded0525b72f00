"""FlexAttention (ai.onnx.preview) is expanded to its function body: what it computes where extents are symbols, or those of one input alone."""
import random

import numpy as np
import pytest
import smelt
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def model(shapes):
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", name="flex")
    inputs = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in zip("qkv", shapes, strict=True)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)])
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def attention(q, k, v):
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], 1) for a in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[3])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def declared(way, q, k, v):
    """The model's shapes: symbols of each input's own or shared ones, with the extents of V, or some, as they are."""
    own = [[name + str(i) for i in range(4)] for name in "qkv"]
    if way == "values of 2":
        return [*own[:2], list(v)]
    if way == "shared":
        return [["b", "h", "l", "d"], ["b", "g", "s", "d"], ["b", "g", "s", "w"]]
    return own


@pytest.mark.parametrize("way", ["own", "values of 2", "shared"])
@pytest.mark.parametrize("optimize", [True, False])
def test_is_attention_of_grouped_heads_whatever_is_known_of_extents(way, optimize):
    choose, numbers = random.Random(way), np.random.default_rng(1)
    for _ in range(12):
        batch, group, steps, keys, width, values = (2 if way == "values of 2" else choose.choice([1, 2, 3]) for _ in range(6))
        heads = group * choose.choice([1, 2, 3])
        q, k, v = (batch, heads, steps, width), (batch, group, keys, width), (batch, group, keys, values)
        feeds = {n: numbers.normal(size=s).astype(np.float32) for n, s in zip("qkv", (q, k, v), strict=True)}
        session = smelt.Session(model(declared(way, q, k, v)), tuning_level=0, use_cache=False, optimize=optimize)
        assert np.allclose(session.run(None, feeds)[0], attention(*feeds.values()), atol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
def test_heads_and_widths_that_do_not_fit_are_errors(optimize):
    q, k, v = (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)
    session = smelt.Session(model(declared("own", q, k, v)), tuning_level=0, use_cache=False, optimize=optimize)
    for odd in ({"k": (2, 3, 5, 8)}, {"k": (2, 2, 5, 7)}, {"v": (2, 2, 4, 6)}, {"v": (3, 2, 5, 6)}, {"q": (2, 4, 3, 7)}, {"v": (2, 0, 5, 6)}):
        shapes = {"q": q, "k": k, "v": v} | odd
        with pytest.raises(smelt.Error):
            session.run(None, {n: np.zeros(s, np.float32) for n, s in shapes.items()})
