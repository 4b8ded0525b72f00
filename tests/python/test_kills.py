"""Kills and interrupts at random points of build, tuning, run and optimize: files are whole or not there, and what comes after works."""
import csv
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper

TIMES = 50   # processes or calls that are ended, of each kind


@pytest.fixture
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture
def models(tmp_path):
    """Two models of one form with weights beside their plans, and what each gives for ones."""
    made = []
    for i in (1, 2):
        random_numbers = np.random.default_rng(i)
        weights = {"w": random_numbers.standard_normal((8, 8, 3, 3), np.float32),
                   "m": random_numbers.standard_normal((16, 200), np.float32)}
        graph = helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MatMul", ["r", "m"], ["y"])], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 16, 200])],
            [numpy_helper.from_array(a, name) for name, a in weights.items()])
        path = tmp_path / f"model{i}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        made.append(path)
    return made


def run(path, **options):
    session = smelt.Session(path, tuning_level=0, use_cache=False, **options)
    return np.asarray(session.run(None, {"x": np.ones((1, 8, 16, 16), np.float32)})[0])


def close(a, b):
    return np.allclose(a, b, rtol=1e-3, atol=1e-3)


def end(command, environment, number, after):
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    return process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_end_at_any_point_leaves_whole_files_and_a_cache_that_works(models, build, tmp_path, number):
    expected = [run(m) for m in models]
    folder = tmp_path / "made"
    folder.mkdir()
    plan, results, table, cache = folder / "plan.onnx", folder / "out.npz", folder / "table.csv", tmp_path / "cache"
    whole = ["out.npz", "plan.data", "plan.onnx", "table.csv"]
    environment = dict(os.environ, SMELT_CACHE_DIR=str(cache))
    smelt_command = str(build / "smelt")

    def commands(model):
        return [[smelt_command, "optimize", model, "-o", plan, "--tuning-level", "1"],
                [smelt_command, "run", model, "--outputs", results, "--tuning-level", "1", "--seed", "1"],
                [smelt_command, "tune", "--from", model, "--csv", table, "--tuning-level", "1"]]

    def timed(command):
        begin = time.monotonic()
        assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
        return time.monotonic() - begin

    measuring = [timed(command) for command in commands(models[0])]   # the cache is empty
    known = [timed(command) for command in commands(models[0])]
    chance = random.Random(5)
    ended, mixed = [0, 0, 0], 0
    for i in range(4 * TIMES):
        if sum(ended) == TIMES:
            break
        which, fresh = chance.randrange(3), chance.random() < 0.5
        if fresh:
            shutil.rmtree(cache, ignore_errors=True)   # it measures, and makes the cache
        command = commands(models[i % 2])[which]
        code = end(list(map(str, command)), environment, number, chance.uniform(0, (measuring if fresh else known)[which]))
        ended[which] += code != 0
        assert code in (0, -number, 128 + number), code   # -number: before it has its handlers
        try:
            given = run(plan)
            assert close(given, expected[0]) or close(given, expected[1]), "neither the old plan nor the new one"
        except smelt.Error as e:   # killed between the two renames: the plan is old, its weights are new, and it says so
            assert number == signal.SIGKILL and "is not the data file" in str(e)
            mixed += 1
            plan.unlink()
            assert subprocess.run(commands(models[0])[0], env=environment, capture_output=True, check=False).returncode == 0
        with np.load(results) as made:
            assert made["y"].shape == (1, 8, 16, 200)
        with open(table, newline="", encoding="utf-8") as made:
            rows = list(csv.reader(made))
        assert len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])}
        if number == signal.SIGINT:
            assert sorted(p.name for p in folder.iterdir()) == whole
    assert sum(ended) == TIMES and min(ended) >= TIMES // 10, f"{ended}: few were ended, the delays are too long"
    assert mixed < TIMES // 5
    # What killed processes left is old after a minute; the next writers of the same files remove it.
    for left in folder.glob("*.smelt-tmp-*"):
        os.utime(left, (time.time() - 3600,) * 2)
    for model, wanted in zip(models, expected):
        for command in commands(model):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        assert close(run(plan), wanted)
    assert sorted(p.name for p in folder.iterdir()) == whole


@pytest.fixture
def interrupted():
    """interrupted(work, after): whether a KeyboardInterrupt that comes so many seconds after its beginning ends the work."""
    armed = [False]

    def interrupt(*_):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    def check(work, after):
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            work()
            return False
        except KeyboardInterrupt:
            return True
        finally:
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield check
    signal.signal(signal.SIGALRM, before)


def test_interrupts_of_python_at_any_point_leave_a_process_that_works(models, tmp_path, interrupted):
    """Within one process: what an interrupt leaves half done is met by what comes after."""
    ones = {"x": np.ones((1, 8, 16, 16), np.float32)}
    expected = [run(m) for m in models]
    plan, cache = tmp_path / "plan.onnx", tmp_path / "cache"
    session = smelt.Session(models[0], tuning_level=0, use_cache=False)
    model = models[0]

    def build():
        smelt.Session(model, tuning_level=0, use_cache=False)

    def tune():
        shutil.rmtree(cache, ignore_errors=True)
        smelt.Session(model, tuning_level=2, cache_dir=cache)

    def run_again():
        for _ in range(100):
            session.run(None, ones)

    def optimize():
        smelt.optimize(model, plan, tuning_level=0, use_cache=False)

    def timed(work):
        work()   # the first time is longer than those that are interrupted
        begin = time.monotonic()
        work()
        return time.monotonic() - begin

    seconds = {work: timed(work) for work in (build, tune, run_again, optimize)}
    chance = random.Random(7)
    ended = dict.fromkeys(seconds, 0)
    for i in range(4 * TIMES):
        if sum(ended.values()) == TIMES:
            break
        work = list(seconds)[i % 4]
        model = models[i // 4 % 2]
        ended[work] += interrupted(work, chance.uniform(1e-4, seconds[work]))
        given = run(plan)
        assert close(given, expected[0]) or close(given, expected[1]), "neither the old plan nor the new one"
        assert close(np.asarray(session.run(None, ones)[0]), expected[0])
    assert sum(ended.values()) == TIMES and min(ended.values()) >= 3, {work.__name__: n for work, n in ended.items()}
    for model, wanted in zip(models, expected):
        again = smelt.Session(model, tuning_level=2, cache_dir=cache)
        assert close(np.asarray(again.run(None, ones)[0]), wanted)
        optimize()
        assert close(run(plan), wanted)
    assert not list(tmp_path.glob("*.smelt-tmp-*"))


def test_old_plans_do_not_take_the_data_of_others(models, build, tmp_path):
    made = []
    for i, model in enumerate(models):
        folder = tmp_path / f"plan{i}"
        folder.mkdir()
        smelt.optimize(model, folder / "plan.onnx", tuning_level=0, use_cache=False)
        made.append(folder)
    (made[0] / "plan.data").write_bytes((made[1] / "plan.data").read_bytes())
    with pytest.raises(smelt.Error, match="is not the data file that this plan was written with"):
        run(made[0] / "plan.onnx")


@pytest.fixture
def mapped(tmp_path):
    """y = x @ w, whose w lies in w.data."""
    model = helper.make_model(helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("how", ["truncated", "rewritten", "grown"])
def test_weights_that_are_written_to_in_use_are_an_error_of_the_next_run(mapped, optimize, how):
    """A page beyond the new end would end the process by SIGBUS, and new bytes would change results in the midst."""
    session = smelt.Session(mapped, tuning_level=0, use_cache=False, optimize=optimize)
    x = {"x": np.ones((2, 64), np.float32)}
    assert np.array_equal(session.run(None, x)[0], x["x"])
    data = mapped.with_name("w.data")
    before = data.read_bytes()
    with open(data, "r+b") as file:
        if how == "truncated":
            file.truncate(16)
        else:
            file.seek(0 if how == "rewritten" else len(before))
            file.write(bytes(64))
    for _ in range(2):
        with pytest.raises(smelt.Error, match=r"w\.data: the file was written to while it was in use"):
            session.run(None, x)
    data.write_bytes(before)
    assert np.array_equal(smelt.Session(mapped, tuning_level=0, use_cache=False).run(None, x)[0], x["x"]), "loaded again"


def test_weights_that_are_replaced_by_a_rename_stay_those_of_the_session(mapped):
    session = smelt.Session(mapped, tuning_level=0, use_cache=False)
    x = {"x": np.ones((2, 64), np.float32)}
    new = mapped.with_name("new.data")
    new.write_bytes(np.zeros((64, 64), np.float32).tobytes())
    new.replace(mapped.with_name("w.data"))
    assert np.array_equal(session.run(None, x)[0], x["x"])


@pytest.mark.parametrize("how", ["2>&-", ">&- 2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_errors_keep_their_exit_code_without_standard_error(build, tmp_path, how):
    for arguments, code in (("run missing.onnx", 1), ("no-such-verb", 2), ("run --no-such-option", 2)):
        done = subprocess.run(f"'{build}/smelt' {arguments} {how}", shell=True, cwd=tmp_path, check=False)
        assert done.returncode == code, arguments


def test_messages_are_not_written_into_files(models, build, tmp_path):
    """With standard error closed, the first file that is opened would take its number."""
    plan = tmp_path / "p.onnx"
    done = subprocess.run(f"SMELT_LOG=debug '{build}/smelt' optimize '{models[0]}' -o '{plan}' --tuning-level 0 --no-cache <&- >&- 2>&-",
                          shell=True, check=False)
    assert done.returncode in (0, 1)
    if plan.exists():
        assert close(run(plan), run(models[0]))


def test_a_temporary_folder_with_an_odd_name_runs_nothing(models, build, tmp_path):
    odd = tmp_path / "a'; touch ran; '"
    odd.mkdir()
    subprocess.run([build / "smelt", "profile", models[0], "--report", tmp_path / "r.html", "--tuning-level", "0", "--no-cache"],
                   cwd=tmp_path, env=dict(os.environ, TMPDIR=str(odd)), capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()
    assert not list(odd.iterdir())


@pytest.mark.parametrize("name", ["tuning.db", "tuning.db-wal", "tuning.db-journal"])
def test_a_pipe_in_place_of_the_cache_is_not_waited_for(models, build, tmp_path, name):
    cache = tmp_path / "cache"
    cache.mkdir()
    os.mkfifo(cache / name)
    done = subprocess.run([build / "smelt", "run", models[0], "--tuning-level", "1", "--cache-dir", cache], capture_output=True,
                          text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "no regular file" in done.stderr


def test_a_view_in_place_of_the_caches_table_does_not_run(models, build, tmp_path):
    import sqlite3
    cache = tmp_path / "cache"
    cache.mkdir()
    with sqlite3.connect(cache / "tuning.db") as db:
        db.execute("CREATE VIEW timings AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS problem, "
                   "i AS device, i AS versions, i AS level, i AS timings FROM c")
    done = subprocess.run([build / "smelt", "run", models[0], "--tuning-level", "1", "--cache-dir", cache], capture_output=True,
                          text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "tuning cache" in done.stderr
