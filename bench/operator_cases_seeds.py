"""Cases of operators.py that seeds of operator_cases_random.py found slower than ONNX Runtime, and models of one Loop or Scan."""

import dataclasses

import numpy as np
import onnx
from operator_cases import case, floats, ints, scalar


def folds():
    """Reductions along an outer and a short inner axis, or over lines that fill no register."""
    for op, x, axes in (
        ("ReduceMin", "i64 33x7x129x5", (1, 2)),
        ("ReduceMin", "i64 1000x31x7", (0, 1)),
        ("ReduceSum", "i64 1000x16x2", (0, 2)),
        ("ReduceSum", "f64 17x1000x7", (1,)),
        ("ReduceSum", "f32 1000x17x33", (0, 2)),
        ("ReduceL1", "f32 2000x4x8", (0, 2)),
        ("ReduceMax", "f32 65537x3x3", (0, 2)),
        ("ReduceMax", "u8 4000x31", (0,)),
        ("ReduceSumSquare", "f32 5x1000x2x8", (1, 3)),
        ("ReduceProd", "f64 8x4097x7x5", (0, 3)),
    ):
        yield case(op, x, ints(*axes), low=0.5 if x[0] == "f" else 0, high=1.1 if x[0] == "f" else 3)


def picks():
    """Elements by index, the best of rows, boxes."""
    rng = np.random.default_rng(1)
    for kind, shape, axis in (
        ("f32", (63, 17, 255), 2),
        ("f32", (1000, 1000), 1),
        ("i32", (127, 5, 257), 2),
        ("i64", (17, 4097), 1),
        ("i64", (16, 16, 127), 1),
        ("f16", (5, 65, 31, 1, 127), 3),
    ):
        yield case("GatherElements", f"{kind} {'x'.join(map(str, shape))}", rng.integers(0, shape[axis], shape), axis=axis)
    for x, count in (("f32 8x63x129", 3), ("f32 500x255", 8), ("f32 500x500", 5), ("f32 8x255", 5), ("i32 7000x255", 3)):
        yield case("TopK", x, ints(count), axis=-1, outputs=2, low=-(10**6), high=10**6)
    for boxes, classes, most, overlap, score in (
        (1917, 10, 100, 0.6, 0.01),
        (1917, 90, 100, 0.6, 0.3),
        (3000, 1, 1000, 0.7, 0.0),
        (8400, 1, 300, 0.45, 0.25),
        (8400, 80, 100, 0.45, 0.9),
        (300, 5, 50, 0.5, 0.5),
    ):
        corner, size = rng.random((1, boxes, 2)), rng.random((1, boxes, 2)) * 0.2 + 0.02
        yield case("NonMaxSuppression", np.concatenate([corner, corner + size], 2).astype(np.float32), f"f32 1x{classes}x{boxes}",
                   ints(most), floats(overlap), floats(score), low=0, high=1)


def narrow():
    """Narrow rows, shallow products and products whose rows share places of the cache, bytes along an axis, the one best."""
    rng, zero = np.random.default_rng(2), np.array(3, np.uint8)
    for m, k, n in ((127, 4097, 15), (127, 4096, 16), (63, 8192, 7), (127, 4000, 15)):
        w = rng.integers(-100, 100, (k, n)).astype(np.int8)
        yield case("QLinearMatMul", f"u8 {m}x{k}", scalar(0.1), zero, w, scalar(0.02), np.array(0, np.int8), scalar(0.5), zero,
                   low=0, high=100)
    for m, k, n in ((257, 16, 4097), (64, 16, 4096), (65, 7, 8193), (1000, 33, 1000)):
        w = rng.integers(-100, 100, (k, n)).astype(np.int8)
        yield case("MatMulInteger", f"u8 {m}x{k}", w, zero, low=0, high=100)
    for kind, shape in (("u8", "1000x129x3"), ("i8", "1000x129x2"), ("u8", "33x1000x5"), ("u8", "4097x31")):
        yield case("ArgMax", f"{kind} {shape}", axis=1, low=0, high=120)
    for kind, shape, pads in (("f32", "129x127x33", (2, 1, 1, 0, 2, 1)), ("f64", "129x127x33", (2, 1, 1, 0, 2, 1)),
                              ("f32", "8x64x56x56", (0, 0, 1, 1, 0, 0, 1, 1))):
        yield case("Pad", f"{kind} {shape}", ints(*pads), mode="edge")
    for kind, shape in (("f32", (8, 129, 65, 3)), ("u8", (17, 33, 127, 3)), ("f32", (1000, 5, 3, 3)), ("f32", (4, 31, 100, 2))):
        to = (*shape[:2], *(e + e // 2 + 1 for e in shape[2:]))
        yield case("Resize", f"{kind} {'x'.join(map(str, shape))}", floats(), None, ints(*to), mode="nearest")
    for x, count, largest in (("f32 500x129", 3, 1), ("f32 500x129", 1, 1), ("f16 500x129", 1, 1), ("f16 500x256", 1, 0),
                              ("u8 500x300", 1, 1)):
        low = 0 if x[0] == "u" else -100
        yield case("TopK", x, ints(count), axis=-1, largest=largest, outputs=2, low=low, high=100)
    for outputs in (1, 4):
        yield case("Conv", "f32 255x1x129", f"f32 {outputs}x1x7")


def rows():
    """Normalisations of rows around a register's length or among axes of one element, and bytes of a million floats."""
    for x, axis in (("f16 16x15x4097x1", 0), ("f32 5x5x1000x1x1", 0), ("f32 8x1x33x1x127", 0), ("f32 1000x33x1", 1)):
        yield case("LogSoftmax", x, axis=axis)
    for n, c, width in ((129, 127, 33), (129, 127, 48), (129, 127, 63), (129, 100, 65)):
        yield case("InstanceNormalization", f"f32 {n}x{c}x{width}", f"f32 {c}", f"f32 {c}", low=0.5)
    for x in ("f32 65537", "f32 255x1000", "f32 1000x1000", "f32 33x17x65x33"):
        yield case("QuantizeLinear", x, scalar(0.05), np.array(3, np.uint8))


@dataclasses.dataclass
class Turns:
    """A Loop or a Scan of so many turns over so many elements."""

    op: str
    turns: int
    width: int
    domain: str = ""
    attributes: dict = dataclasses.field(default_factory=dict)

    @property
    def name(self):
        return f"{self.op} of {self.turns} turns over {self.width} elements"

    def feeds(self):
        rng = np.random.default_rng(1)
        found = {"h0": rng.standard_normal((1, self.width))}
        if self.op == "Scan":
            found |= {"x": rng.standard_normal((self.turns, 1, self.width)), "w": 0.1 * rng.standard_normal((self.width,) * 2)}
        return {k: v.astype(np.float32) for k, v in found.items()} | ({"t": np.array(self.turns)} if self.op == "Loop" else {})

    def model(self):
        h, x = f"float[1,{self.width}]", f"float[{self.turns},1,{self.width}]"
        scan = f"""g ({h} h0, {x} x, float[{self.width},{self.width}] w) => ({h} h, {x} ys) {{
            h, ys = Scan <num_scan_inputs = 1, body = b ({h} hi, {h} xi) => ({h} ho, {h} yo) {{
              m = MatMul(hi, w) s = Add(m, xi) ho = Tanh(s) yo = Identity(ho) }}> (h0, x) }}"""
        loop = f"""g (int64 t, {h} h0) => ({h} h) {{ yes = Constant <value = bool {{1}}> ()
            h = Loop (t, yes, h0) <body = b (int64 i, bool go, {h} hi) => (bool on, {h} ho) {{
              on = Identity(go) f = Cast <to = 1> (i) s = Add(hi, f) ho = Tanh(s) }}> }}"""
        return onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + (scan if self.op == "Scan" else loop))


def turns():
    for op, count, width in (("Loop", 1000, 8), ("Loop", 100, 10000), ("Scan", 100, 8), ("Scan", 100, 64)):
        yield Turns(op, count, width)


FAMILIES = (folds, picks, narrow, rows, turns)
