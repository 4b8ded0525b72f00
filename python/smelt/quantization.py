"""8-bit models by ONNX Runtime's static quantizer, and what that cost.

    print(smelt.quantize("resnet50.onnx", "resnet50.int8.onnx", "images"))     # a folder of .npz files, a batch each
"""
from __future__ import annotations

import json
import logging
import os
import pathlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .busy import BusyLine, stage, stage_part
from .errors import Error, UnsupportedError, UsageError
from .options import Path
from .session import Session
from .verbs import Result, explain

Batch = Mapping[str, np.ndarray]
ACTIVATIONS = ("u8", "s8")
METHODS = ("minmax", "entropy", "percentile")
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


class Quantized(Result):
    """A model that `quantize` wrote, with its tables: each output's error, and the nodes that stayed in float. It is a path."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        super().__init__(json.dumps(data), _tables(data))
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def quantize(model: Path, output: Path, data: Path | Iterable[Batch], *, activations: str = "u8", method: str = "minmax",
             per_channel: bool = True, exclude: Sequence[str] = (), limit: int = 64, threads: int = 0) -> Quantized:
    """Writes `model` with QuantizeLinear and DequantizeLinear around what runs in 8 bits to `output`, runs both on the data, and
    says how far the outputs lie apart and which nodes stayed in float.

    data: a folder whose .npz files each hold one batch, inputs by name (.npy: of a model with one input); or batches.
    activations: "u8" or "s8"; weights are i8. method: how ranges are found, "minmax", "entropy" or "percentile".
    per_channel: a scale for each output channel of the weights.
    exclude: names of nodes that stay in float. limit: batches that are read at most. threads: of the runs that compare.
    Raises UsageError, and UnsupportedError where onnx or onnxruntime is not installed."""
    if activations not in ACTIVATIONS:
        raise UsageError(f"activations {activations!r}, expected one of {', '.join(ACTIVATIONS)}")
    if method not in METHODS:
        raise UsageError(f"method {method!r}, expected one of {', '.join(METHODS)}")
    stage("reading the model and its batches")
    try:
        import onnx
        from onnxruntime import quantization as ort
        from onnxruntime.quantization.registry import QDQRegistry
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as e:
        raise UnsupportedError(f"quantize needs {e.name}, which is not installed", "pip install onnx onnxruntime sympy") from None

    source, target = os.fspath(model), os.fspath(output)
    folder = pathlib.Path(target).absolute().parent
    if not pathlib.Path(source).is_file():
        raise UsageError(f"{source}: no such file")
    if not folder.is_dir():
        raise UsageError(f"{target}: there is no folder {folder} to write it to")
    loaded = onnx.load(source)
    kinds = {n.op_type for n in loaded.graph.node}
    if there := sorted(kinds & set(CONVERSIONS)):
        raise UsageError(f"{source}: it is quantised already (it has {', '.join(there)})",
                         "Quantise the model in f32 that it was made of")
    inputs = _inputs(loaded)
    names = {n.name for n in loaded.graph.node}
    for name in exclude:
        if name not in names:
            raise UsageError(f"{source}: there is no node '{name}' to exclude", f"smelt info {source} lists them")
    batches = _batches(data, inputs, limit)

    class Reader(ort.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(enumerate(batches))

        def get_next(self) -> Batch | None:
            i, batch = next(self.left, (len(batches), None))
            stage_part(i / len(batches))
            return batch

    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)   # the quantizer warns of its own preprocessing
    try:
        with tempfile.TemporaryDirectory() as scratch:
            whole, ready, written = (os.path.join(scratch, f"{n}.onnx") for n in ("whole", "ready", "written"))
            onnx.save(loaded, whole)   # weights inside: the preprocessing reads no data file beside its model
            quant_pre_process(whole, ready, skip_symbolic_shape=True)
            stage("calibrating, and writing the model in 8 bits")
            ort.quantize_static(
                ready, written, Reader(), quant_format=ort.QuantFormat.QDQ, per_channel=per_channel,
                activation_type=ort.QuantType.QUInt8 if activations == "u8" else ort.QuantType.QInt8,
                weight_type=ort.QuantType.QInt8, nodes_to_exclude=list(exclude),
                calibrate_method=ort.CalibrationMethod[{"minmax": "MinMax"}.get(method, method.capitalize())])
            shutil.move(written, target)
    finally:
        logging.getLogger().setLevel(level)
    made = onnx.load(target)
    stayed = _float_nodes(made, target, _reasons(made, set(QDQRegistry), set(exclude)))
    outputs = _errors(source, target, batches, threads)
    return Quantized(target, {"format": "smelt.quantize", "version": 1, "quantized": target, "batches": len(batches),
                              "outputs": outputs, "float_nodes": stayed, "nodes": _counts(made)})


def _inputs(model: Any) -> dict[str, Any]:
    """The tensors that a run is given, by name."""
    constants = {t.name for t in model.graph.initializer}
    return {i.name: i.type.tensor_type for i in model.graph.input if i.name not in constants}


def _batches(data: Path | Iterable[Batch], inputs: dict[str, Any], limit: int) -> list[Batch]:
    batches: list[Batch] = []
    names: list[str] = []   # of the batches
    if isinstance(data, str | os.PathLike):
        folder = pathlib.Path(data)
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "It holds .npz files, a batch each: np.savez(file, x=image)")
        for file in sorted(folder.glob("*.np[zy]"))[:limit]:
            try:
                loaded = np.load(file)
                batch = {next(iter(inputs)): loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
            except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
                raise UsageError(f"{file}: it cannot be read: {e}") from None
            if isinstance(loaded, np.ndarray) and len(inputs) != 1:
                raise UsageError(f"{file}: one array, but the model has {len(inputs)} inputs", "A .npz file holds inputs by name")
            batches.append(batch)
            names.append(str(file))
        if not batches:
            images = any(f.suffix.lower() in (".jpg", ".jpeg", ".png", ".bmp", ".webp") for f in folder.iterdir())
            raise UsageError(f"{folder}: no .npz or .npy file in it",
                             "Each holds a batch, prepared as the model wants it: np.savez(file, x=image)" +
                             (". How an image becomes an input (size, mean, order of channels) only you know" if images else ""))
    else:
        batches = [dict(b) for b, _ in zip(data, range(limit), strict=False)]
        names = [f"batch {i}" for i in range(len(batches))]
        if not batches:
            raise UsageError("no batch to calibrate with")
    for batch, name in zip(batches, names, strict=True):
        missing = [i for i in inputs if i not in batch]
        if missing:
            raise UsageError(f"{name} has no input '{missing[0]}'", f"It has: {', '.join(batch)}")
    return [{i: _fitting(np.asarray(b[i]), i, tensor, name) for i, tensor in inputs.items()}
            for b, name in zip(batches, names, strict=True)]


def _fitting(value: np.ndarray, name: str, tensor: Any, batch: str) -> np.ndarray:
    """The value in the input's type, where it is of the same kind: NumPy's own floats have 64 bits. Raises UsageError for another
    kind or shape."""
    from onnx import helper

    wanted = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    kinds = {"f": "f", "i": "iu", "u": "iu"}
    if value.dtype != wanted and value.dtype.kind not in kinds.get(wanted.kind, ""):
        raise UsageError(f"{batch}: '{name}' is {value.dtype}, expected {wanted}")
    if tensor.HasField("shape"):
        sizes = [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param or "?" for d in tensor.shape.dim]
        if len(sizes) != value.ndim or any(isinstance(s, int) and s != n for s, n in zip(sizes, value.shape, strict=True)):
            raise UsageError(f"{batch}: '{name}' has shape {list(value.shape)}, expected [{', '.join(map(str, sizes))}]")
    return value.astype(wanted, copy=False)


def _errors(source: str, target: str, batches: list[Batch], threads: int) -> list[dict[str, Any]]:
    """Of each output: the error's root mean square over the output's, the largest difference, and where it has classes along its
    last axis (rank 2) how often both have the same one first."""
    stage("comparing the model in 8 bits with the one in float")
    before, after = (Session(p, threads=threads, tuning_level=0) for p in (source, target))
    names = [o.name for o in before.get_outputs()]
    totals = [[0.0, 0.0, 0.0, 0, 0] for _ in names]   # squares of errors, of outputs, the largest difference, same, rows
    for i, batch in enumerate(batches):
        stage_part(i / len(batches))
        for t, y, z in zip(totals, before.run(None, batch), after.run(None, batch), strict=True):
            a, b = np.asarray(y, np.float64), np.asarray(z, np.float64)
            t[0] += float(((a - b) ** 2).sum())
            t[1] += float((a ** 2).sum())
            t[2] = max(t[2], float(np.abs(a - b).max(initial=0)))
            if a.ndim == 2 and a.shape[1] > 1:
                t[3] += int((a.argmax(1) == b.argmax(1)).sum())
                t[4] += a.shape[0]
    return [{"output": n, "rms_relative": (e / s) ** 0.5 if s else 0.0, "max_abs": most,
             "same_first": same / rows if rows else None}
            for n, (e, s, most, same, rows) in zip(names, totals, strict=True)]


def _float_nodes(made: Any, target: str, reasons: dict[str, str]) -> list[dict[str, Any]]:
    """The nodes that compute in float, those that `smelt explain` lists, each with the reason and with `cost_us`: its estimate of
    the step that stands for them, by equal parts. Where the written model itself has floats, the reason is the quantizer's."""
    ops = {n.name: n.op_type for n in made.graph.node}
    found: dict[str, dict[str, Any]] = {}
    for row in explain(target).data.get("float_nodes", []):
        names = [n for n in row["nodes"] if ops.get(n) not in CONVERSIONS]
        for n in names:
            node = {"node": n, "op": ops.get(n, row["op"]), "reason": reasons.get(n, row["detail"]), "cost_us": 0.0}
            found.setdefault(n, node)["cost_us"] += (row["cost_us"] or 0.0) / len(names)
    return list(found.values())


def _reasons(model: Any, known: set[str], excluded: set[str]) -> dict[str, str]:
    """Why the quantizer left nodes in float, by their names."""
    from onnx import TensorProto, shape_inference

    graph = model.graph
    try:
        inferred = shape_inference.infer_shapes(model).graph
    except Exception:   # models of 2 GB and more
        inferred = graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*inferred.value_info, *inferred.output]}
    of_floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.UNDEFINED}
    maker = {o: n for n in graph.node for o in n.output}
    floats = {t.name for t in graph.initializer if t.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16)}
    computes = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    found = {}
    for n in graph.node:
        if n.op_type in (*CONVERSIONS, "Constant"):
            continue
        if all(types.get(o, TensorProto.UNDEFINED) not in of_floats for o in n.output):   # shapes, masks, tokens
            continue
        from_float = [i for i in n.input if i and (i in floats or i not in maker or maker[i].op_type != "DequantizeLinear")]
        tensors = [i for i in n.input if i]
        if n.op_type in computes:   # one operand in float is enough
            in_float = any(i in from_float for i in n.input[:2])
        else:
            in_float = bool(tensors) and len(from_float) == len(tensors)
        if not in_float:
            continue
        if n.name in excluded:
            why = "it was excluded"
        elif n.op_type not in known and n.op_type not in computes:
            why = f"the quantizer has no {n.op_type} in 8 bits"
        elif n.op_type in computes and n.input[1] in from_float and n.input[1] in maker:
            why = f"its right operand {n.input[1]} is computed in float, by {maker[n.input[1]].op_type}"
        else:
            first = from_float[0]
            by = f", from {maker[first].op_type} {maker[first].name}" if first in maker else ""
            why = f"its input {first} is in float{by}"
        found[n.name] = why
    return found


def _counts(model: Any) -> dict[str, int]:
    kinds = [n.op_type for n in model.graph.node]
    between = sum(k in CONVERSIONS for k in kinds)
    return {"all": len(kinds) - between, "quantize_and_dequantize": between}


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(r[i]) for r in [heads, *rows]) for i in range(len(heads))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in [heads, *rows]]
    return "\n".join([title, lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def _tables(data: dict[str, Any]) -> str:
    outputs = [[o["output"], f"{o['rms_relative']:.3g}", f"{o['max_abs']:.3g}",
                "–" if o["same_first"] is None else f"{o['same_first']:.1%}"] for o in data["outputs"]]
    parts = [f"{data['quantized']}, calibrated and compared on {data['batches']} batches",
             _table("What it cost", ["output", "error (rms)", "largest", "same first"], outputs)]
    stayed = data["float_nodes"]
    if stayed:
        alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for n in stayed:
            alike.setdefault((n["op"], n["reason"]), []).append(n)
        rows = [[str(len(nodes)), op, f"{sum(n['cost_us'] for n in nodes):.1f}", reason,
                 nodes[0]["node"] + (", …" if len(nodes) > 1 else "")] for (op, reason), nodes in alike.items()]
        rows.sort(key=lambda r: -float(r[2]))
        parts.append(_table(f"In float: {len(stayed)} of {data['nodes']['all']} nodes",
                            ["nodes", "operator", "costs µs", "reason", "which"], rows) +
                     "\ncosts: estimated, of moving floats instead of 8 bits (smelt explain); names of all: --json")
    else:
        parts.append(f"None of {data['nodes']['all']} nodes is in float")
    return "\n\n".join(parts)


def command(text: str) -> None:
    """The verb `smelt quantize`, which gives its options as JSON."""
    options = json.loads(text)
    as_json = options.pop("json")
    try:
        with BusyLine():
            made = quantize(**options)
    except Error as e:
        print(f"smelt quantize: {e.message}", *([e.next_step] if e.next_step else []), sep="\n", file=sys.stderr)
        sys.exit(e.exit_code)
    except Exception as e:   # of onnx and onnxruntime
        sys.exit(f"smelt quantize: {type(e).__name__}: {e}")
    print(json.dumps(made.data, indent=2) if as_json else made)
