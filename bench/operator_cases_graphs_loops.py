"""Fragments of models for operators.py that repeat: Loop and Scan by ONNX's own words, whose bodies no builder writes."""

import onnx
from operator_cases_draw import text
from operator_cases_graphs import Graph

# A body by what turns it and what it makes; S is the state's type, N its width. A turn's number is i.
STATES = {
    "decode": """all = Loop (in0, yes, in1) <body = b (int64 i, bool go, float[K,N] kept) => (bool on, float[J,N] more) {
        on = Identity(go)
        low = Constant <value_ints = [-1]> ()
        high = Constant <value_ints = [9999]> ()
        axis = Constant <value_ints = [0]> ()
        last = Slice(kept, low, high, axis)
        m = MatMul(last, in2)
        t = Tanh(m)
        more = Concat <axis = 0> (kept, t) }>""",
    "early": """last, all = Loop (in0, yes, in1) <body = b (int64 i, bool go, S s) => (bool on, S t, S o) {
        m = MatMul(s, in2)
        t = Relu(m)
        o = Identity(t)
        most = ReduceMax <keepdims = 0> (t)
        least = Constant <value_float = 0.00001> ()
        on = Greater(most, least) }>""",
    "two states": """last, all = Loop (in0, yes, in1, in1) <body = b (int64 i, bool go, S x, S y) => (bool on, S u, S v) {
        on = Identity(go)
        m = MatMul(x, in2)
        s = Sigmoid(m)
        p = Mul(s, y)
        u = Tanh(p)
        v = Add(p, x) }>""",
    "gather": """size = Constant <value_int = N> ()
      last, all = Loop (in0, yes, in1) <body = b (int64 i, bool go, S x) => (bool on, S u, float[N] row) {
        on = Identity(go)
        at = Mod(i, size)
        row = Gather(in2, at)
        u = Add(x, row) }>""",
    "if": """two = Constant <value_int = 2> ()
      none = Constant <value_int = 0> ()
      last = Loop (in0, yes, in1) <body = b (int64 i, bool go, S x) => (bool on, S u) {
        on = Identity(go)
        r = Mod(i, two)
        even = Equal(r, none)
        u = If (even) <then_branch = t () => (S p) { m = MatMul(x, in2) p = Tanh(m) }, else_branch = e () => (S q) { q = Neg(x) }>
      }>""",
}
RESULTS = {
    "decode": "float[K,N] all",
    "early": "S last, float[T,1,N] all",
    "two states": "S last, S all",
    "gather": "S last, float[T,N] all",
    "if": "S last",
}
STEPS = {
    "cell": """zx = MatMul(x, in2)
        zh = MatMul(s, in2)
        xr, xu, xn = Split <axis = 1, num_outputs = 3> (zx)
        hr, hu, hn = Split <axis = 1, num_outputs = 3> (zh)
        ra = Add(xr, hr)
        r = Sigmoid(ra)
        ua = Add(xu, hu)
        u = Sigmoid(ua)
        g = Mul(r, hn)
        na = Add(xn, g)
        n = Tanh(na)
        apart = Sub(s, n)
        w = Mul(u, apart)
        t = Add(n, w)
        o = Identity(t)""",
    "filter": """f = Constant <value_float = 0.9> ()
        p = Mul(s, f)
        t = Add(p, x)
        o = Abs(t)""",
}


class Written(Graph):
    def model(self):
        model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + self.words)
        return onnx.shape_inference.infer_shapes(model)


def loops(d):
    form = d.of((*STATES, *STEPS))
    g = Written(f"loop {form}")
    n, turns = d.of((4, 16, 64)), d.of((5, 30, 100))
    g.tell(turns=turns)
    if form in STATES:
        g.input("i64 ", turns, turns)
        g.input(text("f32", [1, n]))
        g.input(text("f32", [n, n]), -0.4, 0.4)
        words = f"""g (int64 in0, S in1, float[N,N] in2) => ({RESULTS[form]}) {{
            yes = Constant <value = bool {{1}}> ()
            {STATES[form]} }}"""
    else:
        g.input(text("f32", [1, n]))
        g.input(text("f32", [turns, 1, n]))
        g.input(text("f32", [n, 3 * n]), -0.4, 0.4)
        words = f"""g (S in0, float[{turns},1,N] in1, float[N,{3 * n}] in2) => (S last, float[{turns},1,N] each) {{
            last, each = Scan <num_scan_inputs = 1, body = b (S s, S x) => (S t, S o) {{ {STEPS[form]} }}> (in0, in1) }}"""
    for short, full in (("S ", f"float[1,{n}] "), ("N,N", f"{n},{n}"), (",N]", f",{n}]"), ("[N]", f"[{n}]"), ("= N>", f"= {n}>")):
        words = words.replace(short, full)
    g.words = words
    return g


KINDS = (loops,)
