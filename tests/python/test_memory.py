"""Models that ask for more memory than there is: an error that names the node and the bytes, before the memory is touched."""
import json
import re
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
import smelt
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
QUICK_S = 2.0    # of the processor: other work on the machine does not count
FOREVER = 1 << 62


def array(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def info(name, element, shape):
    return helper.make_tensor_value_info(name, element, shape)


def looped(path, nodes, state_out, trips=FOREVER, scanned=(), go="go", initializers=(), first=(4,)):
    """Loop 'grow' over a state x of the extents `first`, whose body has these nodes."""
    body = helper.make_graph(
        list(nodes), "body", [info("i", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])],
        [info(go, BOOL, []), info(state_out, FLOAT, ["m"]), *(info(s, FLOAT, None) for s in scanned)], list(initializers))
    loop = helper.make_node("Loop", ["trips", "true", "x0"], ["y", *(f"s{k}" for k in range(len(scanned)))], name="grow", body=body)
    graph = helper.make_graph([loop], "g", [info("x0", FLOAT, list(first))],
                              [info("y", FLOAT, ["k"]), *(info(f"s{k}", FLOAT, None) for k in range(len(scanned)))],
                              [array("trips", trips), array("true", True, bool)])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


def peak_kib():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])


class Refused:
    """refused(path, says=[…]): running it is an error that names those, soon, and with no more than a gigabyte."""

    def __call__(self, path, says, feeds=None, **options):
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")   # VmHWM begins anew
        held, begin = peak_kib(), time.process_time()
        with pytest.raises(smelt.Error) as refused:
            session = smelt.Session(path, tuning_level=0, use_cache=False, **options)
            session.run(None, feeds or {"x0": np.ones(4, np.float32)})
        assert time.process_time() - begin < QUICK_S, str(refused.value)
        assert peak_kib() - held < 1 << 20, str(refused.value)
        for part in says:
            assert part in str(refused.value), str(refused.value)
        assert re.search(r"\d{8,}", str(refused.value)), "it names no number of bytes"


refused = Refused()


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("optimize", [True, False])
def test_a_loop_whose_state_doubles_ends_before_the_memory_does(tmp_path, limit, optimize):
    path = looped(tmp_path / "m.onnx", [helper.make_node("Concat", ["x", "x"], ["z"], axis=0)], "z")
    assert path.stat().st_size < 340
    refused(path, ["'grow' (Loop)", "iteration"], memory_limit=limit, optimize=optimize)


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_loop_whose_state_grows_by_as_much_each_time(tmp_path, limit):
    nodes = [helper.make_node("Expand", ["one", "many"], ["more"]), helper.make_node("Concat", ["x", "more"], ["z"], axis=0)]
    path = looped(tmp_path / "m.onnx", nodes, "z", initializers=[array("one", [1], np.float32), array("many", [1 << 26])])
    refused(path, ["'grow' (Loop)", "iteration"], memory_limit=limit)


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("trips", [FOREVER, 10_000_000])
def test_a_loop_that_gathers_results_for_ever(tmp_path, limit, trips):
    nodes = [helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Expand", ["x", "many"], ["kept"])]
    path = looped(tmp_path / "m.onnx", nodes, "z", trips, ["kept"], initializers=[array("many", [1 << 18, 4])])
    refused(path, ["'grow' (Loop)", "iterations"], memory_limit=limit)


@pytest.mark.parametrize("condition", ["number", "data"])
def test_loops_that_would_grow_too_large_but_end_before_run(tmp_path, condition):
    """By the iteration's number, which looking ahead knows, and by what is computed, which it does not."""
    nodes = [helper.make_node("Concat", ["x", "x"], ["z"], axis=0)]
    if condition == "number":
        nodes += [helper.make_node("Less", ["i", "last"], ["on"])]
        initializers = [array("last", 20)]
    else:
        nodes += [helper.make_node("ReduceSum", ["z"], ["sum"], keepdims=0), helper.make_node("Less", ["sum", "last"], ["on"])]
        initializers = [array("last", 5e6, np.float32)]
    path = looped(tmp_path / "m.onnx", nodes, "z", go="on", initializers=initializers)
    session = smelt.Session(path, tuning_level=0, use_cache=False)
    [y] = session.run(None, {"x0": np.ones(4, np.float32)})
    assert y.shape == (4 << 21,) and (y == 1).all()


def test_a_loop_that_grows_in_data_alone_ends_at_the_limit(tmp_path):
    """How much NonZero finds is known to the run alone: nothing can be looked ahead of."""
    nodes = [helper.make_node("Concat", ["x", "x"], ["twice"], axis=0), helper.make_node("NonZero", ["twice"], ["at"]),
             helper.make_node("Squeeze", ["at", "zero"], ["flat"]), helper.make_node("Gather", ["twice", "flat"], ["z"])]
    path = looped(tmp_path / "m.onnx", nodes, "z", initializers=[array("zero", [0])])
    refused(path, ["'grow' (Loop)"], memory_limit=100 << 20)


def looped_strings(path, node):
    """Loop 'grow' over strings x0 of one element, whose body is the node: x to z."""
    strings = TensorProto.STRING
    body = helper.make_graph([node], "body", [info("i", INT64, []), info("go", BOOL, []), info("x", strings, ["n"])],
                             [info("go", BOOL, []), info("z", strings, ["m"])])
    graph = helper.make_graph([helper.make_node("Loop", ["trips", "true", "x0"], ["y"], name="grow", body=body)], "g",
                              [info("x0", strings, [1])], [info("y", strings, ["k"])], [array("trips", FOREVER), array("true", True, bool)])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString())
    return path


@pytest.mark.parametrize("limit", [0, 100 << 20])
def test_a_loop_whose_string_doubles_ends_before_the_memory_does(tmp_path, limit):
    """Without a limit at the longest string that there is, of 256 MiB."""
    path = looped_strings(tmp_path / "m.onnx", helper.make_node("StringConcat", ["x", "x"], ["z"], name="twice"))
    refused(path, ["'grow' (Loop)", "iteration"], {"x0": np.array(["ab"])}, memory_limit=limit)


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_loop_of_twice_as_many_strings_ends_before_the_memory_does(tmp_path, limit):
    path = looped_strings(tmp_path / "m.onnx", helper.make_node("Concat", ["x", "x"], ["z"], axis=0))
    refused(path, ["'grow' (Loop)", "iteration"], {"x0": np.array(["ab"])}, memory_limit=limit)


def many_constants(path, count, elements):
    nodes, at = [], "x"
    for i in range(count):
        nodes += [helper.make_node("ConstantOfShape", ["many"], [f"c{i}"], name=f"fill{i}"),
                  helper.make_node("Add", [at, f"c{i}"], [f"t{i}"], name=f"add{i}")]
        at = f"t{i}"
    model = model_of(nodes, [("x", FLOAT, [1])], [(at, FLOAT, [elements])], [array("many", [elements])])
    path.write_bytes(model.SerializeToString())
    return path


# Its child's peak begins at its own memory, which is small.
MEASURING = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def measured(command, cwd=None):
    """Exit code, standard error, seconds of the processor and the most MiB that a process held."""
    done = subprocess.run([sys.executable, "-c", MEASURING, *map(str, command)], capture_output=True, text=True, check=True, cwd=cwd)
    return json.loads(done.stdout)


def test_many_constants_are_not_all_computed_ahead(tmp_path, build):
    """1,500 constants of 8 MB each, in a file of 100 KB, took 12 GB to explain."""
    path = many_constants(tmp_path / "m.onnx", 1500, 2_000_000)
    assert path.stat().st_size < 120_000
    code, said, _, mib = measured([build / "smelt", "explain", path, "--summary"])
    assert code == 0 and mib < 1500, (said, mib)


def test_many_constants_that_a_run_holds_at_once(tmp_path, build):
    nodes = [helper.make_node("ConstantOfShape", ["many"], [f"c{i}"], name=f"fill{i}") for i in range(1000)]
    nodes.append(helper.make_node("Sum", [f"c{i}" for i in range(1000)], ["y"], name="all"))
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, [("x", FLOAT, [1])], [("y", FLOAT, [2_500_000])], [array("many", [2_500_000])]).SerializeToString())
    code, said, seconds, mib = measured([build / "smelt", "run", path, "--memory-limit", "1GiB", "--tuning-level", "0", "--no-cache"])
    assert code == 1 and re.search(r"'(fill\d+|all)' \((ConstantOfShape|Sum)\)", said), said
    assert re.search(r"\d{10}", said), said
    assert mib < 1500 and seconds < QUICK_S, (mib, seconds)


def test_one_result_beyond_the_limit(tmp_path):
    nodes = [helper.make_node("Expand", ["x0", "many"], ["y"], name="grow")]
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, [("x0", FLOAT, [1])], [("y", FLOAT, [None])], [array("many", [5 << 30])]).SerializeToString())
    refused(path, ["'grow' (Expand)", str(20 << 30)], {"x0": np.ones(1, np.float32)}, memory_limit=1 << 30)


@pytest.fixture
def between(tmp_path):
    """Two values of 40 MB each lie in the arena at once; a result of one element."""
    nodes = [helper.make_node("Expand", ["x0", "many"], ["a"], name="grow"), helper.make_node("CumSum", ["a", "axis"], ["b"], name="run"),
             helper.make_node("CumSum", ["b", "axis"], ["c"], name="again"), helper.make_node("ReduceMax", ["c"], ["y"], keepdims=0)]
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, [("x0", FLOAT, [1])], [("y", FLOAT, [])],
                              [array("many", [10_000_000]), array("axis", 0)]).SerializeToString())
    return path


def test_what_lies_in_the_arena_together_names_the_fullest_step(between):
    feeds = {"x0": np.zeros(1, np.float32)}
    refused(between, ["the arena", "bytes then", "of the limit of"], feeds, memory_limit=60_000_000, optimize=False)
    session = smelt.Session(between, tuning_level=0, use_cache=False, optimize=False, memory_limit=200_000_000)
    assert session.run(None, feeds)[0] == 0


def test_what_is_let_go_can_be_taken_again(between):
    """A session's results count while somebody has them, and its runs one after the other need no more than one."""
    session = smelt.Session(between, tuning_level=0, use_cache=False, optimize=False, memory_limit=200_000_000)
    for _ in range(10):
        assert session.run(None, {"x0": np.zeros(1, np.float32)})[0] == 0


@pytest.fixture
def twenty_gigabytes(tmp_path):
    """A hundred values of 200 MB each that one node at the end reads: 20 GB at once, in a file of a few KB."""
    nodes, names = [helper.make_node("Expand", ["x0", "many"], ["t0"], name="grow")], ["t0"]
    for i in range(1, 100):
        nodes.append(helper.make_node("CumSum", [names[-1], "axis"], [f"t{i}"], name=f"step{i}"))
        names.append(f"t{i}")
    nodes += [helper.make_node("Max", names, ["m"], name="all"), helper.make_node("ReduceMax", ["m"], ["y"], keepdims=0)]
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, [("x0", FLOAT, [1])], [("y", FLOAT, [])],
                              [array("many", [50_000_000]), array("axis", 0)]).SerializeToString())
    assert path.stat().st_size < 11_600
    return path


@pytest.mark.parametrize("optimize", [True, False])
def test_values_that_need_more_together_are_refused_when_planned(twenty_gigabytes, optimize):
    with pytest.raises(smelt.Error, match=r"'all' .*: values and workspaces take 20\d{9} bytes then, .* of the limit of 1073741824"):
        smelt.Session(twenty_gigabytes, tuning_level=0, use_cache=False, optimize=optimize, memory_limit=1 << 30)
    refused(twenty_gigabytes, ["'all' ("], {"x0": np.ones(1, np.float32)}, memory_limit=1 << 30, optimize=optimize)


@pytest.mark.parametrize("verb", [["run"], ["explain", "--kernels"], ["optimize", "-o", "plan.onnx"], ["bench"], ["profile"]])
def test_every_verb_that_plans_refuses_values_that_need_more_together(twenty_gigabytes, build, verb, tmp_path):
    command = [build / "smelt", verb[0], twenty_gigabytes, *verb[1:], "--memory-limit", "1GiB", "--tuning-level", "0", "--no-cache"]
    code, said, seconds, mib = measured(command, cwd=tmp_path)
    assert code == 1 and "'all' (" in said and "of the limit of 1073741824" in said, said
    assert mib < 1000 and seconds < QUICK_S, (mib, seconds)


def test_explain_reads_the_graph_and_takes_none_of_its_memory(twenty_gigabytes, build):
    code, said, seconds, mib = measured([build / "smelt", "explain", twenty_gigabytes, "--memory-limit", "1GiB"])
    assert code == 0 and mib < 1000 and seconds < QUICK_S, (said, mib, seconds)


def test_a_limit_below_zero_is_a_usage_error(between):
    with pytest.raises(smelt.UsageError, match="a memory limit of -1 bytes"):
        smelt.Session(between, memory_limit=-1)


@pytest.fixture
def build(request):
    import pathlib
    return pathlib.Path(request.config.getoption("--build")).resolve()


def peak_of(*command):
    """The most bytes that a process of the command held; it must come to a good end."""
    code, said, _, mib = measured(command)
    assert code == 0, said
    return int(mib * 2**20)


def test_external_data_of_two_and_a_half_gigabytes_is_not_copied(command, tmp_path):
    rows, width = 600_000, 1024                             # 2.46 GB of zeros: a file of holes
    with open(tmp_path / "table.data", "wb") as f:
        f.truncate(rows * width * 4)
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, width], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", "table.data"), ("offset", "0"), ("length", str(rows * width * 4))]:
        table.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["g"], name="look_up"),
             helper.make_node("Relu", ["g"], ["y"], name="relu")]
    graph = helper.make_graph(nodes, "table", [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, width])], [table])
    model = tmp_path / "table.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
    limit = 200 << 20
    plan = tmp_path / "table.plan.onnx"
    assert peak_of(command.path, "info", model) < limit
    assert peak_of(command.path, "run", model, "--tuning-level", 0) < limit
    assert peak_of(command.path, "optimize", model, "-o", plan, "--tuning-level", 0) < limit
    onnx.checker.check_model(str(plan))
    assert plan.stat().st_size < 1 << 20                    # points at the model's data, which no second copy lies beside
    assert sorted(p.name for p in tmp_path.glob("*.data")) == ["table.data"]
    assert peak_of(command.path, "run", plan, "--tuning-level", 0) < limit
