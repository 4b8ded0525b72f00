"""smelt profile A --with B: two models on the same cores."""

import json
import os
import pty
import select
import shutil
import subprocess
import time

import pytest
from conftest import ROOT
from test_limits import large_product, measured, problems, strided_copy, tiny_kernels  # noqa: F401

WATCH_SCHEMA = json.loads((ROOT / "docs/watch.schema.json").read_text())
SCHEMA = json.loads((ROOT / "docs/contention.schema.json").read_text())


def test_two_models_on_the_same_cores_are_compared_with_each_alone(measured, tmp_path):  # noqa: F811
    a, b = large_product(tmp_path), strided_copy(tmp_path)
    options = ("--with", b, "--seconds", 0.7, "--tuning-level", 0, "--json")
    trace, report = tmp_path / "trace.json", tmp_path / "report.html"
    tables = json.loads(measured("profile", a, *options, "--trace", trace, "--report", report, "--p99", 1e9, timeout=300).stdout)
    assert problems(tables, SCHEMA, SCHEMA) == []
    assert tables["p99_us"] == 1e9 and all(r["keeps"] for r in tables["remedies"]), "any time does"
    assert tables["chosen"] == "as they are"
    check_timelines(tables)
    check_trace(json.loads(trace.read_text())["traceEvents"])
    assert '"together":{"verdict":"Beside copy.onnx' in report.read_text()
    assert [r["model"] for r in tables["contention"]] == ["product.onnx", "copy.onnx"]
    for r in tables["contention"]:
        assert r["slower"] == pytest.approx(r["together_us"] / r["alone_us"]) and r["predicted"] >= 1
        lost = r["cores_us"] + r["memory_us"] + r["queueing_us"]
        assert lost == pytest.approx(max(0, r["together_us"] - r["alone_us"]), abs=1e-3 * r["together_us"])
    [step] = [s for s in tables["steps"] if s["name"] == "it"]
    assert step["limiter"] and step["slower_us"] == pytest.approx(step["cores_us"] + step["memory_us"])
    names = [r["arrangement"] for r in tables["remedies"]]
    assert names[0] == "as they are" and {"threads of one process", "the others yield", "the others paced",
                                                      "the others take what is left", "threads sleep at once"} <= set(names)
    first = tables["remedies"][0]["p99_us"]
    for r in tables["remedies"]:
        assert r["change"] == pytest.approx(r["p99_us"] / first - 1) and (r["others_per_s"] > 0 or r["others_p99_us"] is None)


def test_a_target_that_nothing_keeps_is_said_and_the_lowest_named(measured, tmp_path):  # noqa: F811
    a = tiny_kernels(tmp_path)
    options = ("--with", a, "--seconds", 0.2, "--tuning-level", 0, "--p99", 0.001)
    tables = json.loads(measured("profile", a, *options, "--json", timeout=300).stdout)
    assert not any(r["keeps"] for r in tables["remedies"])
    assert tables["chosen"] == min(tables["remedies"], key=lambda r: r["p99_us"])["arrangement"]
    assert "the others paced at 1/8" in [r["arrangement"] for r in tables["remedies"]]


def check_timelines(tables):
    """Requests of both models on one clock, with their steps inside."""
    for line in tables["timelines"]:
        assert [m["model"] for m in line["models"]] == ["product.onnx", "copy.onnx"] and line["us"] > 0
        for m in line["models"]:
            assert m["requests"]
            for r in m["requests"]:
                assert r["arrival_us"] <= r["begin_us"] <= r["end_us"] and len(r["steps_us"]) == len(m["steps"])
                assert all(r["begin_us"] <= b <= e <= r["end_us"] for b, e in r["steps_us"])
                assert r["end_us"] > 0 and r["arrival_us"] < line["us"], "within the window"
        first, second = (m["requests"] for m in line["models"])
        assert any(a["begin_us"] < b["end_us"] and b["begin_us"] < a["end_us"] for a in first for b in second), "at the same time"


def check_trace(events):
    assert {e["pid"] for e in events} == {1, 2} and all(e["name"] for e in events)
    for pid in (1, 2):
        requests = [e for e in events if e["pid"] == pid and e.get("cat") == "request"]
        steps = [e for e in events if e["pid"] == pid and e.get("cat") == "step"]
        assert requests and steps
        for s in steps:
            assert any(r["ts"] - 1e-3 <= s["ts"] and s["ts"] + s["dur"] <= r["ts"] + r["dur"] + 1e-3 for r in requests)


def test_a_service_is_watched_second_by_second(measured, tmp_path):  # noqa: F811
    a, b = large_product(tmp_path), tiny_kernels(tmp_path)
    lines = measured("profile", a, "--with", b, "--watch", "--seconds", 4, "--rate", 20, "--tuning-level", 0, "--json").stdout.splitlines()
    seen = [json.loads(line) for line in lines]
    assert len(seen) >= 2 and [p for s in seen for p in problems(s, WATCH_SCHEMA, WATCH_SCHEMA)] == []
    for s in seen:
        assert [m["model"] for m in s["models"]] == ["product.onnx", "tiny.onnx"]
        assert all(m["per_s"] > 0 and m["p99_us"] >= m["median_us"] > 0 for m in s["models"])
        assert s["steps"] and s["steps"] == sorted(s["steps"], key=lambda r: -r["us"]) and s["steps"][0]["alone_us"] > 0
    assert [len(s["models"][0]["history"]) for s in seen] == list(range(1, len(seen) + 1))
    shown = measured("profile", a, "--watch", "--seconds", 0.5, "--rate", 5, "--tuning-level", 0).stdout
    assert "Steps of product.onnx" in shown and "p99 so far" in shown


def test_a_running_process_is_watched_from_outside(measured):  # noqa: F811
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        try:
            [line] = measured("profile", f"pid:{busy.pid}", "--watch", "--seconds", 0.5, "--json").stdout.splitlines()
        finally:
            busy.kill()
    assert problems(json.loads(line), WATCH_SCHEMA, WATCH_SCHEMA) == []
    [process] = json.loads(line)["processes"]
    assert process["pid"] == busy.pid and process["program"] == "sh"
    assert process["cores"] > 0.02 and (process["cores"] > 0.5 or process["waiting"] > 0.2), process
    assert all(o["pid"] != busy.pid for o in json.loads(line)["others"])
    assert "there is no process" in measured("profile", "pid:999999999", "--watch", code=2).stderr


def on_terminal(*words, timeout=120):
    """What the command writes to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        said, end = b"", time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
                said += part
        os.close(ours)
        assert process.wait(timeout=5) == 0, said
    return said.decode()


def test_work_of_more_than_two_seconds_says_on_the_terminal_what_it_is_at(measured, tmp_path):  # noqa: F811
    a = large_product(tmp_path)
    said = on_terminal(measured.path, "profile", a, "--iterations", 100000, "--tuning-level", 0)
    assert "\r\x1b[Kprofiling, " in said and "% " in said.replace("%,", "% ") and "left" in said
    assert said.endswith("\r\x1b[K"), "the line goes"
    assert "\r" not in on_terminal(measured.path, "info", a), "what is quick says nothing"



def test_what_contention_cannot_do_is_said(measured, tmp_path):  # noqa: F811
    a = tiny_kernels(tmp_path)
    if shutil.which("nvidia-smi") is None:
        assert "no GPU" in measured("profile", a, "--with", a, "--device", "gpu", code=3).stderr
    assert "none.onnx" in measured("profile", a, "--with", tmp_path / "none.onnx", code=1).stderr
