"""Profiles of other tools: smelt profile FILE and smelt diff. PyTorch's and ONNX Runtime's are made here by these tools; trtexec's
and Nsight Systems' need a GPU and are small samples written after their documentation."""

import json
import os
import pathlib
import random
import re
import sqlite3

import hostile
import numpy as np
import onnx
import pytest
from conftest import looped
from onnx import TensorProto, helper, numpy_helper
from test_limits import described


def tables(command, *args):
    return described(command(*args, "--json").stdout)


def rows(table, key="name"):
    return {r[key]: r for r in table}


@pytest.fixture(scope="module")
def block_model(tmp_path_factory):
    """Two products in two modules, named as PyTorch's exporter names nodes."""
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="/block/first/MatMul"),
        helper.make_node("Relu", ["h"], ["r"], name="/block/first/Relu"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="/block/second/MatMul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])],
        [w],
    )
    path = tmp_path_factory.mktemp("profiles") / "block.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def torch_trace(tmp_path_factory):
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile, record_function

    a, b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p, torch.no_grad():
        with record_function("block/first"):
            h = torch.relu(a(torch.randn(8, 64)))
        with record_function("block/second"):
            b(h)
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    p.export_chrome_trace(str(path))
    return path, p


@pytest.fixture(scope="module")
def ort_profile(block_model, tmp_path_factory):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path_factory.mktemp("ort") / "ort")
    session = ort.InferenceSession(str(block_model), options, providers=["CPUExecutionProvider"])
    for _ in range(5):
        session.run(None, {"x": np.zeros((8, 64), np.float32)})
    return pathlib.Path(session.end_profiling())


def test_a_trace_of_pytorch_has_the_times_that_pytorch_sums_up(command, torch_trace):
    path, profiler = torch_trace
    shown = tables(command, "profile", path)
    ours = {}
    for r in shown["nodes"]:
        sums = ours.setdefault(r["op"], [0, 0, 0])
        for i, value in enumerate((r["self_us"], r["total_cpu_us"] or 0, r["calls"])):
            sums[i] += value
    theirs = {e.key: e for e in profiler.key_averages() if e.key.startswith("aten::")}
    assert set(theirs) == set(ours)
    for op, (self_us, total_us, calls) in ours.items():
        assert calls == theirs[op].count
        assert self_us == pytest.approx(theirs[op].self_cpu_time_total, abs=0.02 * calls + 0.05)
        assert total_us == pytest.approx(theirs[op].cpu_time_total, abs=0.02 * calls + 0.05)
    scopes = rows(shown["scopes"], "path")
    assert {"block/first", "block/second"} <= set(scopes)  # record_function's labels
    assert scopes["block/first"]["calls"] + scopes["block/second"]["calls"] <= sum(c for _, _, c in ours.values())
    assert scopes["block/second"]["bytes"] == 8 * 64 * 4  # the result of addmm


def test_the_operators_of_a_gpu_get_their_kernels_times(command, tmp_path):
    """Kernels by PyTorch's External id, and by the correlation of the launch inside of the operator."""

    def span(category, name, ts, dur, **args):
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1 if category != "kernel" else 0,
            "tid": 7,
            "ts": ts,
            "dur": dur,
            "args": args,
        }

    events = [span("user_annotation", "ProfilerStep#1", 0, 50), span("user_annotation", "ProfilerStep#2", 100, 50)]
    for begin, ids in ((0, (1, 11)), (100, (2, 12))):
        events += [
            span("user_annotation", "encoder", begin + 1, 40),
            span("cpu_op", "aten::mm", begin + 2, 20, **{"External id": ids[0]}),
            span("cuda_runtime", "cudaLaunchKernel", begin + 5, 3, correlation=ids[1]),
            span("kernel", "sgemm", begin + 10, 30, **{"External id": ids[0], "correlation": ids[1]}),
            span("kernel", "epilogue", begin + 40, 4, correlation=ids[1]),
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    (node,) = tables(command, "profile", path)["nodes"]
    assert node["name"] == "encoder/aten::mm" and node["calls"] == 1
    assert (node["self_us"], node["self_gpu_us"], node["self_cpu_us"]) == (34, 34, 20)


def test_a_profile_of_onnxruntime_is_the_mean_of_the_runs_after_the_first(command, ort_profile):
    events = [
        e for e in json.loads(ort_profile.read_text()) if e["cat"] == "Node" and e["name"] == "/block/first/MatMul_kernel_time"
    ]
    shown = tables(command, "profile", ort_profile)
    nodes = rows(shown["nodes"])
    assert len(events) == 5 and set(nodes) == {"/block/first/MatMul", "/block/first/Relu", "/block/second/MatMul"}
    assert nodes["/block/first/MatMul"]["self_us"] == pytest.approx(sum(e["dur"] for e in events[1:]) / 4)
    assert nodes["/block/first/MatMul"]["op"] == "MatMul" and nodes["/block/first/MatMul"]["calls"] == pytest.approx(1)
    assert {"block", "block/first", "block/second"} <= set(rows(shown["scopes"], "path"))
    assert "4 runs" in command("profile", ort_profile).stdout


def test_diff_compares_by_module_across_tools(command, block_model, ort_profile, torch_trace, tmp_path):
    ours = tmp_path / "smelt.json"
    ours.write_text(command("profile", block_model, "--optimized", "--iterations", 3, "--json").stdout)
    a, b = (rows(tables(command, "profile", p)["scopes"], "path") for p in (ort_profile, ours))
    shown = tables(command, "diff", ort_profile, ours)
    scopes = rows(shown["scopes"], "path")
    for path in ("block/first", "block/second"):
        assert scopes[path]["a_us"] == pytest.approx(a[path]["total_us"]) and scopes[path]["b_us"] == pytest.approx(
            b[path]["total_us"]
        )
        assert scopes[path]["change_us"] == pytest.approx(b[path]["total_us"] - a[path]["total_us"])
    # smelt's product with its Relu stands for two of the other's nodes: one row.
    nodes = [r for r in shown["nodes"] if r["a_us"] is not None and r["b_us"] is not None]
    assert len(nodes) == 2 and sum(r["a_us"] for r in nodes) == pytest.approx(scopes["(model)"]["a_us"])
    assert "faster" in command("diff", ort_profile, ours).stdout or "slower" in command("diff", ort_profile, ours).stdout
    assert rows(tables(command, "diff", torch_trace[0], ours)["scopes"], "path")["block/first"]["b_us"] > 0


@pytest.fixture(scope="module")
def bodies(command, tmp_path_factory):
    """A Loop of three iterations and an If, as ONNX Runtime profiles them and as smelt does."""
    ort = pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("bodies")
    model, shape = folder / "looped.onnx", (1, 3, 16, 16)
    onnx.save(looped(), model)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "ort")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(5):
        session.run(None, {"x": np.ones(shape, np.float32)})
    ours = folder / "smelt.json"
    ours.write_text(command("profile", model, "--iterations", 3, "--json").stdout)
    return pathlib.Path(session.end_profiling()), ours


def test_what_is_inside_of_a_body_counts_once(command, bodies):
    events = json.loads(bodies[0].read_text())
    runs = [e for e in events if e["name"] == "model_run"]
    for file, whole in ((bodies[0], sum(e["dur"] for e in runs[1:]) / 4), (bodies[1], None)):
        shown = tables(command, "profile", file)
        nodes, scopes = rows(shown["nodes"]), rows(shown["scopes"], "path")
        assert nodes["body_Erf"]["calls"] == pytest.approx(3) and scopes["loop"]["calls"] >= 6, file
        assert nodes["loop"]["total_cpu_us"] >= nodes["body_Erf"]["self_us"] + nodes["body_Sin"]["self_us"]
        inside = sum(n["self_us"] for name, n in nodes.items() if name.startswith("body_") or name == "go_on")   # the condition's
        assert nodes["loop"]["self_us"] == pytest.approx(nodes["loop"]["total_cpu_us"] - inside, abs=0.1)
        assert whole is None or sum(n["self_us"] for n in nodes.values()) <= whole
        assert any(path in scopes for path in ("if", "if/then", "if/else")), scopes.keys()
    both = rows(tables(command, "diff", *bodies)["scopes"], "path")
    assert both["loop"]["a_us"] > 0 and both["loop"]["b_us"] > 0


def with_set_times(ort_profile, path):
    """ONNX Runtime's profile with 20 us for each node: in its own times a node that waits for a core leaves others no share of a run."""
    events = json.loads(ort_profile.read_text())
    for e in events:
        if e["cat"] == "Node" and e["name"].endswith("_kernel_time"):
            e["dur"] = 20
    path.write_text(json.dumps(events))
    return path


def test_a_profile_of_another_tool_says_what_to_do_and_has_a_page(command, ort_profile, torch_trace, bodies, tmp_path):
    ort_profile = with_set_times(ort_profile, tmp_path / "ort.json")
    for file in (ort_profile, torch_trace[0], *bodies):
        page = tmp_path / "page.html"
        shown = tables(command, "profile", file, "--report", page)
        whole = sum(r["self_us"] for r in shown["nodes"])
        if file == bodies[1]:  # waiting for cores that others use is none of its nodes'
            whole = max(whole, json.loads(file.read_text())["after"]["latency_us"]["median"])
        for a in shown["advice"]:
            assert a["what"] and a["why"] and 0 < a["us"] <= whole * 1.01 and a["from"], file
            assert set(a["steps"]) <= {r["name"] for r in shown["nodes"]}, file
        order = [(a["from"] == "roof", -a["us"]) for a in shown["advice"]]
        assert order == sorted(order)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])
        assert data["imported"] and len(data["after"]["steps"]["rows"]) == len(shown["nodes"]) and "memory" not in data["after"]
    fused = next(a for a in tables(command, "profile", ort_profile)["advice"] if "element by element" in a["what"])
    assert fused["steps"] == ["/block/first/Relu"]
    assert "Why slow, what next" in command("profile", ort_profile).stdout
    own = json.loads(bodies[1].read_text())["after"]["advice"]
    assert [a["what"] for a in tables(command, "profile", bodies[1])["advice"]] == [a["what"] for a in own]
    assert "is a profile" in command("profile", ort_profile, "--trace", tmp_path / "t.json", code=2).stderr


def test_a_trace_of_a_pytorch_without_kineto_is_read(command, tmp_path):
    """An array of spans without categories."""
    def span(name, ts, dur, pid="CPU functions"):
        return {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": 1, "pid": pid, "args": {}}

    path = tmp_path / "trace.json"
    path.write_text(json.dumps([span("ProfilerStep#1", 0, 100), span("encoder", 5, 80), span("aten::linear", 10, 60), span("aten::addmm", 20, 40),
                                span("sgemm", 30, 25, "CUDA functions")]))
    shown = tables(command, "profile", path)
    nodes = rows(shown["nodes"])
    assert nodes["encoder/aten::linear"]["self_cpu_us"] == 20 and nodes["encoder/aten::addmm"]["self_cpu_us"] == 40
    assert nodes["sgemm"]["self_us"] == 25 and "encoder" in rows(shown["scopes"], "path")


def test_a_profile_compared_with_itself_has_no_change(command, torch_trace):
    shown = tables(command, "diff", torch_trace[0], torch_trace[0])
    assert shown["nodes"] and all(r["change_us"] == 0 for r in shown["nodes"] + shown["scopes"])


TRTEXEC = [
    {"count": 100},
    {"name": "/block/first/MatMul + /block/first/Relu", "timeMs": 2.0, "averageMs": 0.02, "medianMs": 0.019, "percentage": 40},
    {"name": "__myl_Foo", "timeMs": 3.0, "averageMs": 0.03, "medianMs": 0.031, "percentage": 60},
]
LAYERS = {
    "Layers": [
        {
            "Name": "/block/first/MatMul + /block/first/Relu",
            "LayerType": "gemm",
            "Inputs": [],
            "Outputs": [],
            "Metadata": "[ONNX Layer: /block/first/MatMul]\x1e[ONNX Layer: /block/first/Relu]",
        },
        {"Name": "__myl_Foo", "LayerType": "kgen", "Metadata": "[ONNX Layer: /block/second/MatMul]"},
    ],
    "Bindings": ["x", "y"],
}


def test_trtexec_names_the_nodes_that_a_layer_stands_for(command, ort_profile, tmp_path):
    profile, layers = tmp_path / "profile.json", tmp_path / "layers.json"
    profile.write_text(json.dumps(TRTEXEC))
    layers.write_text(json.dumps(LAYERS))
    alone = rows(tables(command, "profile", profile)["nodes"])
    assert alone["__myl_Foo"]["self_us"] == pytest.approx(31)
    assert alone["/block/first/MatMul + /block/first/Relu"]["sources"] == ["/block/first/MatMul", "/block/first/Relu"]
    shown = tables(command, "profile", profile, "--layers", layers)
    assert rows(shown["nodes"])["__myl_Foo"]["op"] == "kgen"
    scopes = rows(shown["scopes"], "path")
    assert scopes["block/first"]["total_us"] == pytest.approx(19) and scopes["block/second"]["total_us"] == pytest.approx(31)
    difference = tables(command, "diff", ort_profile, profile)["nodes"]
    fused = next(r for r in difference if "first/MatMul" in r["name"])
    assert fused["b_us"] == pytest.approx(19) and fused["a_us"] > 0
    assert "--layers" in command("profile", layers, code=3).stderr


def test_nsight_systems_gives_kernels_to_the_ranges_that_asked_for_them(command, tmp_path):
    path = tmp_path / "nsys.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, correlationId INTEGER,
              demangledName INTEGER, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, correlationId INTEGER, bytes INTEGER,
              copyKind INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
              nameId INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,
              globalTid INTEGER);
            INSERT INTO StringIds VALUES (1, 'sgemm'), (2, 'relu'), (3, 'second');
            INSERT INTO NVTX_EVENTS VALUES (0, 1000, 59, 'block', NULL, 5), (100, 400, 59, 'first', NULL, 5), (500, 900, 59,
              NULL, 3, 5);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (150, 160, 5, 1, 1), (200, 210, 5, 2, 1), (600, 610, 5, 3, 1),
              (950, 960, 5, 4, 1), (550, 560, 6, 5, 1);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 9000, 1, 1, 1), (9000, 10000, 2, 2, 2), (10000, 13000, 3,
              1, 1), (13000, 13500, 5, 2, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (14000, 16000, 4, 4096, 2);""")
    shown = tables(command, "profile", path)
    scopes = rows(shown["scopes"], "path")
    assert scopes["block/first"]["total_us"] == pytest.approx(5) and scopes["block/second"]["total_us"] == pytest.approx(3)
    assert scopes["block"]["self_us"] == pytest.approx(2) == rows(shown["nodes"])["block/copy to the host"]["self_us"]
    assert rows(shown["nodes"])["relu"]["self_us"] == pytest.approx(0.5)  # another thread, without a range
    assert "10.5 µs" in command("profile", path).stdout
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    assert "without kernels" in command("profile", path, code=3).stderr


def test_files_that_are_damaged_or_other_are_refused(command, torch_trace, ort_profile, tmp_path):
    path = tmp_path / "profile.json"
    rng = random.Random(1)
    for whole in (torch_trace[0].read_bytes(), ort_profile.read_bytes(), json.dumps(TRTEXEC).encode()):
        path.write_bytes(whole[: len(whole) // 2])
        assert "not whole JSON" in command("profile", path, code=1).stderr
        for _ in range(20):
            piece = bytearray(whole)
            piece[rng.randrange(1, len(piece))] ^= 1 << rng.randrange(8)
            path.write_bytes(piece)
            result = command("profile", path, code=None)
            assert result.returncode in (0, 1, 3) and (result.returncode == 0 or str(path) in result.stderr), result.stderr
    path.write_text("{}")
    assert "no profile that smelt reads" in command("profile", path, code=3).stderr
    path.write_text('{"traceEvents": [1, {"name": 3}, {"ph": "X", "cat": "cpu_op", "name": "a"}]}')
    assert str(path) in command("profile", path, code=1).stderr
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 2000)
    assert "damaged" in command("diff", path, path, code=1).stderr


@pytest.mark.parametrize("verb", ["profile", "diff", "inspect"])
def test_a_pipe_is_not_waited_for(command, tmp_path, verb):
    os.mkfifo(tmp_path / "pipe")
    result = command(verb, *[tmp_path / "pipe"] * (2 if verb == "diff" else 1), code=1)
    assert "regular file" in result.stderr


def test_a_view_in_place_of_nsights_tables_does_not_run(command, tmp_path):
    path = tmp_path / "nsys.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId, shortName);
            CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c)
              SELECT 0 AS start, i AS end, 'a' AS text, 0 AS globalTid FROM c;""")
    assert "damaged" in command("profile", path, code=1).stderr


def nsight_file(path, ranges, kernels):
    """An export of Nsight Systems: ranges (start, end, text) of one thread, kernels (start, end, number)."""
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId, shortName);
            CREATE TABLE NVTX_EVENTS (start, end, text, globalTid);""")
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, 0)", ranges)
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1)", kernels)
    return path


def pytorch_file(path, spans):
    """A trace of PyTorch: spans (category, name, begin, duration) of one thread."""
    events = [{"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": duration, "tid": 1, "pid": 1} for cat, name, begin, duration in spans]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def expect_read_soon(command, *files):
    for file in files:
        before = os.times()
        command("profile", file, "--json")
        after = os.times()
        took = after.children_user + after.children_system - before.children_user - before.children_system
        assert took < 3 * hostile.LIMIT_S, file.name


def test_ranges_that_are_all_open_at_once_are_read_soon(command, tmp_path):
    many = 100_000
    nsight = nsight_file(tmp_path / "nsys.sqlite", ((i, 10 * many - i, f"r{i}") for i in range(many)),
                         ((2 * many, 2 * many + 1, i) for i in range(many)))
    pytorch = pytorch_file(tmp_path / "trace.json", (("user_annotation" if i % 2 else "cpu_op", f"n{i}", i, 10 * many - 2 * i)
                                                     for i in range(many // 4)))
    expect_read_soon(command, nsight, pytorch)


@pytest.mark.parametrize("label", ["a/" * 250_000, "b" * 500_000])
def test_a_long_label_is_not_read_again_for_each_row_below_it(command, tmp_path, label):
    many = 20_000
    nsight = nsight_file(tmp_path / "nsys.sqlite", [(0, 10 * many, label)], ((2 * i, 2 * i + 1, i) for i in range(many)))
    pytorch = pytorch_file(tmp_path / "trace.json", [("user_annotation", label, 0, 2 * many),
                                                     *(("cpu_op", f"n{i}", i, 1) for i in range(1, many))])
    expect_read_soon(command, nsight, pytorch)


@pytest.mark.parametrize("text", ['[{"averageMs": 1}, {"name": 5}]', '[{"averageMs": 1e400}]'])
def test_a_library_s_words_are_not_shown(command, tmp_path, text):
    path = tmp_path / "profile.json"
    path.write_text(text)
    said = command("profile", path, code=1).stderr
    assert "damaged" in said and "profile.json" in said and "json.exception" not in said
