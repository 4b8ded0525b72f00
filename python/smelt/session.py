"""Session: build once, run many times; shaped after onnxruntime.InferenceSession."""
from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import gpu
from . import smelt_ext as _ext
from .errors import UsageError
from .options import BuildOptions, make_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

_CPU, _GPU = "CPUExecutionProvider", "CUDAExecutionProvider"

# ONNX element type → (NumPy type, ONNX Runtime's name). ml_dtypes gives the types NumPy lacks.
_NUMPY = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
          11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
_ML_DTYPES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
              24: "float8_e8m0fnu"}
_SUB_BYTE = {21: "uint4", 22: "int4", 23: "float4_e2m1fn", 25: "uint2", 26: "int2"}
_NAMES = {**_NUMPY, 1: "float", 8: "string", 11: "double", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
          19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2",
          26: "int2"}
_CODES = {name: code for table in (_NUMPY, _ML_DTYPES, _SUB_BYTE) for code, name in table.items()}
_BOUNDS = {21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1),
           **{code: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for code, name in _NUMPY.items() if "int" in name}}
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, range)   # what has no element type of its own


class NodeArg:
    """An input or output: `name`, `type` ("tensor(float)", or "seq(tensor(float))" of a sequence) and `shape` (numbers, symbol
    names, or None where unknown)."""

    def __init__(self, name: str, onnx_type: int, shape: list[int | str | None], is_sequence: bool = False) -> None:
        self.name = name
        self.onnx_type = onnx_type
        self.type = f"tensor({_NAMES.get(onnx_type, 'unknown')})"
        if is_sequence:
            self.type = f"seq({self.type})"
        self.shape = shape

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself. custom_metadata_map: what its author added, as names of classes or an alphabet; of a plan,
    without what smelt keeps in it."""

    producer_name: str
    producer_version: str
    domain: str
    description: str
    graph_name: str
    custom_metadata_map: dict[str, str]


@dataclass
class Cache:
    """A cache of keys or values that grows in place. The model makes output `present` by a Concat of input `past` and the new
    rows. A run writes the new rows behind the past and leaves the rest of the memory as it is.

    past, present: the names of the input and the output.
    memory: a C-contiguous, writable array or tensor of present's type and shape. Along the axis of the Concat it is as long as
    the cache may get. For a session on a GPU it lies on that GPU.
    length: how much of that axis the past fills before the run."""

    past: str
    present: str
    memory: Any
    length: int

    def _bound(self, stream: int) -> _ext.Cache:
        m = self.memory
        flags = getattr(m, "flags", None) if isinstance(m, np.ndarray) else None
        dense = flags.c_contiguous and flags.writeable and m.dtype.isnative if flags is not None else \
            not hasattr(m, "is_contiguous") or m.is_contiguous()
        if not dense or isinstance(m, _PLAIN):
            raise UsageError(f"the memory for '{self.present}' is not contiguous and writable: it would not grow in place")
        tensor = gpu.borrow(m, stream) if gpu.number_of(m) is not None else to_tensor(m, 0, self.past)
        return _ext.Cache(self.past, self.present, tensor, self.length)


@dataclass(frozen=True)
class _Sequence:
    """An output that is a list of tensors: the outputs that hold them, or the one that holds all of them along its first axis."""

    onnx_type: int
    first: int
    tensors: list[str]
    stacked: bool


def _sequences_in(text: str, outputs: Sequence[str]) -> dict[str, _Sequence]:
    """The sequences that a model gives, by name. text: a line each, "FIRST COUNT TYPE NAME" (src/graph/sequence_outputs.h)."""
    found = {}
    for line in text.split("\n")[:-1]:
        first, count, onnx_type, name = line.split(" ", 3)
        name = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], name)
        stacked = count == "stacked"
        end = int(first) + (1 if stacked else int(count))
        found[name] = _Sequence(int(onnx_type), int(first), list(outputs[int(first):end]), stacked)
    return found


@functools.cache
def _code_of(dtype: np.dtype) -> int:
    """ONNX's number of the element type; 0 where ONNX has none. NumPy takes microseconds to name a type."""
    return _CODES.get(dtype.name, 0)


def _ml_dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _pack(a: np.ndarray, bits: int) -> np.ndarray:
    """Packs sub-byte elements, given one a byte, as ONNX does: the first element in the low bits."""
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


def _check_bounds(a: np.ndarray, onnx_type: int, what: str) -> None:
    low, high = _BOUNDS[onnx_type]
    outside = a[(a < low) | (a > high)]
    if outside.size:
        raise UsageError(f"{what} has the value {outside[0]}, expected {low} to {high} ({_NAMES[onnx_type]})")


def _from_plain(value: Any, onnx_type: int, what: str) -> np.ndarray:
    """Lists and scalars of Python as an array: of the type wanted where it holds their kind of number, else of NumPy's choice."""
    try:
        a = np.asarray(value, dtype=object if onnx_type == 8 else None)
    except ValueError as e:
        raise UsageError(f"{what} is no array: {e}") from None
    kinds = "biu" if onnx_type in _BOUNDS else "b" if onnx_type == 9 else "biufc" if onnx_type in (14, 15) else "biuf"
    if onnx_type in (0, 8) or (a.size and a.dtype.kind not in kinds):
        return a
    if onnx_type in _BOUNDS:
        _check_bounds(a, onnx_type, what)
        return a.astype(_NUMPY.get(onnx_type, "int8"))
    return a.astype(_NUMPY[onnx_type] if onnx_type in _NUMPY else _ml_dtype({**_ML_DTYPES, **_SUB_BYTE}[onnx_type]))


def _of_strings(a: np.ndarray, what: str) -> _ext.Tensor:
    """Text as UTF-8, bytes as they are."""
    try:
        values = a.reshape(-1).tolist()
        for v in values:
            if not isinstance(v, (str, bytes)):
                raise UsageError(f"{what} holds values of type {type(v).__name__}, expected numbers of an ONNX type or strings")
        texts = [v.decode(errors="surrogateescape") if isinstance(v, bytes) else str(v) for v in values]
        return _ext.Tensor.strings(list(a.shape), texts)
    except (TypeError, SystemError):
        raise UsageError(f"{what} holds text that UTF-8 cannot have") from None


def to_tensor(value: Any, onnx_type: int = 0, name: str = "") -> _ext.Tensor:
    """A NumPy array, a DLPack tensor or nested lists as a smelt tensor. C-contiguous memory is not copied.

    Arrays keep their element type; the session reports a type that does not fit. `onnx_type` is the type of input `name`: lists
    become it, and so do int8 and uint8 arrays where it has fewer bits and holds their values."""
    if isinstance(value, _ext.Tensor):
        return value
    what = f"input '{name}'" if name else "an array"
    of_numpy = isinstance(value, np.ndarray)
    if not of_numpy and gpu.number_of(value) is not None:
        raise UsageError(f"{what} lies on a GPU, expected the host's memory",
                         "Build with device='gpu', or pass a copy on the CPU.")
    if not of_numpy and hasattr(value, "__dlpack__"):
        try:
            if getattr(value, "requires_grad", False):
                value = value.detach()
            return _ext.Tensor.borrow(value.contiguous() if hasattr(value, "contiguous") else value)
        except UsageError as e:
            raise UsageError(f"{what}: {e.message}", e.next_step) from None
        except (TypeError, ValueError, BufferError, RuntimeError) as e:
            raise UsageError(f"{what}: a {type(value).__name__} could not be read through DLPack",
                             "Pass a CPU tensor, or convert it with numpy()") from e
    a = _from_plain(value, onnx_type, what) if isinstance(value, _PLAIN) else np.asarray(value)
    if a.dtype.kind in "OUST":
        return _of_strings(a, what)
    code = _code_of(a.dtype)
    if not code:
        raise UsageError(f"{what} has type {a.dtype}, expected one that ONNX has")
    if onnx_type in _SUB_BYTE and onnx_type in _BOUNDS and a.dtype in (np.int8, np.uint8):
        _check_bounds(a, onnx_type, what)
        code = onnx_type
    if code in _SUB_BYTE:
        return _ext.Tensor.packed(_pack(np.ascontiguousarray(a), 2 if code in (25, 26) else 4), code, list(a.shape))
    if not (a.flags.c_contiguous and a.dtype.isnative):
        a = a.astype(a.dtype.newbyteorder("="), order="C", copy=False)
    if code not in _ML_DTYPES:
        return _ext.Tensor.borrow(a)
    return _ext.Tensor.borrow(a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8), code)


def to_numpy(t: _ext.Tensor) -> np.ndarray:
    """A NumPy view of the tensor's memory. The view keeps the memory alive. Sub-byte types and strings are copied."""
    raw = t.array()
    if t.type == 8:
        return np.array(raw, dtype=object).reshape(t.shape)
    if t.type in _ML_DTYPES:
        return raw.view(_ml_dtype(_ML_DTYPES[t.type])).reshape(t.shape)
    if t.type in _SUB_BYTE:
        return _unpack(raw, 2 if t.type in (25, 26) else 4, _ml_dtype(_SUB_BYTE[t.type]), t.shape)
    return raw


def _device_of(providers: str | Sequence[Any] | None) -> str | None:
    """The device of the first of ONNX Runtime's providers that this machine has; None where no provider is named."""
    listed = [providers] if isinstance(providers, str) else providers or []
    pairs = [(p, {}) if isinstance(p, str) else (p[0], p[1]) for p in listed]
    known = [(name, how) for name, how in pairs if name in (_CPU, _GPU)]
    if pairs and not known:
        raise UsageError(f"providers are {', '.join(name for name, _ in pairs)}, expected {_CPU} or {_GPU} among them",
                         "Leave providers out.")
    for name, how in known:
        if name == _CPU:
            return "cpu"
        if _ext.gpu_count() > 0 or len(known) == 1:
            return str(how.get("device_id", 0))
    return "cpu" if known else None


class Session:
    """A model, imported, fused and tuned. Several threads may run one session at a time.

    path: a model file, a plan that `smelt.optimize` wrote, a serialized model (bytes), or an onnx.ModelProto.
    sess_options: as ONNX Runtime takes them; smelt uses the number of threads and session.intra_op.allow_spinning.
    providers: as ONNX Runtime takes them; smelt uses the first that this machine has of CUDAExecutionProvider (with its
    device_id) and CPUExecutionProvider.
    options: those of BuildOptions.
    Raises smelt.Error and its subclasses.
    """

    def __init__(self, path: Any, sess_options: Any = None, providers: str | Sequence[Any] | None = None,
                 **options: Unpack[BuildOptions]) -> None:
        if sess_options is not None:
            options.setdefault("threads", getattr(sess_options, "intra_op_num_threads", 0))
            if hasattr(sess_options, "get_session_config_entry"):
                with contextlib.suppress(RuntimeError):   # it has no such entry
                    options.setdefault("spin", sess_options.get_session_config_entry("session.intra_op.allow_spinning") != "0")
        device = _device_of(providers)
        if device is not None:
            options.setdefault("device", device)
        o = make_options(options)
        self._on_gpu = o.device != "cpu"
        if hasattr(path, "SerializeToString"):
            path = path.SerializeToString()
        from_bytes = isinstance(path, (bytes, bytearray))
        self._session = _ext.session_from_bytes(bytes(path), o) if from_bytes else _ext.Session(os.fspath(path), o)
        self._inputs = [NodeArg(*i) for i in self._session.inputs()]
        self._outputs = [NodeArg(*i) for i in self._session.outputs()]
        self._types = {i.name: i.onnx_type for i in self._inputs}
        self._names = [o.name for o in self._outputs]
        self._sequences = _sequences_in(self._session.model()[-1].get("smelt.sequences", ""), self._names)
        for name, s in reversed(self._sequences.items()):
            self._outputs[s.first:s.first + len(s.tensors)] = [NodeArg(name, s.onnx_type, [], is_sequence=True)]
        self._direct = None if self._on_gpu else _ext.DirectRuns(self._session)

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, in their order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in their order."""
        return list(self._outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself, under the names that ONNX Runtime has for it."""
        *said, added = self._session.model()
        return ModelMetadata(*said, {key: text for key, text in added.items() if not key.startswith("smelt.")})

    def __repr__(self) -> str:
        def of(args: list[NodeArg]) -> str:
            return ", ".join(f"{a.name}: {a.type} {a.shape}" for a in args)

        return f"<smelt.Session ({of(self._inputs)}) -> ({of(self._outputs)}) on {'a GPU' if self._on_gpu else 'the CPU'}>"

    def get_providers(self) -> list[str]:
        """The name of the provider that ONNX Runtime would use for this session's device."""
        return [_GPU if self._on_gpu else _CPU]

    def cancel(self) -> None:
        """Ends the runs of this session that are under way, from another thread: each raises StoppedError. A run ends between two
        of the plan's steps, or between two iterations of a Loop or Scan. The session can run again."""
        self._session.cancel()

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None,
            caches: Sequence[Cache] = ()) -> list[Any]:
        """Runs once and returns the outputs as NumPy arrays, a sequence as a list of them.

        output_names: the outputs to return, in this order; None or empty: all.
        input_feed: name → NumPy array, DLPack tensor or nested lists. Contiguous memory is not copied; neither are results.
        run_options: ignored; ONNX Runtime takes it.
        caches: caches that grow in place. Their pasts are not in input_feed, and the result for a present is its memory."""
        if self._sequences:
            return self._with_lists(output_names,
                                    lambda names: [to_numpy(t) for t in self._run(names, input_feed, None, caches)],
                                    lambda a: [a[i, ...] for i in range(len(a))])
        if self._direct and not caches:
            results: list[Any] | None = self._direct.run(input_feed, output_names)
            if results is not None:
                return results
        return [to_numpy(t) for t in self._run(output_names, input_feed, None, caches)]

    def _with_lists(self, output_names: Sequence[str] | None, run: Callable[[list[str]], list[Any]],
                    unstack: Callable[[Any], list[Any]]) -> list[Any]:
        """What `run` gives for the outputs' tensors, those of a sequence as a list."""
        wanted = [(name, self._sequences.get(name)) for name in output_names or [o.name for o in self._outputs]]
        tensors = [t for name, s in wanted for t in ([name] if s is None else s.tensors)]
        results = iter(run(tensors) if tensors else ())
        return [next(results) if s is None else unstack(next(results)) if s.stacked else [next(results) for _ in s.tensors]
                for _, s in wanted]

    def run_tensors(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], stream: Any = None,
                    caches: Sequence[Cache] = ()) -> list[Any]:
        """As run, but returns tensors that torch.from_dlpack takes. Types that NumPy lacks (bfloat16) keep their type.

        On a GPU: where an input lies there (a tensor of PyTorch, CuPy or JAX), the results lie there too. Nothing is copied, and
        the call does not wait for the run. The run is put on `stream`: a CUstream's number, or a stream of PyTorch or CuPy. The
        default is the current stream of the library that the first such input comes from."""
        if not self._sequences:
            return self._run(output_names, input_feed, stream, caches)
        return self._with_lists(output_names, lambda names: self._run(names, input_feed, stream, caches), _ext.unstacked)

    def _run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], stream: Any,
             caches: Sequence[Cache]) -> list[_ext.Tensor]:
        types = self._types
        feed = {name: value for name, value in input_feed.items() if value is not None}
        names = list(output_names or self._names)
        there: list[Any] = []
        if self._on_gpu:
            there = [v for v in (*feed.values(), *(c.memory for c in caches)) if gpu.number_of(v) is not None]
        if not self._on_gpu and stream is not None:
            raise UsageError("a stream was given, and the session runs on the processor", "Build with device='gpu'.")
        if not there and stream is None:
            tensors = {name: to_tensor(value, types.get(name, 0), name) for name, value in feed.items()}
            results = self._session.run(tensors, names, [c._bound(0) for c in caches])
        else:
            handle, keep = gpu.stream_of(there[0]) if stream is None else gpu.handle_of(stream)
            tensors = {name: gpu.borrow(value, handle) if gpu.number_of(value) is not None else
                       to_tensor(value, types.get(name, 0), name) for name, value in feed.items()}
            results = self._session.enqueue(tensors, names, [c._bound(handle) for c in caches], handle, keep)
            for name, value in feed.items():
                if gpu.must_be_kept(value, handle):
                    _ext.keep(tensors[name], handle)
        return [results[name] for name in names]
