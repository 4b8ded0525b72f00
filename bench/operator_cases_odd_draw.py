"""What the cases of operator_cases_odd.py are drawn from."""

import math

import numpy as np
from onnx import helper
from operator_cases import TYPES, words

REALS = words("f32 f32 f16 f64")
WHOLE = words("i8 u8 i16 u16 i32 u32 i64 u64")


def dtype(kind):
    return np.dtype(helper.tensor_dtype_to_np_dtype(TYPES[kind]))


def shape(d, ranks=(0, 1, 2, 3, 4, 5, 6)):
    """Small and large; one in eight has an axis of no elements, a third an axis of 1."""
    rank = d.of(ranks)
    if rank == 0:
        return []
    while True:
        s = [int(v) for v in d.rng.choice((1, 2, 3, 5, 7, 8, 13, 16, 31, 64, 100, 333), rank)]
        if math.prod(s) <= 400_000 and (math.prod(s) >= 200 or d.of((0, 0, 1))):
            break
    if d.of([0] * 7 + [1]):
        s[d.axis(s)] = 0
    return s
