"""The Session as users of onnxruntime.InferenceSession expect it."""
import json
import signal
import threading
import time

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto as T

import smelt


class Forwarded:
    """An array's DLPack, and nothing else of it."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


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
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = smelt.Session(small_model)
    [y] = session.run(None, {"x": Forwarded(x)})
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


def test_contiguous_inputs_are_read_where_they_lie_and_results_handed_over_where_they_were_made(small_model):
    from smelt.session import to_numpy, to_tensor

    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    assert to_tensor(x).data_ptr == x.ctypes.data
    [tensor] = smelt.Session(small_model).run_tensors(None, {"x": x})
    y = to_numpy(tensor)
    assert y.ctypes.data == tensor.data_ptr
    assert np.from_dlpack(tensor).ctypes.data == tensor.data_ptr


def test_torch_tensors_go_in_and_out_without_a_copy(small_model):
    torch = pytest.importorskip("torch")
    from smelt.session import to_tensor

    x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).requires_grad_()
    assert to_tensor(x).data_ptr == x.data_ptr()
    session = smelt.Session(small_model)
    [tensor] = session.run_tensors(None, {"x": x})
    y = torch.from_dlpack(tensor)
    assert y.data_ptr() == tensor.data_ptr
    address = y.data_ptr()
    del tensor
    assert y.data_ptr() == address and torch.isfinite(y).all()
    np.testing.assert_array_equal(y.numpy(), session.run(None, {"x": x.detach().numpy()})[0])


def test_a_bfloat16_result_keeps_its_type_through_dlpack():
    torch = pytest.importorskip("torch")
    from conftest import model_of
    from onnx import TensorProto, helper

    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.BFLOAT16, [3])],
                     [("y", TensorProto.BFLOAT16, [3])])
    [y] = smelt.Session(model).run_tensors(None, {"x": torch.tensor([1, 2, 3], dtype=torch.bfloat16)})
    assert torch.from_dlpack(y).dtype == torch.bfloat16 and torch.from_dlpack(y).tolist() == [2, 4, 6]


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


def test_options_are_checked_by_name_and_type(small_model):
    with pytest.raises(smelt.UsageError, match="thread.*\n.*threads"):
        smelt.Session(small_model, thread=2)
    with pytest.raises(smelt.UsageError, match="threads='two'"):
        smelt.Session(small_model, threads="two")
    with pytest.raises(smelt.UsageError, match="expected CPUExecutionProvider or CUDAExecutionProvider among them"):
        smelt.Session(small_model, providers=["TensorrtExecutionProvider"])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = smelt.Session(small_model, options, providers=[("CPUExecutionProvider", {})])
    assert session.run(None, {"x": np.zeros((1, 3, 8, 8), np.float32)})[0].shape == (1, 8, 8, 8)


def test_errors_are_python_exceptions_of_their_kind(tmp_path):
    assert issubclass(smelt.UsageError, (smelt.Error, ValueError)) and issubclass(smelt.UnsupportedError, NotImplementedError)
    with pytest.raises(smelt.Error) as e:
        smelt.Session(tmp_path / "none.onnx")
    assert "none.onnx" in e.value.message and e.value.exit_code == 1


def test_optimize_gives_a_plan_that_prints_and_goes_where_a_path_goes(small_model, tmp_path):
    shapes = {"x": (2, 3, 8, 8)}
    plan = smelt.optimize(small_model, tmp_path / "plan.onnx", shapes=shapes, tuning_level=0)
    assert "conv_epilogue" in str(plan) and "<pre" in plan._repr_html_() and plan["plan"][0]["tuning_level"] == 0
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    [expected] = ort.InferenceSession(str(small_model)).run(None, {"x": x})
    np.testing.assert_allclose(smelt.Session(plan).run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
    kernels = smelt.explain(small_model, kernels=True, shapes=shapes)
    assert {r["result"] for r in kernels["tactics"]} >= {"runs"}


def test_bench_and_profile_write_their_files(small_model, tmp_path):
    shapes = {"x": (2, 3, 8, 8)}
    smelt.bench(small_model, duration=0.1, report=tmp_path / "b.html", shapes=shapes)
    profile = smelt.profile(small_model, iterations=3, report=tmp_path / "p.html", trace=tmp_path / "t.json", shapes=shapes)
    assert f"held at a time, in step {profile['after']['peak_step']}" in str(profile)
    assert all((tmp_path / name).read_text().rstrip().endswith("</html>") for name in ("b.html", "p.html"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    steps = [event["name"] for event in events if event.get("cat") == "step"]
    assert steps and "conv" in steps[0]


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


def test_stubs_type_check(tmp_path):
    """A reader's program against the package's types: mypy accepts it, and refuses the same with a wrong option."""
    mypy = pytest.importorskip("mypy.api")
    good = tmp_path / "good.py"
    good.write_text("import smelt\nsession = smelt.Session('m.onnx', threads=2, shapes={'x': (1, 3)})\n"
                    "names: list[str] = [i.name for i in session.get_inputs()]\n"
                    "print(names, smelt.bench('m.onnx', duration=1.0)['bench'])\n")
    bad = tmp_path / "bad.py"
    bad.write_text("import smelt\nsmelt.Session('m.onnx', threads='two')\n")
    assert mypy.run(["--strict", str(good)])[2] == 0, mypy.run(["--strict", str(good)])[0]
    assert mypy.run([str(bad)])[2] == 1


def identity(onnx_type, shape=None):
    from conftest import model_of
    from onnx import helper

    model = model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", onnx_type, shape)], [("y", onnx_type, shape)],
                     opset=25)
    model.ir_version = 11
    return smelt.Session(model, tuning_level=0, use_cache=False)


def refused(onnx_type, value):
    with pytest.raises(smelt.UsageError) as e:
        identity(onnx_type).run(None, {"x": value})
    return e.value.message


def test_a_dlpack_tensor_of_another_type_is_refused():
    torch = pytest.importorskip("torch")
    assert refused(T.INT64, torch.ones(2, 3, dtype=torch.int32)) == "input 'x' has type i32, expected i64"
    assert refused(T.DOUBLE, torch.ones(1 << 10, 3, dtype=torch.uint8)) == "input 'x' has type u8, expected f64"
    assert refused(T.BFLOAT16, torch.ones(2, dtype=torch.int16)) == "input 'x' has type i16, expected bf16"
    assert refused(T.FLOAT8E4M3FN, torch.ones(2).to(torch.float8_e5m2)) == "input 'x' has type f8e5m2, expected f8e4m3fn"
    assert refused(T.STRING, torch.ones(2)) == "input 'x' has type f32, expected string"
    [y] = identity(T.FLOAT8E4M3FN).run(None, {"x": torch.tensor([1.5, -2]).to(torch.float8_e4m3fn)})
    assert y.astype(np.float32).tolist() == [1.5, -2]


def test_bits_are_no_values_of_a_type_that_numpy_lacks():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert refused(T.BFLOAT16, np.ones(3, np.float32)) == "input 'x' has type f32, expected bf16"
    assert refused(T.BFLOAT16, np.ones(3, np.uint16)) == "input 'x' has type u16, expected bf16"
    assert refused(T.FLOAT8E4M3FN, np.ones(3, np.uint8)) == "input 'x' has type u8, expected f8e4m3fn"
    assert "has type float8_e4m3, expected one that ONNX has" in refused(T.FLOAT8E4M3FN, np.ones(3, ml_dtypes.float8_e4m3))
    for onnx_type, dtype in ((T.BFLOAT16, ml_dtypes.bfloat16), (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn)):
        x = np.array([1.5, -2, 0], dtype)
        np.testing.assert_array_equal(identity(onnx_type).run(None, {"x": x})[0], x)


def test_sub_byte_inputs_take_their_own_type_and_bytes_within_their_range():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert refused(T.INT4, np.full(3, 3, np.int64)) == "input 'x' has type i64, expected i4"
    assert refused(T.INT4, np.array([3, 100], np.int8)) == "input 'x' has the value 100, expected -8 to 7 (int4)"
    assert refused(T.UINT4, np.array([3, -1], np.int8)) == "input 'x' has the value -1, expected 0 to 15 (uint4)"
    assert refused(T.INT4, np.ones(3, ml_dtypes.uint4)) == "input 'x' has type u4, expected i4"
    for x in (np.array([3, -8, 7], np.int8), np.array([3, -8, 7], ml_dtypes.int4), [3, -8, 7]):
        assert identity(T.INT4).run(None, {"x": x})[0].astype(int).tolist() == [3, -8, 7]


def test_strings_are_not_made_of_numbers():
    assert refused(T.STRING, np.ones(2)) == "input 'x' has type f64, expected string"
    assert "values of type int" in refused(T.STRING, ["a", 1])
    for x in (["a", "b"], np.array(["a", "b"]), np.array(["a", b"b"], object)):
        assert identity(T.STRING).run(None, {"x": x})[0].tolist() == ["a", "b"]


@pytest.mark.parametrize("make, message", [
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), T.DOUBLE), "has type u8, expected f64"),
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), T.STRING), "has type u8, expected string"),
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), 99), "no ONNX element type 99"),
    (lambda: smelt.Tensor.packed(np.ones(1, np.uint8), T.FLOAT, [1000]), "f32 are not packed"),
    (lambda: smelt.Tensor.packed(np.ones(1, np.uint8), T.INT4, [1000]), "500 bytes, found 1"),
    (lambda: smelt.Tensor.packed(np.ones(8, np.uint8)[::2], T.INT4, [8]), "contiguous bytes"),
    (lambda: smelt.Tensor.packed(np.ones(2, np.float32), T.INT4, [16]), "contiguous bytes"),
])
def test_a_tensor_does_not_reach_beyond_its_memory(make, message):
    with pytest.raises(smelt.UsageError, match=message):
        make()


def test_a_strided_dlpack_object_is_read_as_its_strides_say():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (x.T, x[:, ::2], x[:, ::-1, 1:3], x.transpose(1, 0, 2)[1:2], x[:0].T, x[0, 0, 0:1]):
        np.testing.assert_array_equal(identity(T.FLOAT).run(None, {"x": Forwarded(view)})[0], view)
        np.testing.assert_array_equal(smelt.Tensor.borrow(view).array(), view)


def test_no_output_names_are_all_outputs(small_model):
    x = np.ones((1, 3, 8, 8), np.float32)
    [y] = smelt.Session(small_model).run([], {"x": x})
    np.testing.assert_array_equal(y, smelt.Session(small_model).run(None, {"x": x})[0])


def test_lists_and_scalars_take_the_type_of_the_input():
    for onnx_type, value, expected in (
            (T.FLOAT, [[0.5] * 16], np.float32), (T.FLOAT, [[1, 2]], np.float32), (T.FLOAT, 0.5, np.float32),
            (T.INT32, [[1], [2]], np.int32), (T.INT32, 7, np.int32), (T.INT32, [], np.int32), (T.UINT8, [255], np.uint8),
            (T.BOOL, [True], np.bool_), (T.COMPLEX64, [1j, 2], np.complex64)):
        [y] = identity(onnx_type).run(None, {"x": value})
        assert y.dtype == expected and y.tolist() == value
    assert refused(T.INT32, [1.5]) == "input 'x' has type f64, expected i32"
    assert refused(T.BOOL, [2]) == "input 'x' has type i64, expected bool"
    assert refused(T.UINT8, [300]) == "input 'x' has the value 300, expected 0 to 255 (uint8)"
    assert "inhomogeneous" in refused(T.FLOAT, [[1.0], [1.0, 2.0]])


def test_lists_become_bfloat16():
    pytest.importorskip("ml_dtypes")
    assert identity(T.BFLOAT16).run(None, {"x": [0.5, 2]})[0].tolist() == [0.5, 2]


def interrupt_in(seconds):
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    return timer


def many_products():
    """Products of many shapes: tuning level 3 takes them minutes."""
    from conftest import model_of
    from onnx import helper, numpy_helper

    sizes = [64 + 8 * i for i in range(120)]
    weights = [numpy_helper.from_array(np.ones((a, b), np.float32), f"w{i}")
               for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True))]
    nodes = [helper.make_node("MatMul", [f"x{i}" if i else "x", w.name], [f"x{i + 1}"]) for i, w in enumerate(weights)]
    return model_of(nodes, [("x", T.FLOAT, [16, sizes[0]])], [(f"x{len(weights)}", T.FLOAT, [16, sizes[-1]])], weights)


def test_an_interrupt_ends_a_build_and_leaves_no_plan(tmp_path):
    model = many_products()
    path = tmp_path / "products.onnx"
    path.write_bytes(model.SerializeToString())
    for build in (lambda: smelt.optimize(path, tmp_path / "plan.onnx", tuning_level=3, use_cache=False),
                  lambda: smelt.Session(model, tuning_level=3, use_cache=False)):
        timer, begin = interrupt_in(1), time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            build()
        assert time.monotonic() - begin < 15
        timer.join()
    assert [p.name for p in tmp_path.iterdir()] == ["products.onnx"]


def test_a_plan_does_not_replace_its_model(small_model, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(small_model.read_bytes())
    with pytest.raises(smelt.UsageError, match="model.onnx"):
        smelt.optimize(path, path, tuning_level=0)
    assert path.read_bytes() == small_model.read_bytes()


def test_wrong_options_say_what_was_expected(small_model):
    with pytest.raises(smelt.UsageError, match="threads=1.5 is a float, expected int$"):
        smelt.Session(small_model, threads=1.5)
    with pytest.raises(smelt.UsageError, match="shapes=3 is a int, expected Mapping"):
        smelt.Session(small_model, shapes=3)
    with pytest.raises(smelt.UsageError, match="keep_fp32 .*\n.*precision="):
        smelt.Session(small_model, keep_fp32=["conv"])
    with pytest.raises(smelt.UsageError, match="providers are TensorrtExecutionProvider, expected"):
        smelt.Session(small_model, providers="TensorrtExecutionProvider")
    with pytest.raises(smelt.UsageError, match="device 'tpu' is none of cpu, gpu, or a GPU's number"):
        smelt.Session(small_model, device="tpu")
    with pytest.raises(smelt.UsageError, match="memory_limit='2GiB' is a str, expected int"):
        smelt.Session(small_model, memory_limit="2GiB")
    with pytest.raises(smelt.UsageError, match="a stream was given, and the session runs on the processor"):
        smelt.Session(small_model).run_tensors(None, {"x": np.zeros((1, 3, 8, 8), np.float32)}, stream=0)
    assert smelt.Session(small_model, providers="CPUExecutionProvider").get_providers() == ["CPUExecutionProvider"]


def test_the_backend_runs_one_node():
    from onnx import helper

    from smelt import backend

    x, y = np.array([1, 5], np.float32), np.array([2, 2], np.float32)
    [z] = backend.run_node(helper.make_node("Sub", ["x", "y"], ["z"]), [x, y])
    assert z.tolist() == [-1, 3]
    clip = helper.make_node("Clip", ["x", "", "high"], ["z"])
    for inputs in ([x, None, np.float32(2)], [x, np.float32(2)], {"x": x, "high": np.float32(2)}):
        assert backend.run_node(clip, inputs, opset_version=13, outputs_info=[(np.float32, (2,))])[0].tolist() == [1, 2]
    values, index = backend.run_node(helper.make_node("TopK", ["x", "k"], ["v", "i"]), [x, np.array([1])])
    assert values.tolist() == [5] and index.tolist() == [1]
    with pytest.raises(smelt.UsageError, match="1 inputs were given, expected 2: x, y"):
        backend.run_node(helper.make_node("Sub", ["x", "y"], ["z"]), [x])


def test_the_backend_refuses_other_devices_and_surplus_inputs(small_model):
    import onnx

    from smelt import backend

    model, x = onnx.load(small_model), np.ones((1, 3, 8, 8), np.float32)
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA:99")
    with pytest.raises(smelt.UsageError, match="device is CUDA:99, expected CPU"):
        backend.prepare(model, "CUDA:99")
    assert backend.run_model(model, [x])[0].shape == (1, 8, 8, 8)
    with pytest.raises(smelt.UsageError, match="2 inputs were given, expected 1: x"):
        backend.run_model(model, [x, x])
