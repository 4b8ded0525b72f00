"""Planning and explaining grow no faster than n log n with the number of nodes, whatever form they have."""
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("scale", ROOT / "bench" / "scale.py")
scale = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scale)

FEW, MANY = 200, 2000
MOST = 14   # n log n: 10 times the nodes take 14 times the instructions
FEW_TIMED, MANY_TIMED = 1000, 10_000
MOST_TIMED = 30   # of seconds, which neighbours change; n^2 takes 100 times as many
HAS_COUNTER = shutil.which("valgrind") is not None


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


def instructions(build, path):
    """That `smelt explain --kernels` executes, which imports, rewrites, plans and prints. Neighbours do not change them."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *explain(build, path)],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def explain(build, path):
    return [str(build / "smelt"), "explain", "--kernels", "--tuning-level", "0", "--no-cache", "--threads", "1", str(path)]


def seconds(build, path):
    """Of the processor, the least of two times."""
    def once():
        process = subprocess.Popen(explain(build, path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, said[-2000:]
        return used.ru_utime + used.ru_stime

    return min(once(), once())


@pytest.fixture(scope="session")
def counts(build, tmp_path_factory):
    """counts[case, nodes]: the instructions, less those of a command that has hardly anything to plan; on all cores at once."""
    folder = tmp_path_factory.mktemp("scale")

    def count(case, nodes):
        path = folder / f"{case}.{nodes}.onnx"
        scale.write(case, nodes, path)
        return instructions(build, path)

    wanted = [("chain", 1), *((case, nodes) for nodes in (MANY, FEW) for case in scale.CASES)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(wanted, pool.map(lambda w: count(*w), wanted)))
    start = found.pop(("chain", 1))
    return {key: n - start for key, n in found.items()}


@pytest.mark.skipif(not HAS_COUNTER, reason="valgrind counts the instructions; without it the test below takes the time")
@pytest.mark.parametrize("case", list(scale.CASES))
def test_ten_times_the_nodes_take_about_ten_times_the_instructions(case, counts):
    few, many = counts[case, FEW], counts[case, MANY]
    assert many <= MOST * few, f"{FEW} nodes take {few:,} instructions, {MANY} take {many:,}: {many / few:.1f} times"


@pytest.mark.skipif(HAS_COUNTER, reason="instructions are counted")
@pytest.mark.parametrize("case", list(scale.CASES))
def test_ten_times_the_nodes_take_about_ten_times_the_seconds(case, build, tmp_path):
    took = {}
    for nodes in (FEW_TIMED, MANY_TIMED):
        path = tmp_path / f"{nodes}.onnx"
        scale.write(case, nodes, path)
        took[nodes] = seconds(build, path)
    assert took[MANY_TIMED] <= MOST_TIMED * took[FEW_TIMED], took
