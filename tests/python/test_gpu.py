"""Sessions on a GPU: what PyTorch's tensors there go in and out of. And what is said where there is no GPU."""
import gc

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
    torch = torch_there()
    session = smelt.Session(small_model, device="gpu", allow_fallback=True, tuning_level=0)
    x = torch.from_numpy(image()).cuda()
    want = torch.from_dlpack(session.run_tensors(None, {"x": x})[0]).clone()
    maker, reader = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(maker):
        torch.cuda._sleep(20_000_000)
        [y] = session.run_tensors(None, {"x": x})
    with torch.cuda.stream(reader):
        copy = torch.from_dlpack(y).clone()
    torch.testing.assert_close(copy, want, rtol=0, atol=0)
