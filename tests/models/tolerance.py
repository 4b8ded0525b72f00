"""How far a result may be from the oracle, as shared by the model tests.

The rule: error(fused) <= 2 * error(unfused) + one unit in the last place, where the error is taken against the float64
evaluation of the same graph. It is held twice, for the largest error of an output and for the root mean square of all its
errors, so that neither one wrong element nor a small error everywhere hides. Integers, bools and strings are equal to the
oracle's. Detections whose scores lie within rounding of each other may change places.
"""
import dataclasses
import math

import numpy as np

# Distance between neighbours of a value in [1, 2).
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def wide(x):
    """An array as float64; raw bfloat16 ('V2', as numpy files hold it) too."""
    if x.dtype.kind == "V" and x.dtype.itemsize == 2:
        x = (np.frombuffer(x.tobytes(), "<u2").astype("<u4") << 16).view("<f4").reshape(x.shape)
    return x.astype(np.float64)


def type_name(x):
    return "bfloat16" if x.dtype.kind == "V" and x.dtype.itemsize == 2 else x.dtype.name


def ulp(value, dtype):
    """The distance from |value| to the next larger number of the type."""
    if not math.isfinite(value):
        return 0.0
    return EPSILON[dtype] * 2.0 ** math.floor(math.log2(value)) if value > 0 else 0.0


@dataclasses.dataclass
class Error:
    """Of one output against the oracle's: largest and root-mean-square distance, and the oracle's own size."""
    largest: float
    rms: float
    scale: float          # largest magnitude of the oracle's
    scale_rms: float
    why: str = ""         # what makes the two incomparable

    @property
    def relative(self):
        return self.rms / self.scale_rms if self.scale_rms else self.rms


def error(found, oracle):
    """Infinite where a value is NaN or infinite and the oracle's is not the same."""
    def never(why):
        return Error(math.inf, math.inf, 0.0, 0.0, why)

    if found.shape != oracle.shape:
        return never(f"shape {list(found.shape)}, expected {list(oracle.shape)}")
    if oracle.dtype.kind in "iubOUS":
        if found.dtype.kind != oracle.dtype.kind:
            return never(f"type {found.dtype}, expected {oracle.dtype}")
        wrong = int(np.sum(found != oracle))
        return never(f"{wrong} of {oracle.size} elements differ") if wrong else Error(0.0, 0.0, 0.0, 0.0)
    if oracle.size == 0:
        return Error(0.0, 0.0, 0.0, 0.0)
    largest, squares, scale, scale_squares, finite = 0.0, 0.0, 0.0, 0.0, 0
    a, b = found.reshape(-1), oracle.reshape(-1)
    for at in range(0, a.size, 1 << 24):                     # 131 million logits in one piece would take 3 GB a temporary
        x, y = wide(a[at:at + (1 << 24)]), wide(b[at:at + (1 << 24)])
        real = np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if not np.all(same | (real & np.isfinite(x))):
            return never("NaN or infinity where the oracle has none, or the other way round")
        d = np.abs(np.where(real, x - np.where(real, y, 0), 0))
        largest, scale = max(largest, float(d.max())), max(scale, float(np.abs(y[real]).max(initial=0)))
        squares, scale_squares = squares + float(d @ d), scale_squares + float(y[real] @ y[real])
        finite += int(real.sum())
    count = max(finite, 1)
    return Error(largest, math.sqrt(squares / count), scale, math.sqrt(scale_squares / count))


# An unfused result further from the oracle than this, relative to the oracle's root mean square, is not rounding: one of the two
# computes another function, and a bound of twice such an error would accept anything. (Largest seen among the exported graphs:
# 2e-6, 1.4e-3, 1.9e-2.)
ROUNDING = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1,
            "int8": 5e-2}   # a quantum moved here and there, where a value lies next to a half: 2.4e-2 seen


def scores_of(outputs):
    """The scores where outputs are detections, the best first: rows of one count, whose only vector of floats never increases."""
    vectors = [x for x in outputs.values() if x.ndim == 1 and x.dtype.kind in "fV"]
    if len(vectors) != 1 or len(outputs) < 2 or any(x.ndim == 0 or len(x) != len(vectors[0]) for x in outputs.values()):
        return None
    scores = wide(vectors[0])
    return scores if len(scores) > 1 and np.all(np.diff(scores) <= 0) else None


def in_order_of(oracle, found):
    """The found outputs. Where they are detections, those of a run of scores that lie within rounding of each other by the oracle
    are put in its order: each to the place of that which it is nearest to."""
    scores = scores_of(oracle)
    if scores is None or any(found[name].shape != x.shape or x.dtype.kind in "OUS" for name, x in oracle.items()):
        return found
    kind = type_name(next(found[name] for name, x in oracle.items() if x.ndim == 1 and x.dtype.kind in "fV"))
    close = ROUNDING.get(kind, 0.0) / 10 * np.abs(scores).max()
    starts = np.flatnonzero(np.diff(scores, prepend=np.inf) < -close)
    order = np.arange(len(scores))
    for begin, end in zip(starts, [*starts[1:], len(scores)]):
        left = list(range(begin, end))
        for i in range(begin, end) if end - begin > 1 else ():
            far = [sum(float(np.abs(wide(found[name][j]) - wide(x[i])).sum()) for name, x in oracle.items()) for j in left]
            order[i] = left.pop(int(np.argmin(far)))
    return {name: x[order] for name, x in found.items()}


def is_rounding(found, dtype):
    return math.isfinite(found.largest) and found.relative <= ROUNDING.get(dtype, 0.0)


def accepts(found, reference, dtype):
    """Whether the error of a fused result is within the rule, given the unfused result's; `dtype` names the output's type."""
    if not (math.isfinite(found.largest) and math.isfinite(reference.largest)):
        return False
    unit, unit_rms = (ulp(reference.scale, dtype), ulp(reference.scale_rms, dtype)) if dtype in EPSILON else (0.0, 0.0)
    return found.largest <= 2 * reference.largest + unit and found.rms <= 2 * reference.rms + unit_rms
