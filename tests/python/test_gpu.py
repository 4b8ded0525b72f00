"""Sessions on a GPU: tensors of PyTorch, CuPy and JAX go in, and results come out to them. What is said where there is no GPU."""
import gc
import os

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import smelt
from smelt import gpu, smelt_ext

on_gpu = pytest.mark.skipif(smelt_ext.gpu_count() == 0, reason="no GPU")
without_gpu = pytest.mark.skipif(smelt_ext.gpu_count() > 0, reason="a GPU is here")


def torch_there():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return torch


def ran_once(model):
    """PyTorch, a session, an input of PyTorch's and its result, the GPU at rest."""
    torch = torch_there()
    session = smelt.Session(model, device="gpu", allow_fallback=True, tuning_level=0)
    x = torch.from_numpy(image()).cuda()
    want = torch.from_dlpack(session.run_tensors(None, {"x": x})[0]).clone()
    torch.cuda.synchronize()
    return torch, session, x, want


def cupy_there():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy sees no GPU")
    return cupy


def jax_there():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")   # else JAX takes three quarters of the GPU's memory
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    return jax


def image(n=2):
    return np.random.default_rng(n).standard_normal((n, 3, 8, 8)).astype(np.float32)


class OnDevice:
    """What DLPack sees of a tensor on GPU `number`, which nobody may read."""

    def __init__(self, number):
        self.number = number

    def __dlpack_device__(self):
        return (2, self.number)

    def __dlpack__(self, **kwargs):
        raise AssertionError("was read")


@without_gpu
def test_without_a_gpu_its_sessions_say_why(small_model):
    for options in ({"device": "gpu"}, {"device": "1"}, {"providers": ["CUDAExecutionProvider"]}):
        with pytest.raises(smelt.UnsupportedError, match="no GPU: .*driver"):
            smelt.Session(small_model, **options)


@without_gpu
def test_without_a_gpu_the_next_provider_is_taken(small_model):
    session = smelt.Session(small_model, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


@without_gpu
def test_devices_says_in_one_line_why_there_is_no_gpu(command):
    lines = [line for line in command("devices").stdout.splitlines() if "GPU" in line]
    assert len(lines) == 1 and lines[0].startswith("No GPU: ") and "libcuda.so.1" in lines[0]


@without_gpu
def test_a_gpu_that_is_not_here_cannot_be_measured(command):
    assert "no GPU" in command("devices", "--device", "gpu", "--measure", code=3).stderr
    assert "none of cpu, gpu" in command("devices", "--device", "tpu", code=2).stderr


def test_a_plan_with_its_kernels_is_onnx_that_other_runtimes_run(command, small_model, tmp_path):
    plan = tmp_path / "plan.onnx"
    args = ["optimize", small_model, "-o", plan, "--shapes", "x:2x3x8x8", "--arch", "sm_87", "--embed-kernels", "--no-cache"]
    result = command(*args, code=None)
    if result.returncode == 3 and "NVRTC" in result.stderr:
        pytest.skip("no NVRTC")
    assert result.returncode == 0 and "it carries" in result.stdout, result.stderr
    model = onnx.load(plan)
    onnx.checker.check_model(model, full_check=True)
    metadata = {p.key: p.value for p in model.metadata_props}
    assert metadata["smelt.plan.gpu"] == "sm_87 16" and any(key.startswith("smelt.plan.kernel.") for key in metadata)
    want = ort.InferenceSession(str(small_model)).run(None, {"x": image()})[0]
    for session in (ort.InferenceSession(str(plan)), smelt.Session(plan, tuning_level=0)):
        np.testing.assert_allclose(session.run(None, {"x": image()})[0], want, rtol=1e-4, atol=1e-4)
    again = smelt.optimize(plan, tmp_path / "again.onnx", arch="sm_87", embed_kernels=True, use_cache=False)
    assert (tmp_path / "again.onnx").read_bytes() == plan.read_bytes() and again.path == str(tmp_path / "again.onnx")


def test_kernels_are_embedded_for_a_gpu_and_fixed_shapes(command, small_model, tmp_path):
    plan = tmp_path / "plan.onnx"
    assert "Give --arch or --device" in command("optimize", small_model, "-o", plan, "--embed-kernels", code=2).stderr
    result = command("optimize", small_model, "-o", plan, "--embed-kernels", "--arch", "sm_87", "--no-cache", code=None)
    assert (result.returncode == 2 and "Give --shapes" in result.stderr) or "NVRTC" in result.stderr
    assert not plan.exists()


def test_loops_and_einsums_stay_whole_where_that_is_asked_for(command, tmp_path):
    model, plan = tmp_path / "model.onnx", tmp_path / "plan.onnx"
    onnx.save(onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 20]>
        g (float[2, 5, 4] q, float[2, 4, 3, 6] f) => (float[2, 5, 3, 6] y)
        { y = Einsum <equation = "bqc,bchw->bqhw"> (q, f) }'''), model)

    def operators(*options):
        command("optimize", model, "-o", plan, "--arch", "sm_87", "--no-cache", *options)
        return [node.op_type for node in onnx.load(plan).graph.node]

    assert "Einsum" not in operators()
    assert operators("--no-take-apart") == ["Einsum"]
    smelt.optimize(model, plan, arch="sm_87", use_cache=False, take_apart=False)
    assert [node.op_type for node in onnx.load(plan).graph.node] == ["Einsum"]


def test_a_tensor_on_a_gpu_is_refused_by_a_session_on_the_processor(small_model):
    with pytest.raises(smelt.UsageError, match="input 'x' lies on a GPU, expected the host's memory\nBuild with device='gpu'"):
        smelt.Session(small_model).run(None, {"x": OnDevice(0)})


def test_streams_are_numbers_or_what_libraries_call_streams():
    class Torch:
        cuda_stream = 4660

    class CuPy:
        ptr = 0

    class Protocol:
        def __cuda_stream__(self):
            return (0, 22136)

    assert gpu.handle_of(4660) == (4660, None) and gpu.handle_of(0) == (1, None)
    for stream, handle in ((Torch(), 4660), (CuPy(), 1), (Protocol(), 22136)):
        assert gpu.handle_of(stream) == (handle, stream)
    for wrong in ("0", None, -1, True):
        with pytest.raises(smelt.UsageError, match="expected a CUstream's number"):
            gpu.handle_of(wrong)


def test_the_number_of_a_gpu_is_what_dlpack_says():
    assert gpu.number_of(OnDevice(3)) == 3
    assert gpu.number_of(np.zeros(3)) is None and gpu.number_of([1, 2]) is None


def test_a_library_is_told_the_stream_that_its_array_is_read_on():
    class Asked(OnDevice):
        def __dlpack__(self, stream):
            raise LookupError(stream)

    for stream in (1, 2, 4660):
        with pytest.raises(LookupError) as told:
            gpu.borrow(Asked(0), stream)
        assert told.value.args == (stream,)


def test_only_what_no_library_keeps_for_the_stream_is_kept():
    assert gpu.must_be_kept(OnDevice(0), 1) and gpu.must_be_kept(OnDevice(0), 4660)
    assert not gpu.must_be_kept(smelt_ext.Tensor.borrow(np.zeros(3)), 1)


@on_gpu
def test_arrays_of_the_host_come_back_as_such(small_model):
    x = image()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    assert session.get_providers() == ["CUDAExecutionProvider"]
    want = ort.InferenceSession(str(small_model)).run(None, {"x": x})[0]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-4)


@on_gpu
def test_a_tensor_of_pytorch_goes_in_and_comes_out_on_its_stream(small_model):
    torch = torch_there()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    want = ort.InferenceSession(str(small_model)).run(None, {"x": image()})[0]
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x = torch.from_numpy(image()).cuda()
            [y] = session.run_tensors(None, {"x": x * 1})
            y = torch.from_dlpack(y)
            assert y.device == x.device
            doubled = y * 2
            del y   # its memory goes back while the product may still read it
            np.testing.assert_allclose(doubled.cpu().numpy(), 2 * want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-4)


@on_gpu
def test_memory_that_is_let_go_is_not_written_before_another_stream_has_read_it(small_model):
    torch = torch_there()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    inputs = [torch.from_numpy(image()).cuda() * k for k in range(4)]
    want = [torch.from_dlpack(session.run_tensors(None, {"x": x})[0]).clone() for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    kept = []
    for _ in range(50):
        for x, stream in zip(inputs, streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000)
                kept.append(torch.from_dlpack(session.run_tensors(None, {"x": x})[0]) + 0)
    gc.collect()
    torch.cuda.synchronize()
    for i, y in enumerate(kept):
        torch.testing.assert_close(y, want[i % len(want)], rtol=0, atol=0)


@on_gpu
def test_a_consumer_on_another_stream_waits(small_model):
    torch, session, x, _ = ran_once(small_model)
    x = x - 7   # no other run's input: memory that the pool hands out again does not hold the answer already
    maker, reader = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(maker):
        torch.cuda._sleep(20_000_000)
        [y] = session.run_tensors(None, {"x": x})
    with torch.cuda.stream(reader):
        copy = torch.from_dlpack(y).clone()
    reader.synchronize()
    want = torch.from_dlpack(session.run_tensors(None, {"x": x})[0])
    torch.testing.assert_close(copy, want, rtol=0, atol=0)


@on_gpu
def test_a_tensor_of_pytorch_goes_in_on_a_stream_that_is_not_its_own(small_model):
    torch, session, x, want = ran_once(small_model)
    other = torch.cuda.Stream()
    for stream in (other, other.cuda_stream, torch.cuda.default_stream(), 0, 1, 2):
        torch.cuda._sleep(2_000_000)
        late = (x + 0).transpose(0, 1).contiguous().transpose(0, 1)   # strided: a copy goes in, and is let go at once
        [y] = session.run_tensors(None, {"x": late}, stream=stream)
        del late
        torch.full_like(x, float("nan"))
        torch.testing.assert_close(torch.from_dlpack(y), want, rtol=0, atol=0)


@on_gpu
def test_results_are_inputs_again():
    torch = torch_there()
    node = onnx.helper.make_node("Tanh", ["x"], ["y"])
    x, y = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.BFLOAT16, ["n"]) for n in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]), ir_version=9,
                                   opset_imports=[onnx.helper.make_opsetid("", 17)])
    session = smelt.Session(model, device="gpu", tuning_level=0)
    first = torch.linspace(-2, 2, 1000, device="cuda", dtype=torch.bfloat16)
    value, want = first, first
    for _ in range(4):
        [value] = session.run_tensors(None, {"x": value})
        want = torch.tanh(want)
    torch.testing.assert_close(torch.from_dlpack(value), want, rtol=2e-2, atol=1e-2)


@on_gpu
def test_arrays_of_cupy_go_in_and_come_out_on_their_stream(small_model):
    cupy = cupy_there()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    want = ort.InferenceSession(str(small_model)).run(None, {"x": image()})[0]
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.ptds):
        with stream:
            x = cupy.asarray(image())
            [y] = session.run_tensors(None, {"x": x * 1})
            [z] = session.run_tensors(None, {"x": cupy.asfortranarray(x)})
            doubled = cupy.from_dlpack(y) * 2
            assert cupy.from_dlpack(z).device == x.device
            np.testing.assert_allclose(cupy.asnumpy(doubled), 2 * want, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(cupy.asnumpy(cupy.from_dlpack(z)), want, rtol=1e-4, atol=1e-4)


@on_gpu
def test_arrays_of_jax_go_in_and_come_out(small_model):
    jax = jax_there()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    want = ort.InferenceSession(str(small_model)).run(None, {"x": image()})[0]
    x = jax.device_put(image())
    results = []
    for k in range(40):
        [y] = session.run_tensors(None, {"x": x * (k + 1)})   # the product is let go while the run may still read it
        jax.numpy.full((64, 64), float("nan")).block_until_ready()
        results.append(jax.dlpack.from_dlpack(y))
    again = [session.run_tensors(None, {"x": x * (k + 1)})[0].array() for k in range(40)]
    np.testing.assert_allclose(np.asarray(results[0]), want, rtol=1e-4, atol=1e-4)
    for result, expected in zip(results, again, strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected)


@on_gpu
def test_a_cache_grows_in_place_with_the_tactics_of_its_bucket():
    torch = torch_there()
    heads, depth, capacity = 4, 64, 100
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    half = onnx.TensorProto.FLOAT16
    nodes = [node("Concat", ["past_k", "new_k"], ["k"], axis=2), node("Concat", ["past_v", "new_v"], ["v"], axis=2),
             node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["scores"]),
             node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    one, past, present = [1, heads, 1, depth], [1, heads, "past", depth], [1, heads, "total", depth]
    graph = onnx.helper.make_graph(
        nodes, "g", [value(n, half, one) for n in ("q", "new_k", "new_v")] + [value(n, half, past) for n in ("past_k", "past_v")],
        [value("y", half, one), value("k", half, present), value("v", half, present)])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    session = smelt.Session(model, device="gpu")
    torch.manual_seed(0)
    k, v = [torch.zeros(1, heads, capacity, depth, dtype=torch.float16, device="cuda") for _ in "kv"]
    for length in range(capacity - 1):
        q, new_k, new_v = [torch.randn(one, device="cuda").half() for _ in range(3)]
        before = k.clone()
        [y] = session.run_tensors(["y"], {"q": q, "new_k": new_k, "new_v": new_v},
                                  caches=[smelt.Cache("past_k", "k", k, length), smelt.Cache("past_v", "v", v, length)])
        before[:, :, length] = new_k[:, :, 0]
        torch.testing.assert_close(k, before, rtol=0, atol=0)
        n = length + 1
        want = torch.softmax(q.float() @ k[:, :, :n].float().transpose(2, 3), -1) @ v[:, :, :n].float()
        torch.testing.assert_close(torch.from_dlpack(y).float(), want, rtol=2e-2, atol=4e-3)
