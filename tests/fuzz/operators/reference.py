"""ONNX's reference implementation, with what smelt does where ONNX leaves it open: casts beyond an integer's range, windows of one element."""
import warnings

import numpy as np
from onnx import helper, reference
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_blackman_window import BlackmanWindow as OnnxBlackmanWindow
from onnx.reference.ops.op_cast import cast_to
from onnx.reference.ops.op_hamming_window import HammingWindow as OnnxHammingWindow
from onnx.reference.ops.op_hann_window import HannWindow as OnnxHannWindow


def saturated(x, dtype):
    """The floats as integers: NaN as 0, what lies beyond the range as its end."""
    ends = np.iinfo(dtype)
    whole = np.trunc(np.nan_to_num(x.astype(np.longdouble), nan=0.0))   # which holds each end of 64 bits
    return np.clip(whole, ends.min, ends.max).astype(dtype)


def cast(x, to, saturate, round_mode):
    dtype = helper.tensor_dtype_to_np_dtype(to)
    floats_to_integers = x.dtype.kind == "f" and dtype.kind in "iu"
    return saturated(x, dtype) if floats_to_integers else cast_to(x, to, saturate, round_mode)


class Cast(OpRun):
    op_domain = ""

    def _run(self, x, to=None, saturate=True, round_mode="up"):
        return (cast(x, to, saturate, round_mode),)


class CastLike(OpRun):
    op_domain = ""

    def _run(self, x, y, saturate=True, round_mode="up"):
        return (cast(x, helper.np_dtype_to_tensor_dtype(y.dtype), saturate, round_mode),)


def window(base):
    """The operator; ONNX's formula of a symmetric window divides 0 by 0 where it has one element."""

    def run(self, size, output_datatype=None, periodic=None):
        if size == 1 and not periodic:
            return (np.ones(1, helper.tensor_dtype_to_np_dtype(output_datatype)),)
        return base._run(self, size, output_datatype, periodic)

    return type(base.__name__, (base,), {"op_domain": "", "_run": run})


OPEN = [Cast, CastLike, window(OnnxHannWindow), window(OnnxHammingWindow), window(OnnxBlackmanWindow)]


def run(model, feeds):
    """The outputs, or an exception: the implementation takes less than ONNX's specification does."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reference.ReferenceEvaluator(model, new_ops=OPEN).run(None, feeds)
