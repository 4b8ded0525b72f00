"""smelt.ops: normalisations and linear layers of single tensors, of NumPy and as PyTorch's custom operators; on the GPU where there is
one."""
import numpy as np
import pytest
import smelt
from smelt import smelt_ext

SHAPES = [(7,), (5, 64), (2, 3, 33), (4, 4099)]


def reference(x, weight, bias, eps, residual, centre):
    s = x.astype(np.float64) + (0 if residual is None else residual)
    if centre:
        s = s - s.mean(-1, keepdims=True)
    y = s / np.sqrt((s * s).mean(-1, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def arrays(shape, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in (shape, shape, shape[-1:], shape[-1:])]


@pytest.mark.parametrize("shape", SHAPES)
def test_norms_of_numpy_arrays(shape):
    x, r, w, b = arrays(shape)
    np.testing.assert_allclose(smelt.ops.rms_norm(x, w, 1e-3), reference(x, w, None, 1e-3, None, False), atol=1e-5)
    np.testing.assert_allclose(smelt.ops.layer_norm(x, w, b, 1e-3), reference(x, w, b, 1e-3, None, True), atol=1e-5)
    y, s = smelt.ops.rms_norm(x, None, 1e-3, residual=r)
    np.testing.assert_allclose(y, reference(x, None, None, 1e-3, r, False), atol=1e-5)
    np.testing.assert_array_equal(s, x + r)
    y, s = smelt.ops.layer_norm(x, w, residual=r)
    np.testing.assert_allclose(y, reference(x, w, None, 1e-5, r, True), atol=1e-5)


def test_what_does_not_fit_is_said():
    x, r, w, _ = arrays((5, 64))
    with pytest.raises(smelt.UsageError, match=r"weight has shape \[63\], expected \[64\] beside x of \[5, 64\]"):
        smelt.ops.rms_norm(x, w[:63])
    with pytest.raises(smelt.UsageError, match="the residual is f16, x is f32"):
        smelt.ops.rms_norm(x, w, residual=r.astype(np.float16))
    with pytest.raises(smelt.UsageError, match="x is i32, expected f32, f16 or bf16"):
        smelt.ops.rms_norm(np.ones((2, 3), np.int32))
    with pytest.raises(smelt.UsageError, match="x is a list, expected an array of PyTorch, CuPy or NumPy"):
        smelt.ops.rms_norm([[1.0, 2.0]])


def places():
    torch = pytest.importorskip("torch")
    there = smelt_ext.gpu_count() > 0 and torch.cuda.is_available()
    return torch, ["cpu", "cuda"] if there else ["cpu"]


@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
def test_norms_of_pytorch_tensors(type_name):
    torch, devices = places()
    tolerance = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}[type_name]
    for device in devices:
        for shape in SHAPES:
            x, r, w, b = [torch.from_numpy(a).to(device, getattr(torch, type_name)) for a in arrays(shape)]
            want = torch.nn.functional.rms_norm(x.float(), shape[-1:], w.float(), 1e-5)
            torch.testing.assert_close(smelt.ops.rms_norm(x, w, 1e-5).float(), want, rtol=tolerance, atol=tolerance)
            want = torch.nn.functional.layer_norm(x.float() + r.float(), shape[-1:], w.float(), b.float(), 1e-5)
            y, s = smelt.ops.layer_norm(x, w, b, 1e-5, residual=r)
            torch.testing.assert_close(y.float(), want, rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(s.float(), x.float() + r.float(), rtol=tolerance, atol=tolerance)
            assert y.dtype == x.dtype and y.device == x.device and y.is_contiguous()


def test_a_strided_tensor_is_normalised_as_its_strides_say():
    torch, devices = places()
    for device in devices:
        x = torch.randn(64, 6, device=device).T
        torch.testing.assert_close(smelt.ops.rms_norm(x, eps=1e-5), torch.nn.functional.rms_norm(x, (64,), eps=1e-5),
                                   rtol=1e-5, atol=1e-5)


def test_pytorch_knows_them_as_operators():
    torch, devices = places()
    for device in devices:
        x, r, w, b = [torch.from_numpy(a).to(device) for a in arrays((5, 64))]
        checks = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.smelt.rms_norm, (x, w, 1e-5), test_utils=checks)
        torch.library.opcheck(torch.ops.smelt.add_layer_norm, (x, r, w, b, 1e-5), test_utils=checks)


def test_a_gradient_through_them_is_refused():
    torch, devices = places()
    for device in devices:
        x = torch.ones(5, 64, device=device, requires_grad=True)
        y = smelt.ops.rms_norm(x)
        with pytest.raises(RuntimeError, match="smelt.rms_norm.* no autograd formula"):
            y.sum().backward()


def test_torch_compile_takes_them_in_one_graph():
    torch, devices = places()

    def block(x, r, w):
        y, s = smelt.ops.rms_norm(x * 2, w, 1e-5, residual=r)
        return y + 1, s

    for device in devices:
        x, r, w, _ = [torch.from_numpy(a).to(device) for a in arrays((5, 64))]
        compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
        for got, want in zip(compiled(x, r, w), block(x, r, w), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_they_are_captured_with_what_their_kernels_need():
    torch, devices = places()
    if "cuda" not in devices:
        pytest.skip("no GPU")
    for shape in ((5, 64), (1, 1 << 20)):   # the latter's blocks meet in a workspace
        x = torch.randn(shape, device="cuda")
        want = smelt.ops.rms_norm(x, eps=1e-5)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = smelt.ops.rms_norm(x, eps=1e-5)
        # Kept: they would overwrite a workspace that the capture had let go.
        others = [smelt.ops.rms_norm(torch.randn(shape, device="cuda"), eps=1e-5) for _ in range(3)]
        graph.replay()
        torch.testing.assert_close(y, want, rtol=0, atol=0)
        del others


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_torch_compile_generates_code_around_them(mode):
    torch, devices = places()
    if "cuda" not in devices:
        pytest.skip("no GPU")

    def block(x, r, w, b):
        y, s = smelt.ops.layer_norm(torch.relu(x), w, b, 1e-5, residual=r)
        return smelt.ops.rms_norm(y * 2, w, 1e-5) + 1, s

    x, r, w, b = [torch.from_numpy(a).cuda() for a in arrays((5, 64))]
    compiled = torch.compile(block, fullgraph=True, mode=mode)
    want = block(x, r, w, b)
    for _ in range(4):
        for got, expected in zip(compiled(x, r, w, b), want, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_norms_of_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    if smelt_ext.gpu_count() == 0 or not cupy.cuda.is_available():
        pytest.skip("CuPy or smelt sees no GPU")
    x, r, w, b = arrays((5, 64))
    with cupy.cuda.Stream(non_blocking=True):
        y, s = smelt.ops.layer_norm(*[cupy.asarray(a) for a in (x, w, b)], residual=cupy.asfortranarray(cupy.asarray(r)))
        assert isinstance(y, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(y), reference(x, w, b, 1e-5, r, True), atol=1e-5)
        np.testing.assert_array_equal(cupy.asnumpy(s), x + r)


def linear_arrays(rows=(3, 5), k=24, n=16, seed=4):
    rng = np.random.default_rng(seed)
    x, w, b, r, g = [rng.standard_normal(s).astype(np.float32) for s in ((*rows, k), (n, k), (n,), (*rows, n), (*rows, n))]
    return x, w, b, r, g


def relu(v):
    return np.maximum(v, 0)


def test_linear_layers_of_numpy_arrays():
    x, w, b, r, g = linear_arrays()
    want = x.astype(np.float64) @ w.T.astype(np.float64)
    np.testing.assert_allclose(smelt.ops.linear(x, w), want, atol=1e-5)
    np.testing.assert_allclose(smelt.ops.linear(x, w, b), want + b, atol=1e-5)
    np.testing.assert_allclose(smelt.ops.linear(x, w, b, r, "relu", g), relu(want + b) * g + r, atol=1e-5)
    np.testing.assert_allclose(smelt.ops.linear(x, w, residual=r, autotune=False), want + r, atol=1e-5)
    np.testing.assert_allclose(smelt.ops.linear(x[0, 0], w, b), (want + b)[0, 0], atol=1e-5)
    by_rows = np.ascontiguousarray(w.T)                       # (k, n), read as it lies
    np.testing.assert_allclose(smelt.ops.linear(x, by_rows.T, b), want + b, atol=1e-5)
    assert smelt.ops.linear(x[:0], w).shape == (0, 5, 16)


def test_linear_reads_weights_that_changed():
    x, w, *_ = linear_arrays()
    smelt.ops.linear(x, w)
    w *= 2
    np.testing.assert_allclose(smelt.ops.linear(x, w), x @ w.T, atol=1e-4)
    with pytest.raises(smelt.UsageError, match="the array w may change"):
        smelt.ops.linear(x, w, pack=True)
    w.flags.writeable = False
    for _ in range(2):
        np.testing.assert_allclose(smelt.ops.linear(x, w, pack=True), x @ w.T, atol=1e-4)
    smelt.ops.forget_weights()
    np.testing.assert_allclose(smelt.ops.linear(x, w, pack=True), x @ w.T, atol=1e-4)


def test_what_does_not_fit_a_linear_layer_is_said():
    x, w, b, r, _ = linear_arrays()
    with pytest.raises(smelt.UsageError, match=r"w has shape \[16, 23\], expected \[16, 24\] beside x of \[3, 5, 24\]"):
        smelt.ops.linear(x, np.ascontiguousarray(w[:, :23]))
    with pytest.raises(smelt.UsageError, match=r"bias has shape \[15\], expected \[16\]"):
        smelt.ops.linear(x, w, b[:15])
    with pytest.raises(smelt.UsageError, match="the residual is f16, x is f32"):
        smelt.ops.linear(x, w, residual=r.astype(np.float16))
    with pytest.raises(smelt.UsageError, match="the epilogue 'gelo' is not known; expected one of .*gelu.*silu"):
        smelt.ops.linear(x, w, epilogue="gelo")
    with pytest.raises(smelt.UsageError, match="expected an array of PyTorch or NumPy"):
        smelt.ops.linear([[1.0]], w)
    with pytest.raises(smelt.UsageError, match=r"expected \(\.\.\., k\) and \(n, k\)"):
        smelt.ops.linear(x, b)


@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
def test_linear_layers_of_pytorch_tensors(type_name):
    torch, devices = places()
    functional = torch.nn.functional
    tolerance = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}[type_name]
    for device in devices:
        x, w, b, r, g = [torch.from_numpy(a).to(device, getattr(torch, type_name)) for a in linear_arrays()]
        want = functional.gelu(functional.linear(x.float(), w.float(), b.float())) * g.float() + r.float()
        for pack in (False, True):
            got = smelt.ops.linear(x, w, b, r, "gelu", g, pack=pack)
            assert got.dtype == x.dtype and got.device == x.device
            torch.testing.assert_close(got.float(), want, rtol=tolerance, atol=4 * tolerance)
        got = smelt.ops.linear(x, w.t().contiguous().t(), b)
        torch.testing.assert_close(got.float(), functional.linear(x.float(), w.float(), b.float()), rtol=tolerance, atol=4 * tolerance)


def test_packed_weights_follow_their_version_and_their_memory():
    torch, devices = places()
    for device in devices:
        x, w, *_ = [torch.from_numpy(a).to(device) for a in linear_arrays()]
        for _ in range(2):
            torch.testing.assert_close(smelt.ops.linear(x, w, pack=True), x @ w.t(), rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            w.mul_(3)                                          # in place: the version is another
        torch.testing.assert_close(smelt.ops.linear(x, w, pack=True), x @ w.t(), rtol=1e-4, atol=1e-4)
        for seed in range(5):                                  # freed memory is given out again
            other = torch.from_numpy(linear_arrays(seed=seed)[1]).to(device).clone()
            torch.testing.assert_close(smelt.ops.linear(x, other, pack=True), x @ other.t(), rtol=1e-4, atol=1e-4)
            del other
    smelt.ops.forget_weights()


def test_torch_compile_takes_linear_layers():
    torch, _ = places()
    x, w, b, r, g = [torch.from_numpy(a) for a in linear_arrays()]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def block(x, w, b, r, g):
        return smelt.ops.linear(x + 1, w, b, r, "silu", g).sum(-1)

    want = (torch.nn.functional.silu(torch.nn.functional.linear(x + 1, w, b)) * g + r).sum(-1)
    torch.testing.assert_close(block(x, w, b, r, g), want, rtol=1e-4, atol=1e-4)
    torch.library.opcheck(torch.ops.smelt.linear.default, (x, w, b, r, g, "relu", False, False),
                          test_utils=("test_schema", "test_faketensor"))


def test_tune_returns_the_ranked_table():
    found = smelt.ops.tune("gemm:f32:8x32x32:rcr:bias+gelu", tuning_level=1, threads=1)
    rows = found["candidates"]
    assert [r["us"] for r in rows] == sorted(r["us"] for r in rows) and sum(r["chosen"] for r in rows) == 1
    assert "gemm:f32:8x32x32:rcr:bias+gelu" in str(found)
    with pytest.raises(smelt.UsageError, match="expected one of the types"):
        smelt.ops.tune("gemm:f33:1x2x3")
