"""Tensors of other libraries in a GPU's memory, and these libraries' streams."""
from __future__ import annotations

import sys
from typing import Any

from . import smelt_ext as _ext
from .errors import UsageError

_CUDA = (2, 13)     # DLPack's device types: CUDA's memory, and managed memory
_DEFAULT = 1        # DLPack's number, and the driver's handle, of the default stream


def number_of(value: Any) -> int | None:
    """The number of the GPU that a tensor with __dlpack_device__ lies on; None for the host's memory."""
    if is_of(value, "torch", "Tensor"):   # takes a tenth of the time of its __dlpack_device__
        return int(value.device.index) if value.is_cuda else None
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(number) if kind in _CUDA else None


def is_of(value: Any, library: str, kind: str) -> bool:
    """Whether `value` is an instance of library.kind. Imports nothing."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, getattr(module, kind, ()))


def stream_of(value: Any) -> tuple[int, Any]:
    """The current stream of the library of `value`, and the object that keeps the stream alive. Libraries that do not name their
    stream (JAX) get the default stream: __dlpack__ makes it wait for the work that made `value`."""
    if is_of(value, "torch", "Tensor"):
        stream = sys.modules["torch"].cuda.current_stream(value.device)
        return stream.cuda_stream or _DEFAULT, stream
    if is_of(value, "cupy", "ndarray"):
        stream = sys.modules["cupy"].cuda.get_current_stream(value.device.id)
        return stream.ptr or _DEFAULT, stream
    return _DEFAULT, None


def handle_of(stream: Any) -> tuple[int, Any]:
    """The handle of the caller's stream, and the object that keeps the stream alive. `stream` is a number (CUstream), a stream of
    PyTorch or CuPy, or an object with __cuda_stream__."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream or _DEFAULT, None
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle or _DEFAULT, stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1]) or _DEFAULT, stream
    raise UsageError(f"stream={stream!r} is a {type(stream).__name__}, "
                     "expected a CUstream's number or a stream of PyTorch or CuPy")


def borrow(value: Any, stream: int) -> _ext.Tensor:
    """A view of the tensor's memory. Work put on `stream` afterwards waits for the work that made the tensor."""
    if isinstance(value, _ext.Tensor):
        return value
    if is_of(value, "torch", "Tensor"):
        return _borrow_torch(value, stream)
    if is_of(value, "cupy", "ndarray"):
        value = sys.modules["cupy"].ascontiguousarray(value)
    return _ext.Tensor.borrow_device(value.__dlpack__(stream=stream))


def _borrow_torch(value: Any, stream: int) -> _ext.Tensor:
    """As a PyTorch tensor's __dlpack__, with two differences: it takes tensors of GPUs other than PyTorch's current one, and it
    calls record_stream, so that the caller may drop the tensor, or the copy made here, before the work on `stream` is done."""
    torch = sys.modules["torch"]
    value = plain_torch(value)
    current = torch.cuda.current_stream(value.device)
    if (current.cuda_stream or _DEFAULT) != stream:
        other = torch.cuda.default_stream(value.device) if stream == _DEFAULT else \
            torch.cuda.ExternalStream(stream, value.device)
        other.wait_stream(current)
        value.record_stream(other)
    return _ext.Tensor.borrow_device(torch.utils.dlpack.to_dlpack(value))


def plain_torch(value: Any) -> Any:
    """The tensor, or a copy of it, contiguous and with its conjugation and sign applied."""
    if value.requires_grad:
        value = value.detach()
    if not value.is_contiguous():
        value = value.contiguous()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    return value


def must_be_kept(value: Any, stream: int) -> bool:
    """Whether `value` must be kept until the work on `stream` is done, because its library would reuse the memory earlier."""
    if isinstance(value, _ext.Tensor) or is_of(value, "torch", "Tensor"):
        return False
    return stream_of(value)[0] != stream or not is_of(value, "cupy", "ndarray")
