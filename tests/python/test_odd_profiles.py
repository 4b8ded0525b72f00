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


def nsight(path, columns, values, more=""):
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.executescript(f"""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'void gemm<float>(float*)');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns});
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({values}); {more}""")
    return path


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
