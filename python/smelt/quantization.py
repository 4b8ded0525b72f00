"""8-bit models by ONNX Runtime's static quantizer, and what that cost.

    print(smelt.quantize("resnet50.onnx", "resnet50.int8.onnx", "images"))     # a folder of .npz files, a batch each
"""
from __future__ import annotations

import json
import logging
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .busy import BusyLine, stage, stage_part
from .errors import Error, UnsupportedError, UsageError
from .options import Path
from .session import Session
from .verbs import Result

Batch = Mapping[str, np.ndarray]
ACTIVATIONS = ("u8", "s8")
METHODS = ("minmax", "entropy", "percentile")


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
    loaded = onnx.load(source)
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
            whole, ready = os.path.join(scratch, "whole.onnx"), os.path.join(scratch, "ready.onnx")
            onnx.save(loaded, whole)   # weights inside: the preprocessing reads no data file beside its model
            quant_pre_process(whole, ready, skip_symbolic_shape=True)
            stage("calibrating, and writing the model in 8 bits")
            ort.quantize_static(
                ready, target, Reader(), quant_format=ort.QuantFormat.QDQ, per_channel=per_channel,
                activation_type=ort.QuantType.QUInt8 if activations == "u8" else ort.QuantType.QInt8,
                weight_type=ort.QuantType.QInt8, nodes_to_exclude=list(exclude),
                calibrate_method=ort.CalibrationMethod[{"minmax": "MinMax"}.get(method, method.capitalize())])
    finally:
        logging.getLogger().setLevel(level)
    made = onnx.load(target)
    return Quantized(target, {"quantized": target, "batches": len(batches), "outputs": _errors(source, target, batches, threads),
                              "float_nodes": _float_nodes(made, set(QDQRegistry), set(exclude)), "nodes": _counts(made)})


def _inputs(model: Any) -> list[str]:
    constants = {t.name for t in model.graph.initializer}
    return [i.name for i in model.graph.input if i.name not in constants]


def _batches(data: Path | Iterable[Batch], inputs: list[str], limit: int) -> list[Batch]:
    batches: list[Batch] = []
    if isinstance(data, str | os.PathLike):
        folder = pathlib.Path(data)
        for file in sorted(folder.glob("*.np[zy]"))[:limit]:
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray) and len(inputs) != 1:
                raise UsageError(f"{file}: one array, but the model has {len(inputs)} inputs", "A .npz file holds inputs by name")
            batches.append({inputs[0]: loaded} if isinstance(loaded, np.ndarray) else dict(loaded))
        if not batches:
            raise UsageError(f"{folder}: no .npz or .npy file in it", "Each holds a batch: np.savez(file, x=image)")
    else:
        batches = [dict(b) for b, _ in zip(data, range(limit), strict=False)]
        if not batches:
            raise UsageError("no batch to calibrate with")
    for i, batch in enumerate(batches):
        missing = [name for name in inputs if name not in batch]
        if missing:
            raise UsageError(f"batch {i} has no input '{missing[0]}'", f"It has: {', '.join(batch)}")
    return [{name: b[name] for name in inputs} for b in batches]


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


def _float_nodes(model: Any, known: set[str], excluded: set[str]) -> list[dict[str, str]]:
    """The nodes that compute in float, each with the reason."""
    from onnx import TensorProto

    graph = model.graph
    maker = {o: n for n in graph.node for o in n.output}
    floats = {t.name for t in graph.initializer if t.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16)}
    computes = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    found = []
    for n in graph.node:
        if n.op_type in ("QuantizeLinear", "DequantizeLinear", "Constant"):
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
        found.append({"node": n.name, "op": n.op_type, "reason": why})
    return found


def _counts(model: Any) -> dict[str, int]:
    kinds = [n.op_type for n in model.graph.node]
    between = sum(k in ("QuantizeLinear", "DequantizeLinear") for k in kinds)
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
        parts.append(_table(f"In float: {len(stayed)} of {data['nodes']['all']} nodes", ["node", "operator", "reason"],
                            [[n["node"], n["op"], n["reason"]] for n in stayed]))
    else:
        parts.append(f"All {data['nodes']['all']} nodes read 8 bits")
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
