"""The Session as users of onnxruntime.InferenceSession expect it."""
import threading

import numpy as np
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto as T


def test_inputs_and_outputs_are_described_as_onnx_runtime_describes_them(small_model):
    session, peer = smelt.Session(small_model), ort.InferenceSession(str(small_model))
    for ours, theirs in zip(session.get_inputs() + session.get_outputs(), peer.get_inputs() + peer.get_outputs(), strict=True):
        assert (ours.name, ours.type, ours.shape) == (theirs.name, theirs.type, theirs.shape)


def test_what_a_model_says_of_itself_is_there_as_in_onnx_runtime(small_model, tmp_path):
    import onnx

    model = onnx.load(small_model)
    model.producer_name, model.domain, model.doc_string = "maker", "org.example", "reads lines"
    onnx.helper.set_model_props(model, {"character": "a\nb\nä", "version": "3"})
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    smelt.optimize(path, tmp_path / "p.onnx", tuning_level=0, use_cache=False)
    theirs = ort.InferenceSession(str(path)).get_modelmeta()
    for ours in (smelt.Session(path).get_modelmeta(), smelt.Session(tmp_path / "p.onnx").get_modelmeta()):
        for name in ("custom_metadata_map", "domain", "description", "producer_name", "graph_name"):
            assert getattr(ours, name) == getattr(theirs, name), name


def test_a_session_prints_what_it_takes_and_gives(small_model):
    assert repr(smelt.Session(small_model)) == \
        "<smelt.Session (x: tensor(float) ['n', 3, 8, 8]) -> (y: tensor(float) ['n', 8, 8, 8]) on the CPU>"


def test_results_match_onnx_runtime_at_three_batch_sizes_in_one_session(small_model):
    session, peer = smelt.Session(small_model), ort.InferenceSession(str(small_model))
    for n in (1, 5, 2):
        x = np.random.default_rng(n).standard_normal((n, 3, 8, 8)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], peer.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_an_empty_batch_gives_an_empty_result(small_model):
    assert smelt.Session(small_model).run(["y"], {"x": np.zeros((0, 3, 8, 8), np.float32)})[0].shape == (0, 8, 8, 8)


def test_nan_goes_through(small_model):
    x = np.full((1, 3, 8, 8), np.nan, np.float32)
    assert np.isnan(smelt.Session(small_model, optimize=False).run(None, {"x": x})[0]).all()
    assert np.isnan(smelt.Session(small_model).run(None, {"x": x})[0]).all()


def test_results_of_an_earlier_run_stay_as_they_were(small_model):
    session = smelt.Session(small_model)
    [first] = session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
    kept = first.copy()
    session.run(None, {"x": np.zeros((1, 3, 8, 8), np.float32)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("feeds, message", [
    ({"z": np.zeros((1, 3, 8, 8), np.float32)}, "x"),
    ({}, "x"),
    ({"x": np.zeros((1, 3, 8, 8), np.float64)}, "f64"),
    ({"x": np.zeros((1, 3, 8), np.float32)}, "[1, 3, 8]"),
    ({"x": np.zeros((1, 4, 8, 8), np.float32)}, "[1, 4, 8, 8]"),
])
def test_a_wrong_feed_is_a_usage_error_that_says_what_was_found(small_model, feeds, message):
    with pytest.raises(smelt.UsageError) as e:
        smelt.Session(small_model).run(None, feeds)
    assert message in str(e.value)


def test_an_unknown_output_is_a_usage_error(small_model):
    with pytest.raises(smelt.UsageError, match="nope"):
        smelt.Session(small_model).run(["nope"], {"x": np.zeros((1, 3, 8, 8), np.float32)})


def test_threads_share_a_session(small_model):
    session = smelt.Session(small_model)
    xs = [np.random.default_rng(i).standard_normal((1 + i % 3, 3, 8, 8)).astype(np.float32) for i in range(8)]
    expected = [session.run(None, {"x": x})[0] for x in xs]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.array_equal(session.run(None, {"x": xs[i]})[0], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_model_that_is_no_model_is_an_error_with_its_name(tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    with pytest.raises(smelt.Error, match="bad.onnx"):
        smelt.Session(bad)


def growing_model():
    """present = Concat(past [2, n, 3], x [2, 1, 3]), y its sum over n."""
    from conftest import model_of
    from onnx import helper

    return model_of([helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
                     helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0)],
                    [("past", T.FLOAT, [2, "n", 3]), ("x", T.FLOAT, [2, 1, 3])],
                    [("present", T.FLOAT, [2, "m", 3]), ("y", T.FLOAT, [])])


def test_a_cache_grows_in_place():
    session = smelt.Session(growing_model())
    memory = np.full((2, 5, 3), np.nan, np.float32)
    rows = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    for n in range(5):
        cache = smelt.Cache("past", "present", memory, n)
        present, y = session.run(None, {"x": rows[:, n : n + 1]}, caches=[cache])
        assert present.ctypes.data == memory.ctypes.data
        np.testing.assert_array_equal(memory[:, : n + 1], rows[:, : n + 1])
        assert np.isnan(memory[:, n + 1 :]).all()
        np.testing.assert_allclose(y, rows[:, : n + 1].sum(), rtol=1e-5)
    with pytest.raises(smelt.UsageError, match="too small"):
        session.run(None, {"x": rows[:, :1]}, caches=[smelt.Cache("past", "present", memory, 5)])
    with pytest.raises(smelt.UsageError, match="not contiguous and writable"):
        session.run(None, {"x": rows[:, :1]}, caches=[smelt.Cache("past", "present", memory[:, ::2], 1)])


@pytest.mark.parametrize("packed", [False, True])
def test_onnx_attention_is_fused_and_matches_onnx_runtime(packed, tmp_path):
    import onnx
    from conftest import model_of
    from onnx import TensorProto, helper

    shape = (2, 5, 4 * 8) if packed else (2, 4, 5, 8)
    attrs = {"q_num_heads": 4, "kv_num_heads": 4} if packed else {}
    model = model_of([helper.make_node("Attention", ["q", "k", "v"], ["y"], name="attention", is_causal=1, **attrs)],
                     [(n, TensorProto.FLOAT, shape) for n in "qkv"], [("y", TensorProto.FLOAT, shape)], opset=23)
    model.ir_version = 11
    path = tmp_path / "attention.onnx"
    onnx.save(model, path)
    assert [r["matched"] for r in smelt.explain(path)["rewrites"] if r["rewrite"] == "attention_operator"] == [1]
    feeds = {n: np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, n in enumerate("qkv")}
    np.testing.assert_allclose(smelt.Session(path).run(None, feeds)[0], ort.InferenceSession(str(path)).run(None, feeds)[0],
                               rtol=1e-4, atol=1e-5)


def test_no_output_names_are_all_outputs(small_model):
    x = np.ones((1, 3, 8, 8), np.float32)
    [y] = smelt.Session(small_model).run([], {"x": x})
    np.testing.assert_array_equal(y, smelt.Session(small_model).run(None, {"x": x})[0])
