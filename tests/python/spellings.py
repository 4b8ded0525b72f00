"""Graphs that spell out attention, normalisations and activations in the ways that exporters and people write them."""

import itertools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.bool_: TensorProto.BOOL, np.int64: TensorProto.INT64}


class Writer:
    """One model of many small graphs; the names of each begin with its own prefix."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.constants, self.feeds = [], [], [], [], {}
        self.random, self.prefix, self.type = np.random.default_rng(7), "", np.float32

    def begin(self, prefix, kind=np.float32):
        self.prefix, self.type = prefix, kind

    def name(self):
        return f"{self.prefix}/{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def input(self, *shape, low=-1, high=1, kind=None):
        name, kind = self.name(), kind or self.type
        a = self.random.uniform(low, high, shape)
        self.feeds[name] = a > 0 if kind == np.bool_ else a.astype(kind)
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def constant(self, value, kind=None):
        name = self.name()
        value = np.asarray(value)
        self.constants.append(
            numpy_helper.from_array(value.astype(kind or (self.type if value.dtype.kind == "f" else value.dtype)), name)
        )
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        """A node; a number among its inputs is a constant of the graph's type, a list one of integers."""
        inputs = [
            self.constant(float(i)) if isinstance(i, float) else self.ints(*i) if isinstance(i, list) else i for i in inputs
        ]
        name = self.name()
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name, **attributes))
        return names[0] if outputs == 1 else names

    def turned(self, x, *perm):
        return self("Transpose", x, perm=list(perm))

    def cast(self, x, kind):
        return self("Cast", x, to=TYPES[kind])

    def end(self, y, kind=None):
        """y is what the graph begun last computes."""
        self.outputs.append(helper.make_tensor_value_info(y, TYPES[kind or self.type], None))

    def model(self):
        graph = helper.make_graph(self.nodes, "spellings", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


B, H, S, K, D, V = 2, 4, 12, 20, 16, 8

# Where q [B, H, S, D], k [B, H, K, D] and v [B, H, K, V] come from; then k is the keys' transpose where it says so.
HEADS = {}
SCALES = {}
PRODUCTS = {}
MASKS = {}
SOFTMAXES = {}
RESULTS = {}


def part(table):
    def add(f):
        table[f.__name__.strip("_")] = f
        return f

    return add


@part(HEADS)
def given(w):
    return w.input(B, H, S, D), w.input(B, H, K, D), w.input(B, H, K, V)


@part(HEADS)
def split(w):
    def heads(n, d):
        return w.turned(
            w("Reshape", w("MatMul", w.input(B, n, 24), w.constant(w.random.normal(size=(24, H * d)))), [0, 0, H, d]), 0, 2, 1, 3
        )

    return heads(S, D), heads(K, D), heads(K, V)


@part(HEADS)
def packed(w):
    five = w("Reshape", w.input(B, K, 3 * H * D), [B, K, 3, H, D])
    turned = w.turned(five, 2, 0, 3, 1, 4)
    return [w("Gather", turned, w.constant(i), axis=0) for i in range(3)]


@part(HEADS)
def packed_split(w):
    thirds = w("Split", w.input(B, K, 3 * H * D), [H * D] * 3, axis=-1, outputs=3)
    return [w.turned(w("Reshape", t, [B, K, H, D]), 0, 2, 1, 3) for t in thirds]


@part(HEADS)
def packed_slice(w):
    five = w.turned(w("Reshape", w.input(B, K, 3 * H * D), [B, K, 3, H, D]), 2, 0, 3, 1, 4)
    return [w("Squeeze", w("Slice", five, [i], [i + 1], [0]), [0]) for i in range(3)]


@part(HEADS)
def length_first(w):
    def heads(n, d):
        return w.turned(w("Reshape", w.input(n, B, H * d), [n, B * H, d]), 1, 0, 2)

    return heads(S, D), heads(K, D), heads(K, V)


@part(HEADS)
def one_head(w):
    return w.input(B, S, D), w.input(B, K, D), w.input(B, K, V)


@part(HEADS)
def matrices(w):
    return w.input(S, D), w.input(K, D), w.input(K, V)


@part(HEADS)
def grouped_expand(w):
    def repeated(x, d):
        return w("Reshape", w("Expand", w("Unsqueeze", x, [2]), [B, 2, 2, K, d]), [B, 4, K, d])

    return w.input(B, 4, S, D), repeated(w.input(B, 2, K, D), D), repeated(w.input(B, 2, K, V), V)


@part(HEADS)
def grouped_tile(w):
    def repeated(x, d):
        return w("Reshape", w("Tile", w("Unsqueeze", x, [2]), [1, 1, 2, 1, 1]), [B, 4, K, d])

    return w.input(B, 4, S, D), repeated(w.input(B, 2, K, D), D), repeated(w.input(B, 2, K, V), V)


@part(HEADS)
def grouped_concat(w):
    def repeated(x, d):
        five = w("Unsqueeze", x, [2])
        return w("Reshape", w("Concat", five, five, axis=2), [B, 4, K, d])

    return w.input(B, 4, S, D), repeated(w.input(B, 2, K, D), D), repeated(w.input(B, 2, K, V), V)


@part(HEADS)
def one_key_head(w):
    return w.input(B, H, S, D), w.input(B, 1, K, D), w.input(B, 1, K, V)


@part(HEADS)
def depth_first(w):
    """YOLO's: q, k and v are [B, H, D, S]."""
    q, k, v = w("Split", w("Reshape", w.input(B, 3 * H * D, 4, K // 4), [B, H, 3 * D, K]), [D, D, D], axis=2, outputs=3)
    return w.turned(q, 0, 1, 3, 2), w.turned(k, 0, 1, 3, 2), w.turned(v, 0, 1, 3, 2)


@part(SCALES)
def none(w, q, k):
    return q, k, None


@part(SCALES)
def on_q(w, q, k):
    return w("Mul", q, 0.25), k, None


@part(SCALES)
def on_k(w, q, k):
    return q, w("Div", k, 4.0), None


@part(SCALES)
def on_both(w, q, k):
    return w("Mul", q, 0.5), w("Mul", k, w("Sqrt", 0.25)), None


@part(SCALES)
def times(w, q, k):
    return q, k, lambda s: w("Mul", s, 0.25)


@part(SCALES)
def by_root(w, q, k):
    root = w("Sqrt", w.cast(w("Gather", w("Shape", q), w.constant(-1)), w.type))
    return q, k, lambda s: w("Div", s, root)


LETTERS = {4: "bh", 3: "b", 2: ""}


@part(PRODUCTS)
def rows(w, q, k, rank):
    return w("MatMul", q, w.turned(k, *range(rank - 2), rank - 1, rank - 2))


@part(PRODUCTS)
def einsum(w, q, k, rank):
    b = LETTERS[rank]
    return w("Einsum", q, k, equation=f"{b}id,{b}jd->{b}ij")


@part(PRODUCTS)
def keys_first(w, q, k, rank):
    """(k qᵀ)ᵀ."""
    swap = *range(rank - 2), rank - 1, rank - 2
    return w.turned(w("MatMul", k, w.turned(q, *swap)), *swap)


@part(MASKS)
def no_mask(w, s, queries, rank):
    return s


@part(MASKS)
def added(w, s, queries, rank):
    return w("Add", s, w.input(queries, K))


@part(MASKS)
def added_per_batch(w, s, queries, rank):
    return w("Add", s, w.input(*{4: (B, 1), 3: (1,), 2: ()}[rank], queries, K))


@part(MASKS)
def padding(w, s, queries, rank):
    keep = w.cast(w.input(*{4: (B, 1, 1), 3: (1, 1), 2: (1,)}[rank], K, kind=np.bool_), w.type)
    return w("Add", s, w("Mul", w("Sub", 1.0, keep), -1e4))


@part(MASKS)
def where(w, s, queries, rank):
    return w("Where", w.input(queries, K, kind=np.bool_), s, -1e4)


@part(MASKS)
def where_not(w, s, queries, rank):
    return w("Where", w("Not", w.input(1, K, kind=np.bool_)), -1e4, s)


@part(MASKS)
def multiplied(w, s, queries, rank):
    """GPT-2 of TensorFlow: s * m - 1e4 * (1 - m)."""
    m = w.constant(np.tril(np.ones((queries, K))))
    return w("Sub", w("Mul", s, m), w("Mul", w("Sub", 1.0, m), 1e4))


@part(MASKS)
def causal(w, s, queries, rank):
    return w("Where", w.constant(np.tri(queries, K, 4, bool), np.bool_), s, -1e4)


@part(MASKS)
def window(w, s, queries, rank):
    i, j = (
        w("Unsqueeze", w("Range", w.constant(0), w.constant(queries), w.constant(1)), [1]),
        w("Range", w.constant(0), w.constant(K), w.constant(1)),
    )
    apart = w("Sub", i, j)
    keep = w("And", w("GreaterOrEqual", apart, w.constant(-3)), w("LessOrEqual", apart, w.constant(5)))
    return w("Add", s, w("Where", keep, 0.0, -1e4))


@part(MASKS)
def alibi(w, s, queries, rank):
    slopes = w.constant(
        np.array([0.5, 0.25, 0.125, 0.0625])
        .reshape(4, 1, 1)[: {4: 4, 3: 1, 2: 1}[rank]]
        .reshape((4, 1, 1) if rank == 4 else (1,) * rank)
    )
    return w("Add", w("Add", s, w("Mul", slopes, w.constant(np.arange(K) - K + 1.0))), w.input(queries, K))


@part(SOFTMAXES)
def operator(w, s, rank):
    return w("Softmax", s, axis=-1)


@part(SOFTMAXES)
def operator_by_number(w, s, rank):
    return w("Softmax", s, axis=rank - 1)


@part(SOFTMAXES)
def parts(w, s, rank):
    e = w("Exp", w("Sub", s, w("ReduceMax", s, [-1])))
    return w("Div", e, w("ReduceSum", e, [-1]))


@part(SOFTMAXES)
def reciprocal(w, s, rank):
    e = w("Exp", w("Sub", s, w("ReduceMax", s, [rank - 1])))
    return w("Mul", e, w("Reciprocal", w("ReduceSum", e, [rank - 1])))


@part(SOFTMAXES)
def without_largest(w, s, rank):
    e = w("Exp", s)
    return w("Div", e, w("ReduceSum", e, [-1]))


@part(SOFTMAXES)
def of_logarithm(w, s, rank):
    return w("Exp", w("LogSoftmax", s, axis=-1))


@part(SOFTMAXES)
def turned(w, s, rank):
    swap = *range(rank - 2), rank - 1, rank - 2
    return w.turned(w("Softmax", w.turned(s, *swap), axis=rank - 2), *swap)


@part(SOFTMAXES)
def last_by_transpose(w, s, rank):
    """As opset 12 wrote a softmax over an axis that is not the last."""
    swap = *range(rank - 2), rank - 1, rank - 2
    return w.turned(w.turned(w("Softmax", s, axis=-1), *swap), *swap)


@part(SOFTMAXES)
def dropped(w, s, rank):
    return w("Dropout", w("Softmax", s, axis=-1), 0.5)


@part(SOFTMAXES)
def wide(w, s, rank):
    """In f32 between casts, whatever the graph's type is."""
    p = w("Softmax", w.cast(s, np.float32), axis=-1)
    return w.cast(p, w.type)


@part(SOFTMAXES)
def guarded(w, s, rank):
    p = w("Softmax", s, axis=-1)
    return w("Where", w("IsNaN", p), 0.0, p)


@part(RESULTS)
def plain(w, p, v, rank):
    return w("MatMul", p, v)


@part(RESULTS)
def by_einsum(w, p, v, rank):
    b = LETTERS[rank]
    return w("Einsum", p, v, equation=f"{b}ij,{b}jd->{b}id")


@part(RESULTS)
def einsum_to_rows(w, p, v, rank):
    return w("Einsum", p, v, equation={4: "bhij,bhjd->bihd", 3: "bij,bjd->ibd", 2: "ij,jd->di"}[rank])


@part(RESULTS)
def values_first(w, p, v, rank):
    """vᵀ pᵀ = (p v)ᵀ."""
    swap = *range(rank - 2), rank - 1, rank - 2
    return w("MatMul", w.turned(v, *swap), w.turned(p, *swap))


@part(RESULTS)
def merged(w, p, v, rank):
    y = w("MatMul", p, v)
    return w("Reshape", w.turned(y, 0, 2, 1, 3), [0, 0, -1]) if rank == 4 else y


RANKS = {"length_first": 3, "one_head": 3, "matrices": 2}
PARTS = (HEADS, SCALES, PRODUCTS, MASKS, SOFTMAXES, RESULTS)
USUAL = ("given", "times", "rows", "no_mask", "operator", "plain")


def spelled():
    """Each way of one part with the usual others, and with one other part changed: (heads, scale, product, mask, softmax, result)."""
    seen = {}
    for i, j in itertools.combinations(range(len(PARTS)), 2):
        for a, b in itertools.product(PARTS[i], PARTS[j]):
            ways = list(USUAL)
            ways[i], ways[j] = a, b
            seen[tuple(ways)] = None
    return list(seen)


def write_attention(w, ways):
    heads, scale, product, mask, softmax, result = (table[name] for table, name in zip(PARTS, ways, strict=True))
    rank = RANKS.get(ways[0], 4)
    q, k, v = heads(w)
    queries = K if ways[0].startswith("packed") or ways[0] == "depth_first" else S
    q, k, after = scale(w, q, k)
    s = product(w, q, k, rank)
    s = after(s) if after else s
    w.end(result(w, softmax(w, mask(w, s, queries, rank), rank), v, rank))


# A normalisation of x over its last axis is the product of these: the mean of a value, what is divided and by what, gamma and beta.
MEANS, VARIANCES, QUOTIENTS, ENDS = {}, {}, {}, {}
N = 24


@part(MEANS)
def mean_operator(w, x):
    return w("ReduceMean", x, [-1])


@part(MEANS)
def mean_by_number(w, x):
    return w("ReduceMean", x, [2])


@part(MEANS)
def sum_divided(w, x):
    return w("Div", w("ReduceSum", x, [-1]), float(N))


@part(MEANS)
def sum_times(w, x):
    return w("Mul", w("ReduceSum", x, [2]), 1 / N)


@part(VARIANCES)
def power(w, x, mean, kind):
    c = x if kind == "rms" else w("Sub", x, mean(w, x))
    return mean(w, w("Pow", c, 2.0)), c


@part(VARIANCES)
def product(w, x, mean, kind):
    c = x if kind == "rms" else w("Sub", x, mean(w, x))
    return mean(w, w("Mul", c, c)), c


@part(VARIANCES)
def twice(w, x, mean, kind):
    if kind == "rms":
        return product(w, x, mean, kind)
    m = mean(w, x)
    c = w("Sub", x, m)
    return mean(w, w("Mul", c, c)), w("Sub", x, m)


@part(VARIANCES)
def of_means(w, x, mean, kind):
    """Flax's: mean(x²) - mean(x)², not below 0."""
    if kind == "rms":
        return power(w, x, mean, kind)
    m = mean(w, x)
    return w("Max", w("Sub", mean(w, w("Mul", x, x)), w("Mul", m, m)), 0.0), w("Sub", x, m)


@part(QUOTIENTS)
def divided(w, c, v):
    return w("Div", c, w("Sqrt", v))


@part(QUOTIENTS)
def by_reciprocal(w, c, v):
    return w("Mul", c, w("Reciprocal", w("Sqrt", v)))


@part(QUOTIENTS)
def one_over(w, c, v):
    return w("Mul", w("Div", 1.0, w("Sqrt", v)), c)


@part(QUOTIENTS)
def by_power(w, c, v):
    return w("Mul", c, w("Pow", v, -0.5))


@part(QUOTIENTS)
def by_square_root_power(w, c, v):
    return w("Div", c, w("Pow", v, 0.5))


@part(ENDS)
def bare(w, y, kind):
    return y


@part(ENDS)
def gamma(w, y, kind):
    return w("Mul", y, w.constant(w.random.normal(size=N)))


@part(ENDS)
def gamma_first(w, y, kind):
    return w("Mul", w.constant(w.random.normal(size=N)), y)


@part(ENDS)
def gamma_and_beta(w, y, kind):
    y = gamma(w, y, kind)
    return y if kind == "rms" else w("Add", y, w.constant(w.random.normal(size=N)))


NORM_PARTS = (MEANS, VARIANCES, QUOTIENTS, ENDS)


def write_norm(w, kind, ways, wide=False):
    """ways: of MEANS, VARIANCES, QUOTIENTS, ENDS. `wide`: in f32 between casts, whatever the graph's type is."""
    mean, variance, quotient, end = (table[name] for table, name in zip(NORM_PARTS, ways, strict=True))
    own = w.type
    x = w.input(2, 5, N)
    if wide:
        x, w.type = w.cast(x, np.float32), np.float32
    v, c = variance(w, x, mean, kind)
    y = end(w, quotient(w, c, w("Add", v, 1e-3)), kind)
    w.type = own
    w.end(w.cast(y, own) if wide else y)


def write_spread_norm(w, ways, fast):
    """Keras's and Flax's: s = gamma / sqrt(variance + epsilon), then x * s + (beta - mean * s) or (x - mean) * s + beta."""
    mean, variance = MEANS[ways[0]], VARIANCES[ways[1]]
    x = w.input(2, 5, N)
    v, c = variance(w, x, mean, "layer")
    s = w("Reciprocal", w("Sqrt", w("Add", v, 1e-3)))
    s = w("Mul", s, w.constant(w.random.normal(size=N)))
    beta = w.constant(w.random.normal(size=N))
    if fast:
        w.end(w("Add", w("Mul", c, s), beta))
    else:
        w.end(w("Add", w("Mul", x, s), w("Sub", beta, w("Mul", mean(w, x), s))))


def norms():
    """(kind, ways) of every normalisation."""
    return [(kind, ways) for kind in ("rms", "layer") for ways in itertools.product(*NORM_PARTS)]


# Activations, each of which becomes one pass over its input.
ACTIVATIONS = {
    "gelu": lambda w, x: w("Mul", w("Mul", x, 0.5), w("Add", w("Erf", w("Div", x, 2.0**0.5)), 1.0)),
    "gelu, other order": lambda w, x: w("Mul", 0.5, w("Mul", x, w("Add", 1.0, w("Erf", w("Mul", x, 0.5**0.5))))),
    "gelu, taken apart": lambda w, x: w("Add", w("Mul", x, 0.5), w("Mul", w("Mul", x, 0.5), w("Erf", w("Mul", x, 0.5**0.5)))),
    "gelu by tanh": lambda w, x: w(
        "Mul",
        w("Mul", 0.5, x),
        w("Add", 1.0, w("Tanh", w("Mul", 0.7978845608, w("Add", x, w("Mul", 0.044715, w("Pow", x, 3.0)))))),
    ),
    "quick gelu": lambda w, x: w("Mul", x, w("Sigmoid", w("Mul", x, 1.702))),
    "gelu by sigmoid of the cubic": lambda w, x: w(
        "Mul", x, w("Sigmoid", w("Mul", 1.5957691216, w("Add", x, w("Mul", 0.044715, w("Mul", x, w("Mul", x, x))))))
    ),
    "silu": lambda w, x: w("Mul", x, w("Sigmoid", x)),
    "silu by exp": lambda w, x: w("Div", x, w("Add", 1.0, w("Exp", w("Neg", x)))),
    "sigmoid by exp": lambda w, x: w("Reciprocal", w("Add", w("Exp", w("Neg", x)), 1.0)),
    "sigmoid by tanh": lambda w, x: w("Add", w("Mul", w("Tanh", w("Mul", x, 0.5)), 0.5), 0.5),
    "softplus": lambda w, x: w("Log", w("Add", w("Exp", x), 1.0)),
    "mish": lambda w, x: w("Mul", x, w("Tanh", w("Softplus", x))),
    "mish by parts": lambda w, x: w("Mul", x, w("Tanh", w("Log", w("Add", 1.0, w("Exp", x))))),
    "hard swish": lambda w, x: w("Mul", x, w("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
    "hard swish by clip": lambda w, x: w("Div", w("Mul", x, w("Clip", w("Add", x, 3.0), 0.0, 6.0)), 6.0),
    "hard swish by min and max": lambda w, x: w("Mul", x, w("Div", w("Min", w("Max", w("Add", x, 3.0), 0.0), 6.0), 6.0)),
    "leaky relu": lambda w, x: w("Max", x, w("Mul", x, 0.1)),
    "elu": lambda w, x: w("Where", w("Greater", x, 0.0), x, w("Sub", w("Exp", x), 1.0)),
    "squared relu": lambda w, x: w("Pow", w("Relu", x), 2.0),
    "tanh shrink": lambda w, x: w("Sub", x, w("Tanh", x)),
    "soft capping": lambda w, x: w("Mul", w("Tanh", w("Div", x, 30.0)), 30.0),
}


def write_activation(w, make):
    w.end(make(w, w.input(3, 40)))
