"""What callers can hand over besides numbers in C order: odd booleans, text that is no UTF-8, arrays of any layout, threads without an end."""
import os
import subprocess
import sys

import numpy as np
import pytest
import smelt
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper

FLOAT, BOOL, STRING = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.STRING
ODD = np.tile(np.array([2, 0, 255, 1, 128, 0, 3, 4], np.uint8), 25).view(bool)


def session(model, **options):
    return smelt.Session(model.SerializeToString(), tuning_level=0, use_cache=False, **options)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal", "Not", "Cast", "Unique", "NonZero", "Identity", "ReduceMax", "ReduceMin"])
def test_bytes_other_than_0_and_1_are_true(op, optimize):
    attributes = {"Cast": {"to": FLOAT}}.get(op, {})
    names = ["b", "c"] if op in ("And", "Or", "Xor", "Equal") else ["b"]
    result = {"Cast": FLOAT, "NonZero": TensorProto.INT64}.get(op, BOOL)
    opset = {"opset": 20} if op.startswith("Reduce") else {}
    model = model_of([helper.make_node(op, names, ["y"], **attributes)], [(n, BOOL, ["n"]) for n in names], [("y", result, None)], **opset)
    built, other = session(model, optimize=optimize), np.array([True, False] * 100)
    feeds = {"b": ODD, "c": other} if len(names) == 2 else {"b": ODD}
    plain = {n: a.view(np.uint8) != 0 for n, a in feeds.items()}
    assert np.array_equal(built.run(None, feeds)[0].view(np.uint8), built.run(None, plain)[0].view(np.uint8))
    assert ODD.view(np.uint8)[2] == 255, "what is the caller's is not written to"


@pytest.mark.parametrize("other", ["Cast", "Identity", "Where", "Concat"])
def test_bytes_other_than_0_and_1_are_true_beside_what_takes_them(other):
    node = {"Cast": helper.make_node("Cast", ["b"], ["z"], to=FLOAT), "Identity": helper.make_node("Identity", ["b"], ["z"]),
            "Where": helper.make_node("Where", ["b", "c", "b"], ["z"]), "Concat": helper.make_node("Concat", ["c", "b"], ["z"], axis=0)}[other]
    model = model_of([helper.make_node("And", ["b", "c"], ["y"]), node], [(n, BOOL, ["n"]) for n in "bc"],
                     [("y", BOOL, None), ("z", FLOAT if other == "Cast" else BOOL, None)])
    built, c = session(model), np.array([True, False] * 100)
    for found, expected in zip(built.run(None, {"b": ODD, "c": c}), built.run(None, {"b": ODD.view(np.uint8) != 0, "c": c}), strict=True):
        assert np.array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.fixture
def texts():
    return session(model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", STRING, ["n"])], [("y", STRING, ["n"])]))


@pytest.mark.parametrize("given", [["a", "é", ""], ["a\0b", "c"], [b"a", b"\xff\xfe"], ["\udcff"]])
def test_text_comes_back_and_bytes_as_pythons_escapes_of_them(texts, given):
    [y] = texts.run(None, {"x": np.array(given, object)})
    assert list(y) == [s.decode(errors="surrogateescape") if isinstance(s, bytes) else s for s in given]


@pytest.mark.parametrize("given", [np.array(["\ud800"], object), np.array([0x7fffffff, 65], np.uint32).view("U1")])
def test_text_that_utf8_cannot_have_is_refused(texts, given):
    with pytest.raises(smelt.UsageError, match="input 'x' holds text"):
        texts.run(None, {"x": given})


@pytest.mark.parametrize("what", ["node", "input", "output", "symbol", "weight"])
def test_names_that_are_no_utf8_are_names(tmp_path, what):
    names = {w: f"{w}_name" for w in ("node", "input", "output", "symbol", "weight")}
    model = model_of([helper.make_node("MatMul", [names["input"], names["weight"]], [names["output"]], name=names["node"])],
                     [(names["input"], FLOAT, [names["symbol"], 4])], [(names["output"], FLOAT, [names["symbol"], 4])],
                     [numpy_helper.from_array(np.eye(4, dtype=np.float32), names["weight"])])
    old = names[what].encode()
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString().replace(old, b"\xff" * len(old)))
    built = smelt.Session(path, tuning_level=0, use_cache=False)
    x = np.ones((2, 4), np.float32)
    [given], [made] = built.get_inputs(), built.get_outputs()
    assert np.array_equal(built.run([made.name], {given.name: x})[0], x)
    str(smelt.explain(path, tuning_level=0, use_cache=False)).encode()   # can be printed
    with pytest.raises(smelt.UsageError) as refused:
        built.run(None, {given.name: x[0]})
    str(refused.value).encode()


A = np.arange(12, dtype=np.float32).reshape(3, 4)
MISALIGNED = np.frombuffer(bytes(1) + A.tobytes(), np.float32, 12, offset=1).reshape(3, 4)


@pytest.mark.parametrize("given", [
    np.asfortranarray(A), A.T, A[::-1, ::-1], A[:, ::2], np.broadcast_to(A[0], (3, 4)), A.astype(">f4"), MISALIGNED, MISALIGNED[::-1],
    np.zeros((0, 4), np.float32), np.zeros((4, 0), np.float32)[::2], np.float32(3), np.zeros((1,) * 64, np.float32)],
    ids=lambda a: f"{a.shape} {a.dtype} {a.strides}"[:60])
def test_arrays_of_any_layout_are_read_as_they_are(given):
    x = [f"x{i}" for i in range(given.ndim)]
    built = session(model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, x)], [("y", FLOAT, x)]))
    assert np.array_equal(built.run(None, {"x": given})[0], -given)


ENDING = """
import threading, time
import numpy as np, smelt
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy")
graph = helper.make_graph([helper.make_node("Sin", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
build = lambda: smelt.Session(model, tuning_level=0, use_cache=False)
session, feed = build(), {"x": np.zeros(1 << 20, np.float32)}
def forever(work):
    while True:
        work()
for work in (build, lambda: session.run(None, feed)):
    threading.Thread(target=forever, args=(work,), daemon=True).start()
time.sleep(0.3)
"""


def test_a_program_that_ends_while_daemon_threads_run_and_build_ends_well():
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        assert done.returncode == 0, done.stderr[-500:]


# Memory that nobody may read: looking through it for odd booleans would end the process.
UNREADABLE = """
import ctypes, mmap
import numpy as np, onnx, smelt
from onnx import TensorProto, helper
memory = mmap.mmap(-1, 1 << 16)
b = np.frombuffer(memory, bool)
address = ctypes.c_void_p(b.ctypes.data)
libc = ctypes.CDLL(None, use_errno=True)
for op in ("Size", "Shape"):
    graph = helper.make_graph([helper.make_node(op, ["b"], ["y"])], "g", [helper.make_tensor_value_info("b", TensorProto.BOOL, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, None)])
    built = smelt.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString(),
                          tuning_level=0, use_cache=False)
    assert libc.mprotect(address, ctypes.c_size_t(len(b)), 0) == 0
    [y] = built.run(None, {"b": b})
    assert libc.mprotect(address, ctypes.c_size_t(len(b)), mmap.PROT_READ | mmap.PROT_WRITE) == 0
    assert np.ravel(y).tolist() == [1 << 16], y
print("unread")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by libc's name")
def test_a_bool_of_which_the_extents_are_asked_for_is_not_read():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", UNREADABLE], capture_output=True, text=True, check=False, env=environment)
    assert found.stdout.strip() == "unread", found.stderr
