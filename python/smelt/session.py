"""Session: build once, run many times; shaped after onnxruntime.InferenceSession."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

import numpy as np

from . import smelt_ext as _ext
from .errors import UsageError
from .options import BuildOptions, make_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PROVIDER = "CPUExecutionProvider"

# ONNX element type → (NumPy type, ONNX Runtime's name). ml_dtypes gives the types NumPy lacks.
_NUMPY = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
          11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
_ML_DTYPES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
              24: "float8_e8m0fnu"}
_SUB_BYTE = {21: "uint4", 22: "int4", 23: "float4_e2m1fn", 25: "uint2", 26: "int2"}
_NAMES = {**_NUMPY, 1: "float", 8: "string", 11: "double", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
          19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2",
          26: "int2"}


class NodeArg:
    """An input or output: `name`, `type` ("tensor(float)") and `shape` (numbers, symbol names, or None where unknown)."""

    def __init__(self, name: str, onnx_type: int, shape: list[Union[int, str, None]]) -> None:
        self.name = name
        self.onnx_type = onnx_type
        self.type = f"tensor({_NAMES.get(onnx_type, 'unknown')})"
        self.shape = shape

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


def _ml_dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _pack(a: np.ndarray, bits: int) -> np.ndarray:
    """Sub-byte elements, one a byte, to ONNX's packing: first element in the low bits."""
    per = 8 // bits
    flat = a.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per, np.uint8)]).reshape(-1, per)
    return np.bitwise_or.reduce(flat << (np.arange(per, dtype=np.uint8) * bits), axis=1).astype(np.uint8)


def _unpack(raw: np.ndarray, bits: int, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    per = 8 // bits
    flat = (raw[:, None] >> (np.arange(per, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
    flat = flat.reshape(-1)[: int(np.prod(shape, dtype=np.int64))].astype(np.uint8)
    if dtype.name in ("int4", "int2"):
        sign = 1 << (bits - 1)
        return ((flat.astype(np.int8) ^ sign) - sign).astype(dtype).reshape(shape)
    return flat.view(dtype).reshape(shape) if dtype.name.startswith("float") else flat.astype(dtype).reshape(shape)


def to_tensor(value: Any, onnx_type: int = 0) -> _ext.Tensor:
    """A NumPy array, a DLPack tensor or nested lists as a smelt tensor. C-contiguous memory is used where it lies."""
    if isinstance(value, _ext.Tensor):
        return value
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        try:
            if getattr(value, "requires_grad", False):
                value = value.detach()
            return _ext.Tensor.borrow(value.contiguous() if hasattr(value, "contiguous") else value, onnx_type)
        except (TypeError, ValueError) as e:
            raise UsageError(f"a DLPack tensor could not be used: {e}", "pass a CPU tensor, or convert it with numpy()") from e
    a = np.asarray(value)
    if a.dtype.kind in "OUS" or onnx_type == 8:
        return _ext.Tensor.strings(list(a.shape), [s.decode() if isinstance(s, bytes) else str(s) for s in a.reshape(-1)])
    code = onnx_type
    for table in (_ML_DTYPES, _SUB_BYTE):
        for k, name in table.items():
            if a.dtype.name == name:
                code = k
    if code in _SUB_BYTE:
        bits = 2 if code in (25, 26) else 4
        return _ext.Tensor.packed(_pack(np.ascontiguousarray(a), bits), code, list(a.shape))
    if not a.flags.c_contiguous or a.dtype.byteorder == ">":
        a = np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("="))
    if code in _ML_DTYPES and a.dtype.name in _ML_DTYPES.values():
        a = a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8)
    elif code and code not in _ML_DTYPES and a.dtype != np.dtype(_NUMPY[code]):
        code = 0   # the session says which type it wanted
    if not a.flags.writeable:
        a = a.view()   # a read-only view is only ever read
    return _ext.Tensor.borrow(a, code if code in _ML_DTYPES else 0)


def to_numpy(t: _ext.Tensor) -> np.ndarray:
    """A NumPy view of the tensor's memory, which it keeps alive. Sub-byte types and strings are copied."""
    raw = t.array()
    if t.type == 8:
        return np.array(raw, dtype=object).reshape(t.shape)
    if t.type in _ML_DTYPES:
        return raw.view(_ml_dtype(_ML_DTYPES[t.type])).reshape(t.shape)
    if t.type in _SUB_BYTE:
        return _unpack(raw, 2 if t.type in (25, 26) else 4, _ml_dtype(_SUB_BYTE[t.type]), t.shape)
    return raw


class Session:
    """A model, imported, fused and tuned.

    path: a model file, a plan that `smelt.optimize` wrote, a serialized model (bytes), or an onnx.ModelProto.
    sess_options, providers: as ONNX Runtime takes them; of the former the number of threads counts, the latter must allow the
    CPU.
    options: those of BuildOptions: threads (0: all), tuning_level (0 … 3), tactics ("+onednn,-reference"), optimize (False: run
    as imported), skip (rewrites), precision ("fp16", "bf16", "tf32"), keep_fp32 (patterns), shapes ({"x": (1, 3, 224, 224)}),
    cache_dir, use_cache.
    Raises smelt.Error and its subclasses. Runs from several threads at a time.
    """

    def __init__(self, path: Any, sess_options: Any = None, providers: Optional[Sequence[Any]] = None,
                 **options: Unpack[BuildOptions]) -> None:
        if sess_options is not None:
            options.setdefault("threads", getattr(sess_options, "intra_op_num_threads", 0))
        names = [p if isinstance(p, str) else p[0] for p in providers or []]
        if names and _PROVIDER not in names:
            raise UsageError(f"providers are {', '.join(names)}, expected {_PROVIDER} among them", "Leave providers out.")
        o = make_options(options)
        if hasattr(path, "SerializeToString"):
            path = path.SerializeToString()
        from_bytes = isinstance(path, (bytes, bytearray))
        self._session = _ext.session_from_bytes(bytes(path), o) if from_bytes else _ext.Session(os.fspath(path), o)
        self._inputs = [NodeArg(*i) for i in self._session.inputs()]
        self._outputs = [NodeArg(*i) for i in self._session.outputs()]

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        return [_PROVIDER]

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Runs on `input_feed` (name → NumPy array, DLPack tensor or nested lists) and returns `output_names` (None: all) as
        NumPy arrays. Contiguous inputs are read where they lie, and results are handed over where they were computed."""
        return [to_numpy(t) for t in self.run_tensors(output_names, input_feed)]

    def run_tensors(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any]) -> list[_ext.Tensor]:
        """As run, but returns tensors for torch.from_dlpack and its like: types that NumPy lacks (bfloat16) keep theirs."""
        types = {i.name: i.onnx_type for i in self._inputs}
        tensors = {name: to_tensor(value, types.get(name, 0)) for name, value in input_feed.items() if value is not None}
        names = [o.name for o in self._outputs] if output_names is None else list(output_names)
        results = self._session.run(tensors, names)
        return [results[name] for name in names]
