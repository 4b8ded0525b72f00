"""What a user installs: the wheel in a fresh environment, and the C++ package with the example built against it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import onnxruntime as ort
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(*command, **kwargs):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900, **kwargs)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


def exported(library):
    """The demangled names that a shared library offers to others."""
    symbols = output_of("nm", "-DC", "--defined-only", library).splitlines()
    return [line.split(maxsplit=2)[2] for line in symbols if line[17:18] in "TWVBDRui"]


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture(scope="session")
def wheel(build, tmp_path_factory):
    """`pip wheel .` in the build folder that the tests use, so that nothing is compiled twice."""
    folder = tmp_path_factory.mktemp("wheel")
    output_of(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", folder,
              "--config-settings", f"build-dir={build}", "--config-settings", "cmake.define.SMELT_TESTS=ON",
              env={**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2"})
    [path] = folder.glob("smelt-*.whl")
    return path


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """A fresh virtual environment with the wheel, and NumPy from the one that runs the tests; returns its bin folder and its
    environment."""
    root = tmp_path_factory.mktemp("venv")
    output_of(sys.executable, "-m", "venv", root / "venv")
    output_of(root / "venv/bin/python", "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    numpy = pathlib.Path(np.__file__).parent
    for folder in (numpy, numpy.with_name("numpy.libs")):
        if folder.exists():
            (root / folder.name).symlink_to(folder)
    return root / "venv/bin", {"PATH": os.environ["PATH"], "HOME": str(root), "PYTHONPATH": str(root),
                               "SMELT_CACHE_DIR": str(root / "cache")}


def test_the_wheel_gives_a_command_that_works_outside_the_source_tree(environment, small_model, tmp_path):
    bin, env = environment
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    output_of(bin / "smelt", "run", small_model, "--inputs", "in.npz", "--outputs", "out.npz", cwd=tmp_path, env=env)
    expected = ort.InferenceSession(str(small_model)).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], expected, rtol=1e-5, atol=1e-5)


def test_the_wheel_gives_a_module_that_works_outside_the_source_tree(environment, small_model, tmp_path):
    bin, env = environment
    program = """
import sys, numpy as np, smelt
assert smelt.__file__.startswith(sys.prefix), smelt.__file__
x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
np.save("x.npy", x)
np.save("y.npy", smelt.Session(sys.argv[1]).run(None, {"x": x})[0])
"""
    output_of(bin / "python", "-c", program, small_model, cwd=tmp_path, env=env)
    expected = ort.InferenceSession(str(small_model)).run(None, {"x": np.load(tmp_path / "x.npy")})[0]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-5)


def test_the_wheel_needs_no_library_of_the_build_machine(environment):
    bin, env = environment
    [package] = bin.parent.glob("lib/python*/site-packages/smelt")
    common = re.compile(r"lib(c|m|z|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux|linux-vdso")
    bundled = {path.name for path in package.glob("lib/*.so*")}
    for program in [package / "bin/smelt", *package.glob("smelt_ext*.so")]:
        for line in output_of("ldd", program, env=env).splitlines():
            assert common.search(line) or str(package) in line, f"{program.name}: {line.strip()}"
    # What the bundled ones need is loaded by then, under the same name.
    for library in package.glob("lib/*.so*"):
        for line in output_of("ldd", library, env=env).splitlines():
            assert common.search(line) or line.split()[0] in bundled, f"{library.name}: {line.strip()}"


def test_the_notice_names_every_library_of_the_wheel_and_the_texts_of_the_licences_are_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    notice = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith(".dist-info/licenses/NOTICE"))).decode()
    libraries = {re.split(r"\.so|-", pathlib.PurePath(n).name)[0] for n in names if n.startswith("smelt/lib/")}
    assert libraries == set(re.findall(r"^  (lib\w+)", notice, re.M))
    texts = " ".join(n for n in names if n.startswith("smelt/licences/"))
    for part in ("onnx", "onednn", "protobuf", "sqlite3", "gomp", "fmt", "nlohmann", "cli11", "nanobind"):
        assert part in texts.lower(), f"{part}: no licence text in {texts}"
    assert next(n for n in names if n.endswith(".dist-info/licenses/LICENSE"))


def test_the_module_exports_nothing_but_its_entry(build):
    [module] = (build / "python/smelt").glob("smelt_ext*.so")
    assert [s for s in exported(module) if s != "PyInit_smelt_ext"] == []


@pytest.fixture(scope="session")
def prefix(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    output_of("cmake", "--install", build, "--prefix", folder)
    return folder


def test_the_library_exports_nothing_but_smelt(prefix):
    [library] = prefix.glob("lib/libsmelt.so")
    symbols = exported(library)
    assert any(s.startswith("smelt::Session::run") for s in symbols)
    assert [s for s in symbols if not re.match(r"((typeinfo|vtable|typeinfo name|guard variable) for )?smelt::", s)] == []


def test_the_example_is_built_against_the_installed_package_and_runs(prefix, filled, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "examples/cpp", source)
    output_of("cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", tmp_path / "build")
    model = filled("mobilenet_v3_large.fp32")
    out = output_of(tmp_path / "build/classify", model, env={"SMELT_CACHE_DIR": str(tmp_path / "cache")})
    peer = ort.InferenceSession(str(model))
    [x] = peer.get_inputs()
    image = (np.arange(np.prod(x.shape)) % 255 / np.float32(127.5) - 1).astype(np.float32).reshape(x.shape)
    scores = peer.run(None, {x.name: image})[0].ravel()
    found = [(int(c), float(v)) for c, v in re.findall(r"class +(\d+) +(-?[\d.]+)", out)]
    assert len(found) == 5
    for (number, score), best in zip(found, np.sort(scores)[::-1], strict=False):
        assert abs(score - best) < 1e-3 and abs(scores[number] - best) < 1e-3, (found, best)
