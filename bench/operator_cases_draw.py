"""What cases of operators.py are drawn from by a seed: extents around registers, powers of two and primes; types."""

import math

import numpy as np
from operator_cases import floats, words

SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257, 1000, 4097, 65537)
FLOATS, INTEGERS = words("f32 f32 f32 f16 f64"), words("i8 u8 i16 i32 i64 i64")
ANY = (*FLOATS, *INTEGERS, "bool")
SCALE, ZERO = floats(0.05).reshape(()), np.array(3, np.uint8)


class Draw:
    """Random choices of one seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def of(self, options):
        return options[int(self.rng.integers(len(options)))]

    def shape(self, ranks=(1, 2, 3, 4, 5), least=20_000, most=2_000_000):
        if least == 20_000 and self.of((1, 0, 0, 0, 0, 0)):
            least, most = 1, 5000
        while True:
            s = [int(v) for v in self.rng.choice(SIZES, self.of(ranks))]
            if least <= math.prod(s) <= most:
                return s

    def image(self, ranks=(1, 2, 3), most=600_000, channels=None):
        """[n, c, spatial…]"""
        while True:
            s = self.shape([r + 2 for r in ranks], 10_000, most)
            if max(s[:2]) <= 1000 and min(s[2:]) >= 3 and (channels is None or s[1] % channels == 0):
                return s

    def axis(self, shape):
        return int(self.rng.integers(len(shape)))

    def weights(self, *shape, kind=np.float32):
        if np.dtype(kind).kind in "iu":
            return self.rng.integers(1, 9, shape).astype(kind)
        return self.rng.uniform(-0.1, 0.1, shape).astype(kind)


def text(kind, shape):
    return f"{kind} {'x'.join(map(str, shape))}"


def drawn(kinds, count, seed):
    """So many cases, one kind after the other. No two are alike."""
    d, seen, turn = Draw(seed), set(), 0
    while len(seen) < count:
        c = kinds[turn % len(kinds)](d)
        turn += 1
        if c.name not in seen:
            seen.add(c.name)
            yield c
