"""Every verb, and every option that names a file, on what is no file of the kind: empty, a folder, a pipe, a full device, no permission."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import onnx
import pytest
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper

QUICK = ["--tuning-level", "0"]
# What reads "@"; MODEL and PROFILE are good ones, OUT is a file that is not there yet.
READS = {
    "info": ["@"], "explain": ["@"], "run": ["@"], "optimize": ["@", "-o", "OUT"], "profile": ["@"], "bench": ["@"], "compare": ["@"],
    "inspect": ["@"], "serve": ["@"], "launch": ["@"], "diff": ["@", "PROFILE"], "diff, second": ["PROFILE", "@"],
    "tune": ["@"], "tune, from": ["--from", "@"], "bench, against": ["MODEL", "--against", "@"], "compare, other": ["MODEL", "@"],
    "profile, layers": ["PROFILE", "--layers", "@"], "run, inputs.npz": ["MODEL", "--inputs", "@.npz"],
    "run, inputs.npy": ["MODEL", "--inputs", "x:@.npy"], "run, raw inputs": ["MODEL", "--inputs", "x:@"], "cache": ["merge", "@"]}
WRITES = {
    "optimize": ["MODEL", "-o", "@", *QUICK], "profile, trace": ["MODEL", "--trace", "@", *QUICK], "profile, report": ["MODEL", "--report", "@", *QUICK],
    "profile, out": ["MODEL", "--out", "@", *QUICK], "bench, report": ["MODEL", "--report", "@", "--duration", "0", *QUICK],
    "bench, times": ["MODEL", "--exportTimes", "@", "--duration", "0", *QUICK],
    "bench, profile": ["MODEL", "--exportProfile", "@", "--duration", "0", *QUICK], "run, outputs": ["MODEL", "--outputs", "@", *QUICK],
    "run, outputs.npz": ["MODEL", "--outputs", "@.npz", *QUICK], "run, raw outputs": ["MODEL", "--outputs", "y:@.raw", *QUICK],
    "tune, csv": ["gemm:f32:4x4x4", "--csv", "@", "--tuning-level", "1"], "tune, plot": ["gemm:f32:4x4x4", "--plot", "@", "--tuning-level", "1"],
    "cache": ["export", "@"]}
CACHES = {
    "run": ["MODEL", *QUICK], "optimize": ["MODEL", "-o", "OUT", *QUICK], "explain": ["MODEL", "--kernels", *QUICK], "devices": [],
    "tune": ["gemm:f32:4x4x4", "--tuning-level", "1"], "cache": ["list"], "cache, clear": ["clear"], "cache, export": ["export", "OUT"]}
KINDS = ["empty", "folder", "pipe", "full", "locked"]


@pytest.fixture
def place():
    """A folder that anybody may enter: what has no permission is asked for by another user than root."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="smelt-paths-"))
    folder.chmod(0o777)
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [("x", TensorProto.FLOAT, [4, 4])],
                     [("y", TensorProto.FLOAT, [4, 4])], [weight])
    onnx.save(model, folder / "good.onnx")
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o777)
    shutil.rmtree(folder)


def make(kind, path):
    """What is no file to read or write."""
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "full":
        path.symlink_to("/dev/full")
    else:
        path.write_bytes(b"x")
        path.chmod(0)
        path.parent.chmod(0o555)


def call(command, place, verb, arguments, kind, **options):
    """The verb on a path of that kind; its result, which is no signal, no stray exception and no hang."""
    within = pathlib.Path(tempfile.mkdtemp(dir=place))
    within.chmod(0o777)
    at = next(a for a in arguments if "@" in a)
    path = within / ("it" + at.partition("@")[2])
    make(kind, path)
    known = {"MODEL": place / "good.onnx", "PROFILE": place / "profile.json", "OUT": place / f"{within.name}.out"}
    words = [known.get(a, a.replace(at.partition(":")[2] if ":" in at else at, str(path)) if "@" in a else a) for a in arguments]
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if kind == "locked" and os.geteuid() == 0 else []
    environment = {"SMELT_CACHE_DIR": str(place / "cache")} | options
    result = subprocess.run([*prefix, str(command.path.resolve()), verb.partition(",")[0], *map(str, words)], capture_output=True, text=True,
                            timeout=60, env=dict(os.environ, **environment), cwd=place, stdin=subprocess.DEVNULL)
    said = f"{verb} on {kind}: exit {result.returncode}\n{result.stdout[-500:]}\n{result.stderr}"
    for noise in ("terminate called", "what():", "std::", "filesystem error", "json.exception", "Sanitizer", "runtime error"):
        assert noise not in result.stderr, said
    assert 0 <= result.returncode <= 6, said
    return result, path, said


def enter(command, place, kind):
    """Skips where another user cannot start the command."""
    (place / "cache").mkdir(exist_ok=True)
    (place / "cache").chmod(0o777)
    if kind == "locked" and os.geteuid() == 0:
        tried = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(command.path.resolve()), "--version"],
                               capture_output=True)
        if tried.returncode:
            pytest.skip("this process is root, and the command cannot be started as another user")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read(command, place, kind):
    enter(command, place, kind)
    command("profile", place / "good.onnx", "--out", place, *QUICK)
    for verb, arguments in READS.items():
        if verb == "cache" and kind == "empty":
            continue   # a database without tables: nothing to take
        result, path, said = call(command, place, verb, arguments, kind)
        assert result.returncode in (1, 2) and path.name in result.stderr, said
        assert len(result.stderr.strip().splitlines()) <= 3, said


@pytest.mark.parametrize("kind", ["folder", "full", "locked"])   # an empty file is written to, and a pipe waits for its reader
def test_what_is_written(command, place, kind):
    enter(command, place, kind)
    for verb, arguments in WRITES.items():
        result, path, said = call(command, place, verb, arguments, kind)
        if kind == "folder" and verb in ("profile, out", "run, outputs"):
            assert result.returncode == 0 and os.listdir(path), said
            continue
        assert result.returncode == 1 and path.name in result.stderr, said
        assert [p.name for p in path.parent.iterdir()] == [path.name], said


def test_a_device_takes_a_plan(command, place):
    said = command("optimize", place / "good.onnx", "-o", "/dev/null", *QUICK).stdout
    assert "wrote /dev/null\n" in said


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "folder"])
def test_what_is_no_folder_of_a_cache(command, place, kind):
    """Timings are not kept, and that is said; what asks for the cache itself ends with an error."""
    enter(command, place, kind)
    for verb, arguments in CACHES.items():
        result, path, said = call(command, place, verb, [*arguments, "--cache-dir", "@"], kind)
        of_cache = verb.startswith("cache")
        assert result.returncode == (1 if of_cache else 0), said
        assert "Delete" not in result.stderr, said
        if of_cache:
            assert "Give another folder" in result.stderr and path.name in result.stderr, said


def test_a_folder_of_temporary_files_that_is_not_there(command, place):
    command("profile", place / "good.onnx", "--report", place / "report.html", *QUICK, env=dict(os.environ, TMPDIR=str(place / "none")))
    assert "<html" in (place / "report.html").read_text()
