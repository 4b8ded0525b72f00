"""Single operators by smelt's kernels, on tensors of PyTorch, CuPy and NumPy.

    y = smelt.ops.rms_norm(x, weight, 1e-6)
    y, h = smelt.ops.rms_norm(x, weight, 1e-6, residual=h)       # h = x + h, y its norm

Tensors on a GPU are read and written in place, on their library's current stream; a call does not wait for the result. For
PyTorch these are custom operators (torch.ops.smelt), and torch.compile takes them as they are. They have no gradients. The first
call for a problem measures the kernels and chooses one, unless the tuning cache knows the problem.

    y = smelt.ops.linear(x, w, bias, epilogue="gelu")            # gelu(x · wᵀ + bias)
    print(smelt.ops.tune("gemm:f32:48x1024x1024:rcr:bias+gelu"))    # every kernel that runs it, measured
"""
from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from . import gpu
from . import smelt_ext as _ext
from .errors import UsageError
from .options import BuildOptions, Path, make_options
from .session import to_tensor
from .verbs import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

try:
    import torch as _torch
except ImportError:
    _torch = None  # type: ignore[assignment]


def _borrower(x: Any) -> tuple[int, Any]:
    """The stream of x, and what views tensors in their memory for work on that stream."""
    stream = gpu.stream_of(x)[0] if gpu.number_of(x) is not None else 0
    of_torch = stream and gpu.is_of(x, "torch", "Tensor")

    def tensor(value: Any) -> _ext.Tensor | None:
        if value is None:
            return None
        if of_torch and gpu.is_of(value, "torch", "Tensor") and value.device == x.device:   # on that stream already
            return _ext.Tensor.borrow_device(_torch.utils.dlpack.to_dlpack(gpu.plain_torch(value)))
        return gpu.borrow(value, stream) if gpu.number_of(value) is not None else to_tensor(value)

    return stream, tensor


def _normalize(centre: bool, eps: float, x: Any, residual: Any, weight: Any, bias: Any, y: Any, total: Any) -> None:
    stream, tensor = _borrower(x)
    _ext.normalize(centre, eps, tensor(x), tensor(residual), tensor(weight), tensor(bias), tensor(y), tensor(total), stream)


def _empty_like(x: Any) -> Any:
    """A contiguous array like x, made by x's library."""
    if gpu.is_of(x, "torch", "Tensor"):
        return _torch.empty_like(x, memory_format=_torch.contiguous_format)
    if gpu.is_of(x, "cupy", "ndarray"):
        import cupy  # type: ignore[import-not-found]

        return cupy.empty(x.shape, x.dtype)
    if isinstance(x, np.ndarray):
        return np.empty(x.shape, x.dtype)
    raise UsageError(f"x is a {type(x).__name__}, expected an array of PyTorch, CuPy or NumPy")


def _norm(centre: bool, eps: float, x: Any, residual: Any, weight: Any, bias: Any) -> Any:
    y = _empty_like(x)
    total = None if residual is None else _empty_like(x)
    _normalize(centre, eps, x, residual, weight, bias, y, total)
    return y if residual is None else (y, total)


if _torch is not None:
    def _rms_norm(x: Any, weight: Any, eps: float) -> Any:
        return _norm(False, eps, x, None, weight, None)

    def _add_rms_norm(x: Any, residual: Any, weight: Any, eps: float) -> Any:
        return _norm(False, eps, x, residual, weight, None)

    def _layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
        return _norm(True, eps, x, None, weight, bias)

    def _add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Any:
        return _norm(True, eps, x, residual, weight, bias)

    def _register(name: str, function: Any, schema: str) -> Any:
        op = _torch.library.custom_op(f"smelt::{name}", function, mutates_args=(), schema=schema)
        made = 2 if name.startswith("add") else 1
        op.register_fake(lambda x, *rest: _empty_like(x) if made == 1 else (_empty_like(x), _empty_like(x)))
        return getattr(_torch.ops.smelt, name).default   # a call of `op` itself takes twice as long

    _rms = _register("rms_norm", _rms_norm, "(Tensor x, Tensor? weight, float eps) -> Tensor")
    _add_rms = _register("add_rms_norm", _add_rms_norm,
                         "(Tensor x, Tensor residual, Tensor? weight, float eps) -> (Tensor, Tensor)")
    _layer = _register("layer_norm", _layer_norm, "(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor")
    _add_layer = _register("add_layer_norm", _add_layer_norm,
                           "(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor)")


class _PackedWeights:
    """Weights that kernels packed, found again by where they lie in memory. An entry keeps that memory, so that nothing else can
    come to lie there, and with PyTorch's tensors the number of their version: what changed them in place raised it, and they are
    packed anew. The oldest entries go beyond `most`."""

    most = 1024

    def __init__(self) -> None:
        self._entries: OrderedDict[Any, tuple[Any, int, _ext.LinearWeights]] = OrderedDict()
        self._lock = Lock()

    def of(self, w: Any) -> _ext.LinearWeights:
        of_torch = gpu.is_of(w, "torch", "Tensor")
        version = w._version if of_torch and not w.is_inference() else 0
        key = ((w.data_ptr(), str(w.device), str(w.dtype), tuple(w.shape), w.stride()) if of_torch
               else (w.ctypes.data, "numpy", w.dtype.str, w.shape, w.strides))
        with self._lock:
            found = self._entries.get(key)
            if found and found[1] == version:
                self._entries.move_to_end(key)
                return found[2]
        held = w.detach() if of_torch else w
        copy = held.cpu().contiguous().clone() if of_torch else np.array(w, order="C")
        packed = _ext.LinearWeights(to_tensor(copy))
        with self._lock:
            self._entries[key] = (held, version, packed)
            self._entries.move_to_end(key)
            while len(self._entries) > self.most:
                self._entries.popitem(last=False)
        return packed

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


_packed = _PackedWeights()


def forget_weights() -> None:
    """Frees the weights that `linear(..., pack=True)` packed, and those that it keeps for that."""
    _packed.clear()


def _dense(value: Any) -> Any:
    if value is None or not isinstance(value, np.ndarray):
        return value.contiguous() if gpu.is_of(value, "torch", "Tensor") else value
    return np.ascontiguousarray(value)


def _linear(x: Any, w: Any, bias: Any, residual: Any, gate: Any, epilogue: str, autotune: bool, pack: bool) -> Any:
    if not gpu.is_of(x, "torch", "Tensor") and not isinstance(x, np.ndarray):
        raise UsageError(f"x is a {type(x).__name__}, expected an array of PyTorch or NumPy")
    if getattr(w, "ndim", 0) != 2 or x.ndim == 0:
        raise UsageError(f"x has shape {list(x.shape)} and w {list(getattr(w, 'shape', []))}, expected (..., k) and (n, k)")
    of_torch = gpu.is_of(w, "torch", "Tensor")
    if pack and not of_torch and w.flags.writeable:
        raise UsageError("pack=True: the array w may change, and NumPy does not tell when; "
                         "w.flags.writeable = False says that it will not")
    # The transpose of a dense matrix is read as it lies.
    by_columns = not (not w.is_contiguous() and w.t().is_contiguous() if of_torch
                      else not w.flags.c_contiguous and w.T.flags.c_contiguous)
    lies = _dense(w if by_columns else w.T)
    shape = (*x.shape[:-1], w.shape[0])
    y = x.new_empty(shape) if gpu.is_of(x, "torch", "Tensor") else np.empty(shape, x.dtype)
    stream, tensor = _borrower(x)
    packed = _packed.of(lies) if pack else None
    _ext.linear(epilogue, by_columns, autotune, tensor(_dense(x)), tensor(lies), tensor(_dense(bias)), tensor(_dense(gate)),
                tensor(_dense(residual)), tensor(y), packed, stream)
    return y


if _torch is not None:
    def _torch_linear(x: Any, w: Any, bias: Any, residual: Any, gate: Any, epilogue: str, autotune: bool, pack: bool) -> Any:
        return _linear(x, w, bias, residual, gate, epilogue, autotune, pack)

    _linear_op = _torch.library.custom_op(
        "smelt::linear", _torch_linear, mutates_args=(),
        schema="(Tensor x, Tensor w, Tensor? bias, Tensor? residual, Tensor? gate, str epilogue, bool autotune, bool pack)"
               " -> Tensor")
    _linear_op.register_fake(lambda x, w, *rest: x.new_empty((*x.shape[:-1], w.shape[0])))
    _linear_torch = _torch.ops.smelt.linear.default


def linear(x: Any, w: Any, bias: Any = None, residual: Any = None, epilogue: str | None = None, gate: Any = None, *,
           autotune: bool = True, pack: bool = False) -> Any:
    """epilogue(x · wᵀ + bias) · gate + residual, in one kernel; what is left out is left out.

    x: (…, k); w: (n, k), as torch.nn.Linear has it; bias: (n); residual, gate: (…, n). All of one type among float32, float16
    and bfloat16, all on the processor or on one GPU. Sums and the epilogue are computed in float32 and rounded once.
    epilogue: a function of one value: "relu", "gelu" (by erf), "gelu_tanh", "silu", "sigmoid", "tanh", … None: none.
    autotune: the first call for a problem measures the kernels, unless the tuning cache knows it; False takes the cost model's
    first choice.
    pack: kernels may keep w packed, for as long as its memory and its version (Tensor._version) are the same; it is packed anew
    after a change in place. Changes that PyTorch does not count (through w.data, NumPy or another library) are not seen.
    forget_weights() frees what is kept. An array of NumPy has to be read-only.

    It has no gradients. torch.compile takes it as it is (torch.ops.smelt.linear)."""
    how = epilogue or ""
    if _torch is not None and isinstance(x, _torch.Tensor):
        return _linear_torch(x, w, bias, residual, gate, how, autotune, pack)
    return _linear(x, w, bias, residual, gate, how, autotune, pack)


def tune(problems: str | Sequence[str] = (), *, model: Path = "", plot: Path = "", **options: Unpack[BuildOptions]) -> Result:
    """Measures every kernel that runs these matrix products, and those of `model` where it is given: the command's `smelt tune`.

    problems: one or several of gemm:TYPE:MxNxK[:LAYOUT[:EPILOGUE]], as "gemm:f16:48x4096x4096:rcr:bias+relu".
    plot: an SVG to write: the time over M from 1 to 512 of the first, and all candidates under the machine's roof.
    options: those of BuildOptions. The result prints as the command's tables; result["candidates"] has the rows."""
    texts = [problems] if isinstance(problems, str) else list(problems)
    return Result(*_ext.tune(texts, os.fspath(model), make_options(options), os.fspath(plot)))


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, residual: Any = None) -> Any:
    """s / sqrt(mean(s²) + eps) · weight over the last axis, where s = x + residual. Returns it, or (it, s) with a residual.

    x, residual: (…, d) of float32, float16 or bfloat16; weight: (d) of any of these. It computes in float32."""
    if _torch is not None and isinstance(x, _torch.Tensor):
        return _rms(x, weight, eps) if residual is None else _add_rms(x, residual, weight, eps)
    return _norm(False, eps, x, residual, weight, None)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, residual: Any = None) -> Any:
    """(s - mean(s)) / sqrt(variance(s) + eps) · weight + bias over the last axis, where s = x + residual; else as rms_norm."""
    if _torch is not None and isinstance(x, _torch.Tensor):
        return _layer(x, weight, bias, eps) if residual is None else _add_layer(x, residual, weight, bias, eps)
    return _norm(True, eps, x, residual, weight, bias)
