"""Attention, softmax, normalisations and activations are recognised however they are spelled, and compute what ONNX Runtime computes."""
import json
from collections import Counter

import numpy as np
import onnx
import pytest
import smelt
import spellings
import spellings_attention
import spellings_norms

onnxruntime = pytest.importorskip("onnxruntime")


def written(ways, write, kind=np.float32):
    """One model of all of them, each under the prefix of its number; its writer."""
    w = spellings.Writer()
    for i, way in enumerate(ways):
        w.begin(f"g{i}", kind)
        write(w, way)
    return w


def matched(command, path, rewrites):
    """How often one of these rewrites took a node of each number."""
    ledger = json.loads(command("explain", path, "--json", "--matched").stdout)["ledger"]
    return Counter(e["nodes"][0].split("/")[0] for e in ledger if e["result"] == "matched" and e["rewrite"] in rewrites)


def same(path, feeds, names, tolerance):
    found = smelt.Session(str(path), tuning_level=0, use_cache=False).run(None, feeds)
    options = onnxruntime.SessionOptions()  # not optimised: its own fusion of a LayerNorm with casts mixes types
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    for name, f, e in zip(names, found, expected, strict=True):
        assert f.shape == e.shape, name
        np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol=0, atol=tolerance * np.abs(e).max(), err_msg=name)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_attention_is_one_operator(command, tmp_path, kind):
    ways = spellings_attention.spelled()
    w = written(ways, spellings_attention.write_attention, kind)
    path = tmp_path / "attention.onnx"
    onnx.save(w.model(), path)
    counts = matched(command, path, ["attention"])
    assert [way for i, way in enumerate(ways) if counts[f"g{i}"] != 1] == []
    same(path, w.feeds, map(str, ways), 2e-6 if kind == np.float32 else 1e-2)


@pytest.mark.parametrize("wide", [False, True])
def test_normalisations_are_one_operator(command, tmp_path, wide):
    ways = spellings_norms.norms()
    kind = np.float16 if wide else np.float32
    w = written(ways, lambda w, way: spellings_norms.write_norm(w, *way, wide), kind)
    path = tmp_path / "norm.onnx"
    onnx.save(w.model(), path)
    counts = matched(command, path, ["recognise_rms_norm", "recognise_layer_norm"])
    assert [way for i, way in enumerate(ways) if counts[f"g{i}"] != 1] == []
    same(path, w.feeds, map(str, ways), 2e-2 if wide else 1e-5)


def test_normalisations_with_gamma_in_the_root_are_one_operator(command, tmp_path):
    ways = [(m, v, fast) for m in spellings_norms.MEANS for v in spellings_norms.VARIANCES for fast in (True, False)]
    w = written(ways, lambda w, way: spellings_norms.write_spread_norm(w, way[:2], way[2]))
    path = tmp_path / "norm.onnx"
    onnx.save(w.model(), path)
    counts = matched(command, path, ["recognise_layer_norm"])
    assert [way for i, way in enumerate(ways) if counts[f"g{i}"] != 1] == []
    same(path, w.feeds, map(str, ways), 1e-5)


def test_activations_are_one_pass(tmp_path):
    w = written(spellings_norms.ACTIVATIONS.values(), spellings_norms.write_activation)
    path = tmp_path / "activations.onnx"
    onnx.save(w.model(), path)
    plan = smelt.optimize(str(path), str(tmp_path / "plan.onnx"), tuning_level=0, use_cache=False)
    assert plan is not None
    kept = Counter(n.name.split("/")[0] for n in onnx.load(tmp_path / "plan.onnx").graph.node)
    assert [name for i, name in enumerate(spellings_norms.ACTIVATIONS) if kept[f"g{i}"] != 1] == []
    same(path, w.feeds, spellings_norms.ACTIVATIONS, 1e-5)
