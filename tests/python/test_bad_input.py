"""Bad input through the command: the right exit code, what and where in one line, nothing half-written, no crash and no hang."""
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

import numpy as np
import onnx
import pytest
from conftest import model_of
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture
def refuses(command):
    """refuses(code, verb, *arguments, says=[…]): exits with that code; the error begins with the verb and has every part."""

    def check(code, *args, says=(), timeout=60, **kwargs):
        result = command(*args, code=code, timeout=timeout, **kwargs)
        lines = result.stderr.strip().splitlines()
        # Progress may come before.
        begins = [i for i, line in enumerate(lines) if line.startswith((f"smelt {args[0]}: ", "smelt: "))]
        assert begins and len(lines) - begins[0] <= 3, result.stderr
        for noise in ("terminate called", "what():", "Traceback", "std::", "Sanitizer"):
            assert noise not in result.stderr
        for part in says:
            assert part in result.stderr, result.stderr
        return result

    return check


def save(path, nodes, inputs, outputs, initializers=(), **kwargs):
    """Written as it is: neither ordered nor checked."""
    model = model_of(nodes, inputs, outputs, initializers, **kwargs)
    path.write_bytes(model.SerializeToString())
    return path


def relu(path, shape=(2, 3), **kwargs):
    return save(path, [helper.make_node("Relu", ["x"], ["y"], name="relu")], [("x", FLOAT, shape)], [("y", FLOAT, shape)],
                **kwargs)


def external(path, location, dims=(4,)):
    """y = x + w, whose w lies in the file `location`."""
    w = TensorProto(name="w", data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value=location)
    return save(path, [helper.make_node("Add", ["x", "w"], ["y"], name="add")], [("x", FLOAT, dims)], [("y", FLOAT, dims)], [w])


# --- files that are no model ------------------------------------------------------------------------------------------------


def test_what_is_no_file_or_no_model(refuses, tmp_path):
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "text.onnx").write_text("this is no model\n" * 50)
    (tmp_path / "folder.onnx").mkdir()
    os.mkfifo(tmp_path / "pipe.onnx")
    for verb in ("info", "run", "optimize", "explain", "profile", "bench"):
        refuses(1, verb, tmp_path / "none.onnx", says=["none.onnx", "No such file"])
    refuses(1, "info", tmp_path / "empty.onnx", says=["empty.onnx", "not an ONNX model", "truncated"])
    refuses(1, "info", tmp_path / "text.onnx", says=["text.onnx", "not an ONNX model"])
    refuses(1, "info", tmp_path / "folder.onnx", says=["folder.onnx", "found a folder"])
    refuses(1, "info", tmp_path / "pipe.onnx", says=["pipe.onnx", "expected a regular file"])
    refuses(1, "info", "/dev/zero", says=["/dev/zero", "expected a regular file"])
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "s"))
        refuses(1, "info", tmp_path / "s", says=["cannot open"])


def test_truncated_and_bit_flipped_models_are_errors_or_valid(command, small_model, tmp_path):
    good = small_model.read_bytes()
    numbers = random.Random(1)
    damaged = [good[:n] for n in sorted(numbers.sample(range(1, len(good)), 12))]
    for _ in range(25):
        bits = bytearray(good)
        bits[numbers.randrange(min(400, len(bits)))] ^= 1 << numbers.randrange(8)
        damaged.append(bytes(bits))
    refused = 0
    for i, data in enumerate(damaged):
        (tmp_path / "m.onnx").write_bytes(data)
        result = command("run", tmp_path / "m.onnx", "--tuning-level", "0", "--shapes=x:1x3x8x8", code=None, timeout=60)
        assert result.returncode in (0, 1, 2, 3), f"{i}: exit {result.returncode}: {result.stderr}"
        if result.returncode:
            refused += 1
            assert 1 <= len(result.stderr.strip().splitlines()) <= 3 and "std::" not in result.stderr, result.stderr
    assert refused > 12


# --- models that are wrong --------------------------------------------------------------------------------------------------


def test_a_cycle(refuses, tmp_path):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second")]
    path = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, [2])], [("b", FLOAT, [2])])
    refuses(1, "run", path, says=["m.onnx", "'b'"])


def test_types_that_do_not_fit(refuses, tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "z"], ["y"], name="sum")],
                [("x", FLOAT, [2]), ("z", INT64, [2])], [("y", FLOAT, [2])])
    refuses(1, "run", path, says=["m.onnx", "sum", "Add"])


def test_names_that_nothing_gives(refuses, tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["nothing"], ["y"], name="relu")], [("x", FLOAT, [2])],
                [("y", FLOAT, [2])])
    refuses(1, "run", path, says=["m.onnx", "nothing"])
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [2])], [("nowhere", FLOAT, [2])])
    refuses(1, "run", path, says=["m.onnx", "nowhere"])


def test_operators_that_smelt_does_not_have_are_listed_at_once(refuses, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="known"), helper.make_node("Frobnicate", ["a"], ["b"], name="frob"),
             helper.make_node("Twiddle", ["b"], ["y"], name="twid", domain="com.example")]
    path = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, [2])], [("y", FLOAT, [2])])
    model = onnx.load(path)
    model.opset_import.add(domain="com.example", version=1)
    path.write_bytes(model.SerializeToString())
    refuses(3, "run", path, says=["m.onnx", "2 nodes", "'frob' (Frobnicate)", "'twid'", "Twiddle"])


@pytest.mark.parametrize("shape, says", [([2**62, 2**62], ["'x'", "overflows"]), ([2**20, 2**22], ["'relu'", "needs"])])
def test_inputs_of_impossible_extents(refuses, tmp_path, shape, says):
    path = relu(tmp_path / "m.onnx", shape)
    for verb in ("run", "optimize", "bench"):
        began = time.monotonic()
        refuses(1, verb, path, says=says)
        assert time.monotonic() - began < 20
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize("dims, says", [([-3], "negative"), ([2**62, 4], "overflow"), ([2**40], "1099511627776")])
def test_weights_of_impossible_extents(refuses, tmp_path, dims, says):
    w = TensorProto(name="w", data_type=FLOAT, dims=dims, float_data=[1.0])
    path = save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, ["n"])],
                [w])
    refuses(1, "run", path, says=["m.onnx", "'w'", says])


@pytest.mark.parametrize("op, value", [("ConstantOfShape", [2**20, 2**20]), ("ConstantOfShape", [2**40]),
                                       ("Expand", [2**20, 2**20]), ("Tile", [2**40])])
def test_results_of_impossible_extents_are_refused_before_memory_is_taken(refuses, tmp_path, op, value):
    sizes = helper.make_tensor("sizes", INT64, [len(value)], value)
    inputs = ["sizes"] if op == "ConstantOfShape" else ["x", "sizes"]
    nodes = [helper.make_node(op, inputs, ["big"], name="grow"), helper.make_node("Add", ["big", "x"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, ["d"] * len(value))], [sizes])
    for verb in ("run", "optimize"):
        refuses(1, verb, path, says=["needs"])
    assert os.listdir(tmp_path) == ["m.onnx"]


# --- external data ----------------------------------------------------------------------------------------------------------


def test_external_data_that_is_missing_short_or_outside(refuses, command, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.data").write_bytes(bytes(16))
    path = external(folder / "m.onnx", "w.data")
    refuses(1, "run", path, says=["m.onnx", "'w'", "w.data", "is missing", "Put the file beside the model"])
    assert "add" in command("info", path, "--graph").stdout     # the structure is there without the data
    command("explain", path)
    (folder / "w.data").write_bytes(bytes(15))
    refuses(1, "run", path, says=["'w'", "beyond the end", "15 bytes"])
    (folder / "w.data").unlink()
    (folder / "w.data").mkdir()
    refuses(1, "run", path, says=["'w'", "not a regular file"])
    for location in ("../outside.data", "a/../../outside.data", str(tmp_path / "outside.data")):
        refuses(1, "run", external(path, location),
                says=["'w'", "outside.data", "expected a file in the model's folder", "Move the data file"])
    (folder / "link.data").symlink_to(tmp_path / "outside.data")
    refuses(1, "run", external(path, "link.data"), says=["'w'", "link that leaves the model's folder"])
    (folder / "up").symlink_to(tmp_path)
    refuses(1, "run", external(path, "up/outside.data"), says=["link that leaves"])
    (folder / "circle").symlink_to("circle")
    refuses(1, "run", external(path, "circle"), says=["'w'"])
    refuses(1, "run", external(path, "x" * 5000), says=["'w'"])


# --- inputs -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def feeds(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "in.npz", **arrays)
        return tmp_path / "in.npz"

    return write


def test_inputs_of_a_wrong_name_shape_or_type_are_usage_errors(refuses, small_model, feeds):
    x = np.zeros((1, 3, 8, 8), np.float32)
    refuses(2, "run", small_model, "--inputs", feeds(z=x), says=["'z'", "inputs are x"])
    refuses(2, "run", small_model, "--inputs", feeds(x=x.astype(np.float64)), says=["'x'", "f64", "expected f32"])
    refuses(2, "run", small_model, "--inputs", feeds(x=x[0]), says=["'x'", "3x8x8", "rank 4"])
    refuses(2, "run", small_model, "--inputs", feeds(x=x[:, :2]), says=["'x'", "[n, 3, 8, 8]", "1x2x8x8"])
    refuses(2, "run", small_model, "--shapes=q:1x3x8x8", says=["'q'", "inputs are x"])
    refuses(2, "run", small_model, "--shapes=x:1x3x8", says=["'x'", "rank 4"])
    refuses(2, "run", small_model, "--shapes=x:1x-3x8x8", says=["--shapes"])
    refuses(2, "run", small_model, "--shapes=x:99999999999999999999x3x8x8", says=["--shapes"])
    refuses(2, "run", small_model, "--shapes=rubbish", says=["--shapes", "rubbish"])
    refuses(1, "run", small_model, "--shapes=x:4611686018427387904x3x8x8", says=["more elements than can be counted"])


def test_input_files_that_are_damaged(refuses, command, small_model, tmp_path, feeds):
    good = feeds(x=np.zeros((1, 3, 8, 8), np.float32)).read_bytes()
    bad = tmp_path / "bad.npz"
    for content in (b"", b"PK", good[: len(good) // 2], good[:-10], b"x" * 500):
        bad.write_bytes(content)
        refuses(1, "run", small_model, "--inputs", bad, says=["bad.npz"])
    for at in range(0, len(good), 7):
        damaged = bytearray(good)
        damaged[at] ^= 0x55
        bad.write_bytes(damaged)
        result = command("run", small_model, "--inputs", bad, "--tuning-level", "0", code=None)
        assert result.returncode in (0, 1, 2), f"byte {at}: {result.returncode} {result.stderr}"
    refuses(1, "run", small_model, "--inputs", tmp_path / "none.npz", says=["none.npz", "No such file"])
    (tmp_path / "folder.npz").mkdir()
    refuses(1, "run", small_model, "--inputs", tmp_path / "folder.npz", says=["folder.npz", "folder"])
    raw = tmp_path / "x.raw"
    raw.write_bytes(bytes(100))
    refuses(2, "run", small_model, "--inputs", f"x:{raw}", says=["x.raw has 100 bytes", "'x'", "needs 768"])
    raw.write_bytes(b"")
    refuses(2, "run", small_model, "--inputs", f"x:{raw}", says=["x.raw has 0 bytes"])
    refuses(2, "run", small_model, "--inputs", raw, says=["neither an .npz file nor NAME:FILE"])
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00")
    refuses(1, "run", small_model, "--inputs", f"x:{tmp_path / 'x.npy'}", says=["x.npy"])


def test_nan_and_empty_inputs_are_computed(command, small_model, tmp_path, feeds):
    x = np.zeros((2, 3, 8, 8), np.float32)
    x[0, 0, 0, 0] = np.nan
    for tactics in ("+all", "-onednn"):  # oneDNN's Relu makes 0 of a NaN (docs/fused-ops.md)
        command("run", small_model, "--inputs", feeds(x=x), "--outputs", tmp_path / "out.npz", f"--tactics={tactics}")
        y = np.load(tmp_path / "out.npz")["y"]
        assert not np.isnan(y[1]).any()
    assert np.isnan(y[0]).any()
    command("run", small_model, "--inputs", feeds(x=x[:0]), "--outputs", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["y"].shape == (0, 8, 8, 8)
    command("run", small_model, "--shapes=x:0x3x8x8")


# --- outputs ----------------------------------------------------------------------------------------------------------------


def limited(size):
    """For preexec_fn: files of this process end at `size` bytes, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


WRITES = {
    "optimize": lambda model, out: ["optimize", model, "-o", out / "plan.onnx", "--no-cache", "--tuning-level", "0"],
    "run": lambda model, out: ["run", model, "--outputs", out / "y.npz", "--no-cache", "--shapes=x:64x3x8x8"],
    "profile": lambda model, out: ["profile", model, "--report", out / "r.html", "--no-cache", "--iterations", "1"],
    "bench": lambda model, out: ["bench", model, "--report", out / "r.html", "--no-cache", "--iterations", "2",
                                 "--duration", "0"],
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_full_disk_leaves_nothing_half_written(refuses, small_model, tmp_path, verb):
    refuses(1, *WRITES[verb](small_model, tmp_path), preexec_fn=limited(512), says=[str(tmp_path), "File too large"])
    assert os.listdir(tmp_path) == []


def test_a_full_file_system(refuses, small_model, tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here (needs root); the limit of file sizes stands in for it")
    try:
        (tmp_path / "other").write_bytes(bytes(4096))
        refuses(1, *WRITES["optimize"](small_model, tmp_path), says=[str(tmp_path), "No space left"])
        assert os.listdir(tmp_path) == ["other"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_cache_on_a_full_file_system_is_not_to_be_deleted(command, refuses, small_model, tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here (needs root)")
    try:
        (tmp_path / "other").write_bytes(bytes(8192))
        result = command("run", small_model, "--cache-dir", tmp_path, "--shapes=x:1x3x8x8")
        assert "timings are not kept" in result.stderr and "Delete" not in result.stderr, result.stderr
        listed = refuses(1, "cache", "--cache-dir", tmp_path, "list", says=["tuning.db", "Make room"])
        assert "Delete" not in listed.stderr
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_an_older_output_survives_a_failed_one(refuses, small_model, tmp_path):
    (tmp_path / "plan.onnx").write_text("old")
    refuses(1, *WRITES["optimize"](small_model, tmp_path), preexec_fn=limited(512))
    assert (tmp_path / "plan.onnx").read_text() == "old" and os.listdir(tmp_path) == ["plan.onnx"]


def test_outputs_that_cannot_be_written(refuses, small_model, tmp_path):
    refuses(1, "optimize", small_model, "-o", tmp_path / "none" / "plan.onnx", says=["none/plan.onnx", "No such file"])
    refuses(1, "optimize", small_model, "-o", tmp_path, says=[str(tmp_path), "folder"])
    refuses(1, "optimize", small_model, "-o", "/dev/full", says=["/dev/full", "No space left"])
    assert os.listdir(tmp_path) == []


def test_results_that_cannot_be_printed(command, small_model):
    with open("/dev/full", "w") as full:
        result = subprocess.run([str(command.path), "info", str(small_model)], stdout=full, stderr=subprocess.PIPE, text=True,
                                timeout=60)
    assert result.returncode == 1 and "No space left" in result.stderr


@pytest.fixture
def as_nobody(command, refuses):
    """Runs the command without root's rights; the folder it gives is anybody's to enter."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="smelt-permission-"))
    folder.chmod(0o755)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []

    def run(*args):
        env = dict(os.environ, SMELT_CACHE_DIR=str(folder / "cache"))
        return subprocess.run([*prefix, str(command.path), *map(str, args)], capture_output=True, text=True, timeout=60, env=env)

    try:
        if run("--version").returncode:
            pytest.skip("this process is root, and the command cannot be started as another user")
        yield folder, run
    finally:
        shutil.rmtree(folder)


def test_no_permission(as_nobody, small_model):
    folder, run = as_nobody
    model = folder / "m.onnx"
    shutil.copy(small_model, model)
    model.chmod(0o000)
    result = run("info", model)
    assert result.returncode == 1 and "m.onnx" in result.stderr and "Permission denied" in result.stderr, result.stderr
    model.chmod(0o644)
    locked = folder / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    result = run("optimize", model, "-o", locked / "plan.onnx", "--tuning-level", "0", "--no-cache")
    assert result.returncode == 1 and "plan.onnx" in result.stderr and "Permission denied" in result.stderr, result.stderr
    assert os.listdir(locked) == []
    # A cache that cannot be made or written is said, and done without.
    result = run("run", model, "--shapes=x:1x3x8x8")
    assert result.returncode == 0 and "timings are not kept" in result.stderr, result.stderr
    cache = folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    arguments = ("explain", model, "--shapes=x:1x3x8x8", "--kernels", "--json")
    filled = run(*arguments)
    assert filled.returncode == 0 and not filled.stderr, filled.stderr
    # What was measured beside other work would be measured again: here it counts as measured alone.
    with contextlib.closing(sqlite3.connect(cache / "tuning.db")) as database, database:
        for problem, timings in database.execute("SELECT problem, timings FROM timings").fetchall():
            alone = [{key: value for key, value in timing.items() if key != "under_load"} for timing in json.loads(timings)]
            database.execute("UPDATE timings SET timings = ? WHERE problem = ?", (json.dumps(alone), problem))
    filled = run(*arguments)
    assert filled.returncode == 0 and not filled.stderr, filled.stderr
    cache.chmod(0o555)
    (cache / "tuning.db").chmod(0o444)
    # One that can be read is: the same kernels with the same times.
    result = run(*arguments)
    assert result.returncode == 0 and "what it holds is used, and new timings are not kept" in result.stderr, result.stderr
    assert result.stdout == filled.stdout
    (cache / "tuning.db").unlink()
    result = run("run", model, "--shapes=x:1x3x8x8")
    assert result.returncode == 0 and "timings are not kept" in result.stderr and "is used" not in result.stderr, result.stderr


# --- interruptions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("verb", ["optimize", "bench"])
def test_an_interrupted_build_or_measurement_leaves_nothing(command, filled, tmp_path, verb, number):
    model = filled("mobilenet_v3_large.fp32")
    arguments = {"optimize": ["-o", tmp_path / "plan.onnx", "--copy-weights", "--tuning-level", "3",
                              "--report", tmp_path / "r.html"],
                 "bench": ["--report", tmp_path / "r.html", "--exportTimes", tmp_path / "t.json", "--duration", "30"]}[verb]
    for delay in (0.05, 0.4, 1.5):
        process = subprocess.Popen([str(command.path), verb, str(model), "--no-cache", *map(str, arguments)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))   # noqa: PLW1509 - under nohup it is ignored
        time.sleep(delay)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode in (128 + number, -number), errors      # the signal itself before main has begun
        left = sorted(os.listdir(tmp_path))
        assert left == [] or (verb == "optimize" and left == ["plan.data", "plan.onnx"]), left
        if left:
            onnx.checker.check_model(str(tmp_path / "plan.onnx"))
        for name in left:
            os.unlink(tmp_path / name)


# --- the tuning cache -------------------------------------------------------------------------------------------------------


def test_a_damaged_cache_is_said_and_done_without(command, refuses, small_model, tmp_path):
    cache = tmp_path / "cache"
    command("run", small_model, "--cache-dir", cache)
    database = cache / "tuning.db"
    good = database.read_bytes()
    for content in (b"this is no database " * 100, good[:100], good[:50] + bytes(len(good) - 50)):
        for extra in cache.iterdir():
            extra.unlink()
        database.write_bytes(content)
        result = command("run", small_model, "--cache-dir", cache)
        for part in ("tuning.db", "timings are not kept", "Delete"):
            assert part in result.stderr, result.stderr
        assert database.read_bytes() == content
        refuses(1, "cache", "--cache-dir", cache, "list", says=["tuning.db", "Delete"])
    # Damage further in may only be met on reading.
    for at in range(4096, len(good), 512):
        for extra in cache.iterdir():
            extra.unlink()
        database.write_bytes(good[:at] + b"\xff" * 256 + good[at + 256:])
        command("run", small_model, "--cache-dir", cache)
    for extra in cache.iterdir():
        extra.unlink()
    database.mkdir()
    assert "timings are not kept" in command("run", small_model, "--cache-dir", cache).stderr
    (tmp_path / "file").touch()
    result = command("run", small_model, "--cache-dir", tmp_path / "file" / "cache")
    assert "timings are not kept" in result.stderr
