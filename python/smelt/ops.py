"""Single operators by smelt's kernels, on tensors of PyTorch, CuPy and NumPy.

    y = smelt.ops.rms_norm(x, weight, 1e-6)
    y, h = smelt.ops.rms_norm(x, weight, 1e-6, residual=h)       # h = x + h, y its norm

Tensors on a GPU are read and written in place, on their library's current stream; a call does not wait for the result. For
PyTorch these are custom operators (torch.ops.smelt), and torch.compile takes them as they are. They have no gradients. The first
call for a problem measures the kernels and chooses one, unless the tuning cache knows the problem.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import gpu
from . import smelt_ext as _ext
from .errors import UsageError
from .session import to_tensor

try:
    import torch as _torch
except ImportError:
    _torch = None  # type: ignore[assignment]


def _normalize(centre: bool, eps: float, x: Any, residual: Any, weight: Any, bias: Any, y: Any, total: Any) -> None:
    stream = gpu.stream_of(x)[0] if gpu.number_of(x) is not None else 0
    of_torch = stream and gpu.is_of(x, "torch", "Tensor")

    def tensor(value: Any) -> _ext.Tensor | None:
        if value is None:
            return None
        if of_torch and gpu.is_of(value, "torch", "Tensor") and value.device == x.device:   # on that stream already
            return _ext.Tensor.borrow_device(_torch.utils.dlpack.to_dlpack(gpu.plain_torch(value)))
        return gpu.borrow(value, stream) if gpu.number_of(value) is not None else to_tensor(value)

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
