"""Normalisations and activations as exporters and people spell them."""

import itertools

import numpy as np
from spellings import part

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
