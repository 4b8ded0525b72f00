"""Profiles of other tools as they come: packed, of other versions, with odd names, cut off, or of nothing."""
import gzip
import json
import sqlite3

import pytest
from test_profiles import rows, tables


def span(name="aten::add", ts=1, dur=2, cat="cpu_op", **more):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, **more}


def written(path, content):
    path.write_text(json.dumps(content))
    return path


def test_a_trace_is_read_as_pytorch_packs_it(command, tmp_path):
    trace = json.dumps({"traceEvents": [span(ts=i, dur=0.5, name=f"aten::op{i}") for i in range(2000)]}).encode()
    path = tmp_path / "worker.pt.trace.json.gz"
    path.write_bytes(gzip.compress(trace[:1000]) + gzip.compress(trace[1000:]))  # members behind each other are one file
    assert len(tables(command, "profile", path)["nodes"]) == 2000
    whole = gzip.compress(trace)
    for wrong in (whole[: len(whole) // 2], whole[:3], whole[:200] + b"\0" * 40 + whole[240:]):
        path.write_bytes(wrong)
        assert f"{path}: damaged: packed by gzip" in command("profile", path, code=1).stderr


def test_a_mark_of_byte_order_and_a_list_without_an_object_are_no_hindrance(command, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"traceEvents": [span()]}).encode())
    assert rows(tables(command, "profile", path)["nodes"])["aten::add"]["self_us"] == 2
    written(path, [span(), span(ts=10)])
    assert rows(tables(command, "profile", path)["nodes"])["aten::add"]["self_us"] == 4


@pytest.mark.parametrize("runtime", ["Runtime", "hip_runtime", "cuda_runtime"])
def test_kernels_find_their_operators_in_traces_of_other_versions(command, tmp_path, runtime):
    old = runtime == "Runtime"  # PyTorch before 1.12
    events = [span("aten::mm", 1, 10, "Operator" if old else "cpu_op", args={"External id": 2}),
              span("launch", 3, 1, runtime, args={"correlation": 8}),
              span("gemm", 20, 5, "Kernel" if old else "kernel", args={"correlation": 8, **({"external id": 2} if old else {})})]
    [row] = tables(command, "profile", written(tmp_path / "trace.json", {"traceEvents": events}))["nodes"]
    assert row["name"] == "aten::mm" and row["self_us"] == 5


def test_odd_names_are_shown_and_do_nothing(command, tmp_path):
    names = ["x" * 100_000, "日本語 🦊", "\x1b[31mred", "\u202egnp.exe", "", "a\nb", "</script><b>"]
    path = written(tmp_path / "trace.json", {"traceEvents": [span(n, 10 * i) for i, n in enumerate(names)]})
    shown = command("profile", path).stdout
    assert "日本語 🦊" in shown and "\x1b" not in shown and "\u202e" not in shown and max(map(len, shown.splitlines())) < 400
    assert {r["name"] for r in tables(command, "profile", path)["nodes"]} == set(names)
    command("profile", path, "--report", tmp_path / "r.html")
    assert "</script><b>" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("content, code, said", [
    ("", 1, "the file is empty"),
    (" \n", 1, "the file is empty"),
    ("null", 3, "no profile that smelt reads"),
    ("5", 3, "no profile that smelt reads"),
    ("[]", 3, "no profile that smelt reads"),
    ('{"traceEvents": []}', 3, "a trace without operators"),
    ('{"traceEvents": {}}', 1, "no list"),
    ('{"traceEvents": [1, {"ph": "X", "cat": "cpu_op", "name": "a", "ts": "1"}]}', 1, "damaged: event 2 of 2: type must be number"),
    ('[{"count": 3}]', 1, "without a layer's time"),
    ('[{"count": 3}, {"name": "l", "averageMs": "1"}]', 1, "layer 'l' has string where its milliseconds should be"),
    ('{"format": "smelt.report", "version": 99, "after": {}}', 3, "a report of version 99"),
])
def test_what_is_no_profile_is_said_to_be_none(command, tmp_path, content, code, said):
    path = tmp_path / "profile.json"
    path.write_text(content)
    message = command("profile", path, code=code).stderr
    assert f"{path}: " in message and said in message


def test_layers_of_trtexec_say_what_they_are(command, tmp_path):
    layers = {
        "Reformatting CopyNode for Input Tensor 0 to /a/b/MatMul_1": ("Reformat", [], "a/b"),
        "PWN(PWN(/a/Sub), PWN(/a/c/Div))": ("PointWise", ["/a/Sub", "/a/c/Div"], "a"),
        "PWN(/a/Constant_output_0_clone_1 + ONNXTRT_Broadcast_7, PWN(/a/Mul))": ("PointWise", ["/a/Mul"], "a"),
        "/a/c/Conv + onnx::Mul_4 + /a/bn/Mul + onnx::Add_5 + /a/bn/Add + /a/act/Relu": (
            "Conv+Mul+Add+Relu", ["/a/c/Conv", "/a/bn/Mul", "/a/bn/Add", "/a/act/Relu"], "a"),
        "/a/k/MatMul + /a/k/Add || /a/q/MatMul + /a/q/Add": ("MatMul+Add", ["/a/k/MatMul", "/a/k/Add", "/a/q/MatMul", "/a/q/Add"], "a"),
        "reshape_after_/a/q/MatMul_copy_input": ("Shuffle", ["/a/q/MatMul"], "a/q"),
        "{ForeignNode[/a/n/ReduceMean.../a/n/Div]}": ("Myelin", ["/a/n/ReduceMean", "/a/n/Div"], "a/n"),
        "__myl_MoveMeanSub_myl54_0": ("Myelin", [], ""), "/a/d/Softmax": ("Softmax", [], "a/d"), "mine": ("", [], ""),
    }
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"count": 3}, *({"name": n, "averageMs": 0.01} for n in layers)]))
    shown = tables(command, "profile", path)
    nodes = {r["name"]: (r["op"], r["sources"]) for r in shown["nodes"]}
    assert nodes == {n: (op, sources) for n, (op, sources, _) in layers.items()}
    selfs = {r["path"]: r["self_us"] for r in shown["scopes"]}
    for scope in {s for _, _, s in layers.values() if s}:
        assert selfs[scope] == pytest.approx(10 * sum(s == scope for _, _, s in layers.values())), scope
    assert [a["us"] for a in shown["advice"]] == [pytest.approx(20), pytest.approx(20)]  # two are pointwise, two move


def nsight(path, columns, values, more=""):
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.executescript(f"""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'void gemm<float>(float*)');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns});
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({values}); {more}""")
    return path


def test_calls_of_several_processes_are_told_apart(command, tmp_path):
    first, second = 7 << 24, 9 << 24  # a correlation's number is a process's own
    runtime = f"""
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);
        CREATE TABLE NVTX_EVENTS (start, end, text, globalTid);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (40, 4040, 5, {second}, 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2, 3, {first + 1}, 5), (4, 5, {second + 1}, 5);
        INSERT INTO NVTX_EVENTS VALUES (0, 100, 'server', {first + 1}), (0, 100, 'client', {second + 1});"""
    path = nsight(tmp_path / "nsys.sqlite", "start, end, correlationId, globalPid, shortName", f"10, 2010, 5, {first}, 1", runtime)
    assert {r["name"]: (r["self_us"], r["calls"]) for r in tables(command, "profile", path)["nodes"]} == {
        "server/gemm": (2, 1), "client/gemm": (4, 1)}


def test_graphs_that_nsight_systems_recorded_as_one_are_rows(command, tmp_path):
    path = tmp_path / "nsys.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, correlationId, globalPid, graphId, graphExecId);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, correlationId, globalPid, copyKind, bytes);
            INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 5010, 1, 0, 3, 4), (6010, 11010, 2, 0, 3, 4);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (20000, 23000, 3, 0, 8, 64), (30000, 31000, 4, 0, 1, 64);""")
    shown = tables(command, "profile", path)
    assert {r["name"]: r["self_us"] for r in shown["nodes"]} == {"CUDA graph 3": 10, "copy on the GPU": 3, "copy to the GPU": 1}
    assert "--cuda-graph-trace=node" in command("profile", path).stderr
    kept, moved = (next(a for a in shown["advice"] if a["what"].startswith(what)) for what in ("keep tensors", "do without copies"))
    assert (kept["us"], moved["us"]) == (1, 3)


def test_exports_of_other_versions_of_nsight_systems_are_read(command, tmp_path):
    path = tmp_path / "nsys.sqlite"
    for columns, values, name in (("start, end, demangledName", "10, 2010, 2", "void gemm<float>(float*)"),
                                  ("start, end, shortName, demangledName", "10, 2010, 1, 2", "gemm"),
                                  ("start, end, shortName", "10, 2010, 77", "kernel"), ("start, end", "10, 2010", "kernel")):
        [row] = tables(command, "profile", nsight(path, columns, values))["nodes"]
        assert (row["name"], row["self_us"]) == (name, 2), columns
    runtime = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);"
    assert len(tables(command, "profile", nsight(path, "start, end", "10, 2010", runtime))["nodes"]) == 1
    for columns, values, said in (("start, shortName", "10, 1", "has no column 'end'"),
                                  ("start, end", "'soon', 'late'", "times in its table CUPTI_ACTIVITY_KIND_KERNEL are no numbers")):
        assert f"{path}: damaged: " in (message := command("profile", nsight(path, columns, values), code=1).stderr) and said in message
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert "without a kernel's time" in command("profile", path, code=1).stderr


def test_labels_that_differ_from_call_to_call_are_one_range(command, tmp_path):
    """As PyTorch's emit_nvtx (since 1.7) and DLProf (in Nsight Systems 2022.1) were seen to write them."""
    stack = ("{''traceMarker'': [''net.py:41'', ''/lib/module.py:1102''], ''funcStack'': ''/<module>/Net::forward/Conv2d::forward/conv2d''}",
             "{''mod'': ''torch.nn.functional'', ''op'': ''conv2d'', ''args'': [{''name'': '''', ''shape'': (1, 3)}]}")
    ranges, kernels, calls = [], [], []
    for run in range(2):
        at = 1000 * run
        labels = (*stack, f"aten::conv2d, seq = {run}, op_id = {7 + run}, sizes = [[1, 3], [], []]", f"aten::_convolution, seq = {run}")
        ranges += [f"({at + i}, {at + 900 - i}, '{label}', 5)" for i, label in enumerate(labels)]
        calls += [f"({at + 100}, {at + 110}, 5, {run})"]
        kernels += [f"({at + 200}, {at + 2200}, {run}, 0, 1)"]
    path = nsight(tmp_path / "nsys.sqlite", "start, end, correlationId, globalPid, shortName", kernels[0][1:-1], f"""
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {kernels[1]};
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);
        CREATE TABLE NVTX_EVENTS (start, end, text, globalTid);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {", ".join(calls)};
        INSERT INTO NVTX_EVENTS VALUES {", ".join(ranges)};""")
    [row] = tables(command, "profile", path)["nodes"]
    assert row["name"].endswith("Net::forward/Conv2d::forward/conv2d/aten::conv2d/aten::_convolution/gemm"), row["name"]
    assert (row["self_us"], row["calls"]) == (4, 2)


def test_pages_of_managed_memory_are_told_from_copies(command, tmp_path):
    path = nsight(tmp_path / "nsys.sqlite", "start, end, correlationId, globalPid, shortName", "0, 9000, 1, 0, 1", """
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, correlationId, globalPid, copyKind, bytes);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 3010, NULL, 0, 11, 64), (4000, 5000, NULL, 0, 12, 64), (6000, 7000, 2, 0, 2, 64);""")
    shown = tables(command, "profile", path)
    assert {r["name"]: r["self_us"] for r in shown["nodes"]} == {"gemm": 9, "pages to the GPU": 3, "pages to the host": 1,
                                                                "copy to the host": 1}
    assert [(a["what"].split()[0], a["us"]) for a in shown["advice"]] == [("bring", 4), ("keep", 1)]


def test_a_recording_in_which_no_kernel_ran_is_told_from_another_file(command, tmp_path):
    path = tmp_path / "nsys.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript("CREATE TABLE StringIds (id, value); CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs);")
    assert "see that it used the GPU" in command("profile", path, code=3).stderr
