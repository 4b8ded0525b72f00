"""Runs that do not end by themselves are ended: by a time limit, by Session.cancel, by signals."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def endless(tmp_path):
    """A Loop of 2^62 iterations, whose body keeps its condition and adds 1 to x."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go"]), helper.make_node("Add", ["v", "one"], ["w"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.float32(1), "one")])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "true", "x"], ["y"], name="endless", body=body)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]), helper.make_tensor_value_info("trips", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])], [numpy_helper.from_array(np.array(True), "true")])
    path = tmp_path / "endless.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def feeds(trips):
    return {"x": np.zeros(4, np.float32), "trips": np.array(trips, np.int64)}


FOREVER = feeds(1 << 62)


def check_still_runs(session):
    assert np.asarray(session.run(None, feeds(3))[0]).tolist() == [3, 3, 3, 3]


def test_a_time_limit_ends_a_run_and_the_session_runs_again(endless):
    session = smelt.Session(endless, tuning_level=0, time_limit=0.3)
    begin = time.monotonic()
    with pytest.raises(smelt.StoppedError, match="0.3 s"):
        session.run(None, FOREVER)
    assert 0.25 < time.monotonic() - begin < 10
    check_still_runs(session)


def test_cancel_ends_the_run_under_way_and_no_later_one(endless):
    session = smelt.Session(endless, tuning_level=0)
    timer = threading.Timer(0.3, session.cancel)
    timer.start()
    with pytest.raises(smelt.StoppedError, match="cancelled"):
        session.run(None, FOREVER)
    timer.join()
    check_still_runs(session)
    session.cancel()   # there is no run
    check_still_runs(session)


def test_cancel_ends_all_runs_of_the_session(endless):
    session = smelt.Session(endless, tuning_level=0)
    ended = []

    def run():
        try:
            session.run(None, FOREVER)
        except smelt.StoppedError:
            ended.append(True)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    session.cancel()
    for t in threads:
        t.join(20)
    assert len(ended) == 3


def test_an_interrupt_ends_a_run(endless):
    session = smelt.Session(endless, tuning_level=0)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.run(None, FOREVER)
    assert time.monotonic() - begin < 10
    check_still_runs(session)


def test_an_interrupt_is_the_main_threads_also_while_others_run(endless):
    session = smelt.Session(endless, tuning_level=0)

    def run():
        with pytest.raises(smelt.StoppedError):
            session.run(None, FOREVER)

    other = threading.Thread(target=run)
    other.start()
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(None, FOREVER)
    session.cancel()
    other.join(20)
    assert not other.is_alive()


def wait_for_handler(process, number, longest_s=20):
    """Until the process catches the signal: how long its start takes depends on the machine, and on sanitizers."""
    end = time.monotonic() + longest_s
    while time.monotonic() < end and process.poll() is None:
        caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1)
        if int(caught, 16) >> (number - 1) & 1:
            return
        time.sleep(0.05)
    pytest.fail("the command does not catch the signal")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_by_a_signal_with_its_code(endless, build, tmp_path, number):
    np.savez(tmp_path / "in.npz", **FOREVER)
    command = [build / "smelt", "run", endless, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz",
               "--tuning-level", "0", "--no-cache"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_handler(process, number)
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert sorted(p.name for p in tmp_path.iterdir()) == ["endless.onnx", "in.npz"]


def test_the_command_takes_a_time_limit(endless, build, tmp_path):
    np.savez(tmp_path / "in.npz", **FOREVER)
    done = subprocess.run([build / "smelt", "run", endless, "--inputs", tmp_path / "in.npz", "--tuning-level", "0", "--no-cache",
                           "--time-limit", "0.2"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 6
    assert "0.2 s" in done.stderr


FORKING = """
import multiprocessing, os, signal, sys
import numpy as np
import smelt
path = sys.argv[1]
options = dict(threads=2, tuning_level=0, use_cache=False)
x = {"x": np.random.default_rng(1).standard_normal((1, 8, 32, 32), np.float32)}
session = smelt.Session(path, **options)
expected = session.run(None, x)[0]

def runs(new):
    signal.alarm(30)   # a process that hangs ends by it
    s = smelt.Session(path, **options) if new else session
    for _ in range(5):
        if not np.array_equal(s.run(None, x)[0], expected):
            return False
    return True

for new in (False, True):
    child = os.fork()
    if child == 0:
        os._exit(0 if runs(new) else 1)
    assert os.waitpid(child, 0)[1] == 0, ("os.fork", new)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(runs, [new] * 4)), ("multiprocessing", new)
child = os.fork()
if child == 0:   # a child of a child
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if runs(False) and runs(True) else 1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
assert os.waitpid(child, 0)[1] == 0
assert runs(False)   # the parent goes on
os._exit(0)   # Python ends other threads in the midst of a call, which C++ takes for an error
"""


@pytest.mark.parametrize("busy", [False, True])
def test_forked_processes_run_inherited_and_new_sessions(tmp_path, busy):
    """Also while another thread of the parent is in the middle of a run."""
    w = np.random.default_rng(1).standard_normal((8, 8, 3, 3), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Softmax", ["c"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 32, 32])], [numpy_helper.from_array(w, "w")])
    path = tmp_path / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    script = FORKING
    if busy:
        script = script.replace("def runs(new)", "import threading\ndef run_on():\n    while True:\n        session.run(None, x)\n"
                                "threading.Thread(target=run_on, daemon=True).start()\n\ndef runs(new)")
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=120, check=False,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()
