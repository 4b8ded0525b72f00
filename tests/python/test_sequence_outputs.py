"""Outputs that are sequences of tensors: lists as ONNX Runtime gives them, from models, plans and the command line."""
import numpy as np
import onnx
import pytest
import smelt

onnxruntime = pytest.importorskip("onnxruntime")

HEADER = '<ir_version: 10, opset_import: ["" : 20]> '
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
MODELS = {
    "constructed": """g (float[N, 3] x) => (float[N, 3] first, seq(float[A, B]) s, float[N, 3] last) {
        first = Relu(x) t = Transpose(x) s = SequenceConstruct(t, first, x) last = Neg(x) }""",
    "parts": """g (float[N, 3] x) => (seq(float[N, B]) s) { k = Constant <value_int = 2> () s = SplitToSequence <axis = 1> (x, k) }""",
    "rows": """g (float[N, 3] x) => (seq(float[B]) s, float[N, 3] y) { s = SplitToSequence <axis = 0, keepdims = 0> (x) y = Exp(x) }""",
    "kept rows": """g (float[N, 3] x) => (seq(float[A, B]) s) { y = Exp(x) s = SplitToSequence <axis = 0> (y) }""",
    "scalars": """g (float[N, 3] x) => (seq(float) s) <int64[1] axes = {1}> {
        sums = ReduceSum <keepdims = 0> (x, axes) s = SplitToSequence <axis = 0, keepdims = 0> (sums) }""",
    "turns": """g (float[N, 3] x) => (seq(float[3]) s) {
        yes = Constant <value = bool {1}> () none = SequenceEmpty() zero = Constant <value_int = 0> ()
        dims = Shape(x) n = Gather(dims, zero)
        s = Loop (n, yes, none) <body = b (int64 i, bool go, seq(float[3]) l) => (bool on, seq(float[3]) k) {
          on = Identity(go) row = Gather <axis = 0> (x, i) y = Sqrt(row) k = SequenceInsert(l, y) }> }""",
    "empty": """g (float[N, 3] x) => (seq(float[A]) none, float[N, 3] y) { none = SequenceEmpty() y = Relu(x) }""",
}


def model_of(name):
    return onnx.parser.parse_model(HEADER + MODELS[name])


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            assert_same(f, e)
    else:
        assert found.shape == expected.shape and found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", list(MODELS))
def test_sequences_are_lists(name, optimize):
    model = model_of(name)
    session = smelt.Session(model, tuning_level=0, optimize=optimize)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [(o.name, o.type) for o in session.get_outputs()] == [(o.name, o.type) for o in peer.get_outputs()]
    for x in (X, X[:1], X[:0], X):
        if name == "scalars" and len(x) == 0:
            continue  # ONNX Runtime divides by the extent
        expected = peer.run(None, {"x": x})
        assert_same(session.run(None, {"x": x}), expected)
        wanted = [o.name for o in reversed(session.get_outputs())]
        assert_same(session.run(wanted, {"x": x}), expected[::-1])


def test_one_tensor_of_a_sequence_has_a_name():
    session = smelt.Session(model_of("constructed"), tuning_level=0)
    [second, whole] = session.run(["s_1", "s"], {"x": X})
    np.testing.assert_array_equal(second, np.maximum(X, 0))
    np.testing.assert_array_equal(whole[1], second)


def test_run_tensors_gives_lists_too():
    [rows, y] = smelt.Session(model_of("rows"), tuning_level=0).run_tensors(None, {"x": X})
    assert [t.shape for t in rows] == [[3]] * 4 and y.shape == [4, 3]
    np.testing.assert_array_equal(np.from_dlpack(rows[2]), X[2])


@pytest.mark.parametrize("name", list(MODELS))
def test_plans_give_sequences_here_and_in_onnxruntime(tmp_path, name):
    model, plan = tmp_path / "m.onnx", tmp_path / "plan.onnx"
    onnx.save(model_of(name), model)
    smelt.optimize(model, plan, tuning_level=0)
    expected = smelt.Session(model, tuning_level=0).run(None, {"x": X})
    assert_same(smelt.Session(plan, tuning_level=0).run(None, {"x": X}), expected)
    assert_same(onnxruntime.InferenceSession(plan, providers=["CPUExecutionProvider"]).run(None, {"x": X}), expected)


@pytest.mark.parametrize("name, files", [("constructed", {"first", "last", "s_0", "s_1", "s_2"}), ("rows", {"s_0", "s_1", "s_2", "s_3", "y"})])
def test_the_command_writes_numbered_files(command, tmp_path, name, files):
    onnx.save(model_of(name), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", X)
    command("run", tmp_path / "m.onnx", "--inputs", f"x:{tmp_path / 'x.npy'}", "--outputs", tmp_path / "out", "--tuning-level", "0")
    assert {f.stem for f in (tmp_path / "out").iterdir()} == files
    expected = smelt.Session(tmp_path / "m.onnx", tuning_level=0).run(["s"], {"x": X})[0]
    for i, e in enumerate(expected):
        np.testing.assert_array_equal(np.load(tmp_path / "out" / f"s_{i}.npy"), e)
