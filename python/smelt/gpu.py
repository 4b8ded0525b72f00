"""Tensors of other libraries in a GPU's memory, and the streams that these libraries put work on."""
from __future__ import annotations

import sys
from typing import Any, Optional

from . import smelt_ext as _ext
from .errors import UsageError

_CUDA = (2, 13)     # DLPack's device types: CUDA's memory, and managed memory
_DEFAULT = 1        # DLPack's number, and the driver's handle, of the default stream


def number_of(value: Any) -> Optional[int]:
    """The number of the GPU that a tensor with __dlpack_device__ lies on; None: the host's memory."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(number) if kind in _CUDA else None


def is_of(value: Any, library: str, kind: str) -> bool:
    """Whether it is an instance of library.kind, without importing a library that nobody has."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, getattr(module, kind, ()))


def stream_of(value: Any) -> tuple[int, Any]:
    """The stream that the library of `value` puts work on now, and what keeps it alive. For libraries that do not say (JAX), the
    default stream: __dlpack__ makes it wait for what made `value`."""
    if is_of(value, "torch", "Tensor"):
        stream = sys.modules["torch"].cuda.current_stream(value.device)
        return stream.cuda_stream or _DEFAULT, stream
    if is_of(value, "cupy", "ndarray"):
        stream = sys.modules["cupy"].cuda.get_current_stream(value.device.id)
        return stream.ptr or _DEFAULT, stream
    return _DEFAULT, None


def handle_of(stream: Any) -> tuple[int, Any]:
    """The same of a stream as the caller has it: a number (CUstream), a stream of PyTorch's or CuPy's, or any with
    __cuda_stream__."""
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
    """The tensor's memory where it lies; what made it comes before what is put on `stream` afterwards."""
    if isinstance(value, _ext.Tensor):
        return value
    if getattr(value, "requires_grad", False):
        value = value.detach()
    if hasattr(value, "contiguous"):
        value = value.contiguous()
    return _ext.Tensor.borrow_device(value.__dlpack__(stream=stream))
