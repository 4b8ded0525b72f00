"""Planning and explaining grow no faster than n log n with the number of nodes, whatever form they have."""
import importlib.util
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("scale", ROOT / "bench" / "scale.py")
scale = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scale)

FEW, MANY = 300, 3000
MOST = 14   # n log n: 10 times the nodes take 14 times the instructions


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


def instructions(build, path):
    """That `smelt explain --kernels` executes, which imports, rewrites, plans and prints. Neighbours do not change them."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", build / "smelt", "explain", "--kernels",
                           "--tuning-level", "0", "--no-cache", "--threads", "1", path], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


@pytest.fixture(scope="session")
def start(build, tmp_path_factory):
    """The instructions of a command that has hardly anything to plan."""
    path = tmp_path_factory.mktemp("start") / "start.onnx"
    scale.write("chain", 1, path)
    return instructions(build, path)


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind counts the instructions")
@pytest.mark.parametrize("case", list(scale.CASES))
def test_ten_times_the_nodes_take_about_ten_times_the_instructions(case, build, start, tmp_path):
    counts = []
    for nodes in (FEW, MANY):
        path = tmp_path / f"{case}.{nodes}.onnx"
        scale.write(case, nodes, path)
        counts.append(instructions(build, path) - start)
    few, many = counts
    assert many <= MOST * few, f"{FEW} nodes take {few:,} instructions, {MANY} take {many:,}: {many / few:.1f} times"
