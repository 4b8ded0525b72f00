"""The Session as users of onnxruntime.InferenceSession expect it."""
import threading

import numpy as np
import onnxruntime as ort
import pytest

import smelt


def test_inputs_and_outputs_are_described_as_onnx_runtime_describes_them(small_model):
    session, peer = smelt.Session(small_model), ort.InferenceSession(str(small_model))
    for ours, theirs in zip(session.get_inputs() + session.get_outputs(), peer.get_inputs() + peer.get_outputs(), strict=True):
        assert (ours.name, ours.type, ours.shape) == (theirs.name, theirs.type, theirs.shape)


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


def test_a_strided_input_is_read_as_numpy_reads_it(small_model):
    session = smelt.Session(small_model)
    x = np.random.default_rng(0).standard_normal((8, 8, 3, 2)).astype(np.float32).T
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], session.run(None, {"x": np.ascontiguousarray(x)})[0])


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


def test_a_dlpack_tensor_goes_in_and_a_result_comes_out_through_dlpack(small_model):
    class Borrowed:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = smelt.Session(small_model)
    [y] = session.run(None, {"x": Borrowed(x)})
    np.testing.assert_array_equal(np.from_dlpack(y), session.run(None, {"x": x})[0])


def test_a_model_that_is_no_model_is_an_error_with_its_name(tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    with pytest.raises(smelt.Error, match="bad.onnx"):
        smelt.Session(bad)


def test_results_print_as_tables(small_model):
    profile = smelt.profile(small_model, shapes={"x": (2, 3, 8, 8)}, iterations=3)
    assert "Time per step" in str(profile) and profile["after"]["steps"]
    explained = smelt.explain(small_model)
    assert "matched" in str(explained)
    bench = smelt.bench(small_model, duration=0.2, shapes={"x": (2, 3, 8, 8)})
    assert bench["bench"]["speedup"] > 0 and "median" in str(bench)
