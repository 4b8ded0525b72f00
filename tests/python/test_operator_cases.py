"""Operators' cases, changed by the fuzzer: no finding, and outputs like ONNX Runtime's where both take a case. The same cases every time;
scripts/fuzz_operators.sh runs others, and more, and under sanitizers."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

CASES = 1500   # of which some 400 run


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", ROOT / "tests/fuzz/operators/compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kept(request, tmp_path_factory):
    """The folder of the cases that ran, with their outputs."""
    build = pathlib.Path(request.config.getoption("--build"))
    folder = tmp_path_factory.mktemp("cases")
    subprocess.check_call([sys.executable, ROOT / "tests/conformance/generate.py", build / "conformance"])
    seeds = [build / "conformance/node", build / "conformance/pytorch-operator", ROOT / "tests/repro"]
    done = subprocess.run([build / "operator_fuzz", folder / "out", "--cases", str(CASES), "--seconds", "300", "--keep", folder / "kept",
                           "--seeds", *seeds], capture_output=True, text=True, check=False, env=dict(os.environ, MALLOC_PERTURB_="165"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases" in done.stdout, done.stdout
    return folder / "kept"


def test_changed_cases_give_what_onnx_runtime_gives(compare, kept):
    counts, lines = compare.compare_all(kept)
    assert not lines, "\n".join(lines)
    assert counts["agree"] > 100, counts
