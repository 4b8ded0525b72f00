"""Random cases of operators.py out of several operators: fragments of models as exporters write them, spelled out rather than in
fused operators. Attention, norms, gates, messages along edges, windows, spectra; more in operator_cases_graphs_more.py, loops in
operator_cases_graphs_loops.py."""

import math
from typing import ClassVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from operator_cases import TYPES, ints, parse, random, words
from operator_cases_draw import drawn, text


class Graph:
    """A case of several nodes; a method gives the name of its result."""

    attributes: ClassVar = {}
    domain: ClassVar = ""

    def __init__(self, op, opset=20):
        self.op, self.opset, self.told = op, opset, []
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    @property
    def name(self):
        return " ".join([self.op, *(t for _, t, _, _ in self.inputs), *self.told])

    def tell(self, **what):
        self.told += [f"{k}={v}".replace(" ", "") for k, v in what.items()]

    def input(self, tensor, low=-1, high=1):
        self.inputs.append((f"in{len(self.inputs)}", tensor, low, high))
        return self.inputs[-1][0]

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def f32(self, *values):
        return self.constant(np.array(values[0] if len(values) == 1 else values, np.float32))

    def ints(self, *values):
        return self.constant(ints(*values))

    def __call__(self, op, *inputs, outputs=1, domain="", **attributes):
        found = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        names = [i if isinstance(i, str) or i is None else self.constant(i) for i in inputs]
        self.nodes.append(
            helper.make_node(op, [n or "" for n in names], found, f"n{len(self.nodes)}", domain=domain, **attributes)
        )
        return found[0] if outputs == 1 else found

    def give(self, *names):
        self.outputs += names
        return self

    def feeds(self):
        rng = np.random.default_rng(1)
        return {name: random(rng, tensor, low, high) for name, tensor, low, high in self.inputs}

    def model(self):
        inputs = [helper.make_tensor_value_info(n, TYPES[parse(t)[0]], parse(t)[1]) for n, t, _, _ in self.inputs]
        outputs = [helper.make_empty_tensor_value_info(o) for o in self.outputs]
        graph = helper.make_graph(self.nodes, "fragment", inputs, outputs, self.constants)
        own = [helper.make_opsetid("com.microsoft", 1)] if any(n.domain for n in self.nodes) else []
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset), *own], ir_version=10)
        model = onnx.shape_inference.infer_shapes(model)
        for output in model.graph.output:
            if not output.type.WhichOneof("value"):
                output.type.tensor_type.elem_type = TensorProto.FLOAT
        return model


def rotated(g, x, cos, sin, width, interleaved):
    """x turned by pairs of its last axis: halves, or neighbours."""
    if interleaved:
        even = g("Slice", x, g.ints(0), g.ints(width), g.ints(-1), g.ints(2))
        odd = g("Slice", x, g.ints(1), g.ints(width), g.ints(-1), g.ints(2))
        pair = [g("Unsqueeze", v, g.ints(-1)) for v in (g("Neg", odd), even)]
        turned = g("Reshape", g("Concat", *pair, axis=-1), g.ints(0, 0, 0, -1))
    else:
        first = g("Slice", x, g.ints(0), g.ints(width // 2), g.ints(-1))
        second = g("Slice", x, g.ints(width // 2), g.ints(width), g.ints(-1))
        turned = g("Concat", g("Neg", second), first, axis=-1)
    return g("Add", g("Mul", x, cos), g("Mul", turned, sin))


def attention(d):
    g = Graph("attention")
    heads, width, rows, past = d.of((1, 3, 4, 8, 12)), d.of((16, 20, 32, 64)), d.of((1, 7, 33, 100, 197)), d.of((0, 0, 31, 128))
    batch, shared = d.of((1, 1, 2)), d.of((1, 1, 2, 4))
    shared = shared if heads % shared == 0 else 1
    total, few = rows + past, heads // shared
    kind = d.of(("f32", "f32", "f16"))
    dtype = np.float16 if kind == "f16" else np.float32
    layout, mask, rotary = d.of(("bhsd", "bshd", "packed")), d.of((None, "add", "where", "causal", "bool")), d.of((0, 0, 1, 2))
    g.tell(heads=heads, width=width, past=past, layout=layout, mask=mask, rotary=rotary, shared=shared)

    def heads_of(x, n):
        return g("Transpose", g("Reshape", x, g.ints(batch, rows, n, width)), perm=[0, 2, 1, 3])

    if layout == "packed" and shared == 1:
        x = g("Reshape", g.input(text(kind, [batch, rows, 3 * heads * width])), g.ints(batch, rows, 3, heads, width))
        parts = g("Split", g("Transpose", x, perm=[2, 0, 3, 1, 4]), axis=0, num_outputs=3, outputs=3)
        q, k, v = (g("Squeeze", p, g.ints(0)) for p in parts)
    elif layout == "bhsd":
        q, k, v = (g.input(text(kind, [batch, n, rows, width])) for n in (heads, few, few))
    else:
        q, k, v = (heads_of(g.input(text(kind, [batch, rows, n * width])), n) for n in (heads, few, few))
    if rotary:
        cos, sin = (g.input(text(kind, [1, 1, rows, width])) for _ in range(2))
        q, k = (rotated(g, x, cos, sin, width, rotary == 2) for x in (q, k))
    if past:
        k, v = (g("Concat", g.input(text(kind, [batch, few, past, width])), x, axis=2) for x in (k, v))
        g.give(k, v)
    if shared > 1:
        k, v = (
            g(
                "Reshape",
                g("Expand", g("Unsqueeze", x, g.ints(2)), g.ints(batch, few, shared, total, width)),
                g.ints(batch, heads, total, width),
            )
            for x in (k, v)
        )
    scale = g.constant(np.array(width**-0.5, dtype))
    way = d.of(("after", "before", "both", "div"))
    if way == "both":
        root = g.constant(np.array(width**-0.25, dtype))
        scores = g("MatMul", g("Mul", q, root), g("Mul", g("Transpose", k, perm=[0, 1, 3, 2]), root))
    elif way == "before":
        scores = g("MatMul", g("Mul", q, scale), g("Transpose", k, perm=[0, 1, 3, 2]))
    else:
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Mul", scores, scale) if way == "after" else g("Div", scores, g.constant(np.array(width**0.5, dtype)))
    least = g.constant(np.array(-1e4 if kind == "f16" else np.finfo(np.float32).min, dtype))
    if mask == "add":
        scores = g("Add", scores, g.input(text(kind, [batch, 1, 1, total]), -5, 0))
    elif mask == "where":
        scores = g("Where", g.input(text("bool", [batch, 1, rows, total])), scores, least)
    elif mask == "bool":
        keep = g("Unsqueeze", g.input(text("i64", [batch, total]), 1, 1), g.ints(1, 2))
        gone = g("Sub", g.constant(np.array(1, dtype)), g("Cast", keep, to=TYPES[kind]))
        scores = g("Add", scores, g("Mul", gone, least))
    elif mask == "causal":
        seen = g(
            "Trilu",
            g("ConstantOfShape", g.ints(rows, total), value=numpy_helper.from_array(np.array([True]))),
            g.constant(np.array(past)),
            upper=0,
        )
        scores = g("Where", g("Not", seen), least, scores)
    if kind == "f16" and d.of((0, 1)):
        weights = g("Cast", g("Softmax", g("Cast", scores, to=1), axis=-1), to=10)
    else:
        weights = g("Softmax", scores, axis=-1)
    y = g("MatMul", weights, v)
    if d.of((0, 1)):
        g.tell(weights="given")
        g.give(weights)
    return g.give(g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.ints(batch, rows, heads * width)))


def norm(d):
    """Spelled out, over any axes, in halves by way of f32 too."""
    form = d.of(("layer", "channels", "rms", "group", "l2", "whole", "global", "var", "std"))
    g = Graph(f"norm {form}")
    kind = d.of(("f32", "f32", "f16", "f64"))
    dtype = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
    c = d.of((6, 30, 32, 96, 255))
    s = [d.of((1, 2)), c, *(int(v) for v in d.rng.choice((1, 7, 14, 33, 56), d.of((1, 2, 2, 3))))]
    axis = 1
    if form in ("layer", "rms", "l2") or (form == "std" and d.of((0, 1))):
        s, axis = [s[0], *s[2:], c], -1
    x = v = g.input(text(kind, s))
    if kind == "f16" and d.of((0, 1)):
        v, dtype, g.told = g("Cast", x, to=1), np.float32, [*g.told, "by-f32"]
    one = [c] if axis == -1 else [c, *[1] * (len(s) - 2)]
    eps = g.constant(np.array(1e-5, dtype))
    scale, shift = (g.constant(d.weights(*one).astype(dtype) + dtype(1)) for _ in range(2))

    def squared(t):
        return g("Mul", t, t) if d.of((0, 1)) else g("Pow", t, g.constant(np.array(2, dtype)))

    def mean(t, axes):
        return g("ReduceMean", t, g.ints(*axes))

    axes = {"whole": range(1, len(s)), "global": range(2, len(s)), "var": range(2, len(s))}.get(form, [axis])
    if form == "group":
        n = d.of((3, 2)) if c % 2 == 0 else 3
        flat = g("Reshape", v, g.ints(0, n, -1))
        one_n = [g.constant(np.full(n, k, dtype)) for k in (1, 0)]
        if kind == "f64":
            m = mean(flat, [2])
            c0 = g("Sub", flat, m)
            flat = g("Div", c0, g("Sqrt", g("Add", mean(squared(c0), [2]), eps)))
        else:
            flat = g("InstanceNormalization", flat, *one_n, epsilon=1e-5)
        y = g("Reshape", flat, g.ints(*s))
    elif form == "rms":
        y = g("Mul", v, g("Reciprocal", g("Sqrt", g("Add", mean(squared(v), axes), eps))))
    elif form == "l2":
        y = g("Div", v, g("Expand", g("Clip", g("ReduceL2", v, g.ints(-1)), eps), g("Shape", v)))
    elif form == "var":  # mean of squares less the square of the mean
        m = mean(v, axes)
        var = g("Sub", mean(squared(v), axes), squared(m))
        y = g("Div", g("Sub", v, m), g("Sqrt", g("Add", g("Relu", var), eps)))
    elif form == "std":  # the unbiased deviation
        m = mean(v, axes)
        sums = g("ReduceSum", squared(g("Sub", v, m)), g.ints(*axes))
        y = g("Div", g("Sub", v, m), g("Add", g("Sqrt", g("Div", sums, g.constant(np.array(max(c - 1, 1), dtype)))), eps))
    else:
        m = mean(v, axes)
        c0 = g("Sub", v, m)
        y = g("Div", c0, g("Sqrt", g("Add", mean(squared(c0), axes), eps)))
    y = g("Add", g("Mul", y, scale), shift)
    if dtype is np.float32 and kind == "f16":
        y = g("Cast", y, to=10)
    return g.give(y)


def gates(d):
    """Activations spelled out, gates of split channels, squeezes."""
    form = d.of(words("gelu tanh-gelu silu mish quick glu swiglu softplus hard squeeze eca cbam lstm"))
    g = Graph(f"gate {form}")
    kind = d.of(("f32", "f32", "f16")) if form in ("gelu", "silu", "glu", "tanh-gelu", "hard") else "f32"
    dtype = np.float16 if kind == "f16" else np.float32

    def number(v):
        return g.constant(np.array(v, dtype))

    if form in ("squeeze", "eca", "cbam"):
        c, h, w = d.of((6, 16, 48, 130)), d.of((5, 14, 28, 57)), d.of((9, 14, 28, 33))
        x = g.input(text("f32", [d.of((1, 3)), c, h, w]))
        if form == "squeeze":
            r = max(1, c // 4)
            s = g("ReduceMean", x, g.ints(2, 3)) if d.of((0, 1)) else g("GlobalAveragePool", x)
            s = g("Relu", g("Conv", s, d.weights(r, c, 1, 1), d.weights(r)))
            s = g(d.of(("Sigmoid", "HardSigmoid")), g("Conv", s, d.weights(c, r, 1, 1), d.weights(c)))
        elif form == "eca":
            s = g("Transpose", g("Squeeze", g("GlobalAveragePool", x), g.ints(3)), perm=[0, 2, 1])
            s = g("Transpose", g("Conv", s, d.weights(1, 1, 3), pads=[1, 1]), perm=[0, 2, 1])
            s = g("Sigmoid", g("Unsqueeze", s, g.ints(3)))
        else:
            both = g("Concat", g("ReduceMean", x, g.ints(1)), g("ReduceMax", x, g.ints(1)), axis=1)
            s = g("Sigmoid", g("Conv", both, d.weights(1, 2, 7, 7), pads=[3] * 4))
        return g.give(g("Mul", x, s))
    if form == "lstm":  # a cell by hand
        b, n = d.of((1, 8, 65)), d.of((20, 64, 256))
        x, h, c = g.input(text("f32", [b, n])), g.input(text("f32", [b, n])), g.input(text("f32", [b, n]))
        z = g("Add", g("Gemm", x, d.weights(4 * n, n), d.weights(4 * n), transB=1), g("Gemm", h, d.weights(4 * n, n), transB=1))
        i, f, o, u = g("Split", z, axis=1, num_outputs=4, outputs=4)
        c = g("Add", g("Mul", g("Sigmoid", f), c), g("Mul", g("Sigmoid", i), g("Tanh", u)))
        return g.give(g("Mul", g("Sigmoid", o), g("Tanh", c)), c)
    s = d.shape((2, 3, 4), 500, 400_000)
    s[-1] += s[-1] % 2
    x = g.input(text(kind, s), -3, 3)
    if form == "gelu":
        y = g("Mul", g("Mul", x, g("Add", g("Erf", g("Div", x, number(2**0.5))), number(1))), number(0.5))
    elif form == "tanh-gelu":
        cube = g("Pow", x, number(3)) if d.of((0, 1)) else g("Mul", g("Mul", x, x), x)
        inner = g("Mul", g("Add", x, g("Mul", cube, number(0.044715))), number(math.sqrt(2 / math.pi)))
        y = g("Mul", g("Mul", x, number(0.5)), g("Add", g("Tanh", inner), number(1)))
    elif form == "silu":
        y = g("Mul", x, g("Sigmoid", x))
    elif form == "quick":
        y = g("Mul", x, g("Sigmoid", g("Mul", x, number(1.702))))
    elif form == "mish":
        y = g("Mul", x, g("Tanh", g("Softplus", x)))
    elif form == "softplus":
        y = g("Where", g("Greater", x, number(2)), x, g("Log", g("Add", g("Exp", x), number(1))))
    elif form == "hard":
        y = g("Div", g("Mul", x, g("Clip", g("Add", x, number(3)), number(0), number(6))), number(6))
    else:
        axis = d.of((-1, 1))
        if s[axis] % 2:
            axis = -1
        g.tell(axis=axis)
        a, b = g("Split", x, axis=axis, num_outputs=2, outputs=2)
        y = g("Mul", a, g("Sigmoid", b)) if form == "glu" else g("Mul", g("Mul", a, g("Sigmoid", a)), b)
    return g.give(y)


def edges(d):
    """Messages along edges: gathered, weighed, summed at nodes by each of ONNX's ways."""
    form = d.of(("elements", "nd", "softmax", "mean", "max", "onehot"))
    g = Graph(f"edges {form}")
    nodes, count, width = d.of((10, 100, 700, 2708)), d.of((50, 999, 5000)), d.of((1, 7, 16, 64))
    if form == "onehot":
        nodes, count = min(nodes, 100), min(count, 999)
    x = g.input(text("f32", [nodes, width]))
    source, target = (g.input(text("i64", [count]), 0, nodes - 1) for _ in range(2))
    column = g("Expand", g("Unsqueeze", target, g.ints(1)), g.ints(count, width))
    zeros = g("ConstantOfShape", g("Shape", x))
    sent = g("Gather", x, source)
    if form == "softmax":  # of the edges into each node
        pair = g("Concat", sent, g("Gather", x, target), axis=1)
        score = g("LeakyRelu", g("MatMul", pair, d.weights(2 * width, 1)), alpha=0.2)
        at = g("Unsqueeze", target, g.ints(1))
        low = g("ConstantOfShape", g.ints(nodes, 1), value=numpy_helper.from_array(np.float32([-1e9])))
        most = g("GatherElements", g("ScatterElements", low, at, score, reduction="max"), at)
        e = g("Exp", g("Sub", score, most))
        none = g("ConstantOfShape", g.ints(nodes, 1))
        total = g("GatherElements", g("ScatterElements", none, at, e, reduction="add"), at)
        sent = g("Mul", sent, g("Div", e, total))
        return g.give(g("ScatterElements", zeros, column, sent, reduction="add"))
    sent = g("Relu", g("MatMul", sent, d.weights(width, width)))
    if form == "nd":
        return g.give(g("ScatterND", zeros, g("Unsqueeze", target, g.ints(1)), sent, reduction="add"))
    if form == "onehot":
        spread = g("OneHot", target, g.constant(np.array(nodes)), g.f32(0, 1), axis=0)
        return g.give(g("MatMul", spread, sent))
    if form == "mean":
        ones = g("ConstantOfShape", g.ints(count), value=numpy_helper.from_array(np.float32([1])))
        degree = g("ScatterElements", g("ConstantOfShape", g.ints(nodes)), target, ones, reduction="add")
        summed = g("ScatterElements", zeros, column, sent, reduction="add")
        return g.give(g("Div", summed, g("Unsqueeze", g("Max", degree, g.f32(1.0)), g.ints(1))))
    return g.give(g("ScatterElements", zeros, column, sent, reduction="max" if form == "max" else "add"))


def neighbours(d):
    """Distances of points, the nearest of each, what they hold."""
    g = Graph("neighbours")
    n, m, c, k = d.of((33, 100, 512)), d.of((64, 200)), d.of((3, 16)), d.of((1, 8, 20))
    way = d.of(("differences", "product"))
    g.tell(way=way, k=k)
    x, y = g.input(text("f32", [1, n, c])), g.input(text("f32", [1, m, c]))
    if way == "differences":
        apart = g("Sub", g("Unsqueeze", x, g.ints(2)), g("Unsqueeze", y, g.ints(1)))
        distance = g("ReduceSum", g("Mul", apart, apart), g.ints(-1), keepdims=0)
    else:
        both = g("Mul", g("MatMul", x, g("Transpose", y, perm=[0, 2, 1])), g.f32(-2.0))
        own = [g("ReduceSum", g("Mul", v, v), g.ints(-1)) for v in (x, y)]
        distance = g("Add", g("Add", both, own[0]), g("Transpose", own[1], perm=[0, 2, 1]))
    _, at = g("TopK", distance, g.ints(k), largest=0, outputs=2)
    flat = g("Reshape", at, g.ints(-1))
    near = g("Reshape", g("Gather", g("Squeeze", y, g.ints(0)), flat), g.ints(1, n, k, c))
    relative = g("Sub", near, g("Unsqueeze", x, g.ints(2)))
    edge = g("Transpose", g("Concat", relative, near, axis=3), perm=[0, 3, 1, 2])
    z = g("LeakyRelu", g("Conv", edge, d.weights(32, 2 * c, 1, 1)), alpha=0.2)
    return g.give(g("ReduceMax", z, g.ints(3), keepdims=0))


def windows(d):
    """An image rolled, cut into windows, and put together again."""
    g = Graph("windows")
    h, w, c, size = d.of((2, 4, 8)), d.of((2, 3, 7)), d.of((3, 32, 96)), d.of((4, 7, 8))
    shift, order = d.of((0, size // 2)), d.of(("nhwc", "nchw"))
    g.tell(size=size, shift=shift, order=order)
    rows, columns = h * size, w * size
    kind = d.of(("f32", "f32", "f16"))
    x = g.input(text(kind, [1, rows, columns, c] if order == "nhwc" else [1, c, rows, columns]))
    if order == "nchw":
        x = g("Transpose", x, perm=[0, 2, 3, 1])

    def roll(v, by):
        for axis, extent in ((1, rows), (2, columns)):
            at = by % extent
            v = g(
                "Concat",
                g("Slice", v, g.ints(at), g.ints(2**62), g.ints(axis)),
                g("Slice", v, g.ints(0), g.ints(at), g.ints(axis)),
                axis=axis,
            )
        return v

    v = roll(x, shift) if shift else x
    v = g("Transpose", g("Reshape", v, g.ints(1, h, size, w, size, c)), perm=[0, 1, 3, 2, 4, 5])
    v = g("Reshape", v, g.ints(-1, size * size, c))
    weights = d.weights(c, c)
    v = g("Add", v, g("MatMul", v, weights.astype(np.float16) if kind == "f16" else weights))
    v = g("Transpose", g("Reshape", v, g.ints(1, h, w, size, size, c)), perm=[0, 1, 3, 2, 4, 5])
    v = g("Reshape", v, g.ints(1, rows, columns, c))
    v = roll(v, -shift) if shift else v
    return g.give(g("Add", x, v))


def kinds():
    import operator_cases_graphs_loops  # they build on this file
    import operator_cases_graphs_more

    return (
        attention,
        norm,
        gates,
        edges,
        neighbours,
        windows,
        *operator_cases_graphs_more.KINDS,
        *operator_cases_graphs_loops.KINDS,
    )


def graph_cases(count, seed):
    """So many cases, one kind after the other. No two are alike."""
    return drawn(kinds(), count, seed)
