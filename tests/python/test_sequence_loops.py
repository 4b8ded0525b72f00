"""Sequences as long as a run finds: what Loops append to, and tensors taken apart, beside ONNX Runtime."""
import itertools

import numpy as np
import onnxruntime
import pytest
import smelt
from onnx import parser


def both(text, feed):
    model = parser.parse_model('<ir_version: 9, opset_import: ["" : 20]>' + text)
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    for optimize in (True, False):
        got = smelt.Session(model, threads=1, tuning_level=0, optimize=optimize).run(None, feed)
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6)


X = np.random.default_rng(3).standard_normal((5, 2, 3)).astype(np.float32)

APPENDS = """g (float[n, 2, 3] x, int64 turns) => ({outputs}) {{
    yes = Constant <value = bool {{1}}> () none = SequenceEmpty()
    t = Loop (turns, yes, none) <body = b (int64 i, bool go, seq(float[2, 3]) l) => (bool on, seq(float[2, 3]) k) {{
      on = Identity(go) row = Gather <axis = 0> (x, i) y = Relu(row) k = SequenceInsert(l, {inserted}) }}>
    {reads} }}"""


@pytest.mark.parametrize(("axis", "new_axis"), list(itertools.product((-3, -2, -1, 0, 1, 2), (0, 1))))
def test_what_a_loop_appends_is_concatenated(axis, new_axis):
    if not new_axis and axis in (-3, 2):
        pytest.skip("an item has two axes")
    rank = 3 if new_axis else 2
    shape = ", ".join(f"d{i}" for i in range(rank))
    reads = f"z = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (t)"
    for turns in (1, 4):
        for inserted in ("y", "y, i"):
            both(APPENDS.format(outputs=f"float[{shape}] z", reads=reads, inserted=inserted), {"x": X, "turns": np.array(turns)})


def test_items_and_the_length_are_read():
    reads = """a = Constant <value_int = -1> () b = Constant <value_int = 0> ()
    last = SequenceAt(t, a) first = SequenceAt(t, b) some = SequenceAt(t, turns_less) count = SequenceLength(t)"""
    text = APPENDS.format(outputs="float[a, b] last, float[c, d] first, float[e, f] some, int64 count", inserted="y",
                          reads="one = Constant <value_int = 1> () turns_less = Sub(turns, one) " + reads)
    both(text, {"x": X, "turns": np.array(3)})


def test_no_turn_appends_nothing():
    both(APPENDS.format(outputs="int64 count", inserted="y", reads="count = SequenceLength(t)"), {"x": X, "turns": np.array(0)})


@pytest.mark.parametrize(("axis", "keepdims"), list(itertools.product((0, 1, -1), (0, 1))))
def test_a_tensor_of_unknown_extents_is_taken_apart(axis, keepdims):
    shape = "a, b" if not keepdims else "a, b, c"
    text = f"""g (float[n, m, o] x, int64 i) => (float[{shape}] y, int64 count, float[p, q, r] sum) {{
        t = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x) y = SequenceAt(t, i) count = SequenceLength(t)
        sum = ConcatFromSequence <axis = {axis}, new_axis = {1 - keepdims}> (t) }}"""
    for i in (0, 1, -1):
        both(text, {"x": X, "i": np.array(i)})


def test_a_loop_reads_the_parts_and_appends():
    text = """g (float[n, 3] x, int64 turns) => (float[a, b] z, float[c] last) {
        yes = Constant <value = bool {1}> () none = SequenceEmpty() zero = Constant <value = float[3] {0, 0, 0}> ()
        parts = SplitToSequence <axis = 0, keepdims = 0> (x)
        last, t = Loop (turns, yes, zero, none) <body = b (int64 i, bool go, float[3] h, seq(float[3]) l)
            => (bool on, float[3] next, seq(float[3]) k) {
          on = Identity(go) part = SequenceAt(parts, i) next = Add(h, part) k = SequenceInsert(l, next) }>
        z = ConcatFromSequence <axis = 0, new_axis = 1> (t) }"""
    both(text, {"x": X[:, 0], "turns": np.array(5)})


def test_items_of_other_shapes_are_an_error_of_the_run():
    text = """g (float[n] x, int64 turns) => (float[a] z) {
        yes = Constant <value = bool {1}> () none = SequenceEmpty() zero = Constant <value_ints = [0]> ()
        t = Loop (turns, yes, none) <body = b (int64 i, bool go, seq(float[m]) l) => (bool on, seq(float[m]) k) {
          on = Identity(go) to = Unsqueeze(i, zero) part = Slice(x, zero, to) k = SequenceInsert(l, part) }>
        z = ConcatFromSequence <axis = 0> (t) }"""
    session = smelt.Session(parser.parse_model('<ir_version: 9, opset_import: ["" : 20]>' + text), threads=1, tuning_level=0)
    with pytest.raises(smelt.Error):
        session.run(None, {"x": X[:, 0, 0], "turns": np.array(3)})
