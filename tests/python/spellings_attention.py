"""Attention as exporters and people spell it: the product of where its inputs come from, scales, products, masks, softmaxes and results."""

import itertools

import numpy as np
from spellings import part

B, H, S, K, D, V = 2, 4, 12, 20, 16, 8

# Where q [B, H, S, D], k [B, H, K, D] and v [B, H, K, V] come from; then k is the keys' transpose where it says so.
HEADS = {}
SCALES = {}
PRODUCTS = {}
MASKS = {}
SOFTMAXES = {}
RESULTS = {}


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
