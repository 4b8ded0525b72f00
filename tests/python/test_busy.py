"""The line that says what a verb of the Python package is at: on a terminal, after two seconds, and gone at the end."""
import io
import os
import sys

import pytest

busy = pytest.importorskip("smelt.busy")


def shown(monkeypatch, seconds, what="calibrating", part=0.0):
    """What a terminal gets of a stage of so many seconds."""
    main, terminal = os.openpty()
    now = [0.0]
    monkeypatch.setattr(busy, "BETWEEN", 0.05)
    monkeypatch.setattr(busy.time, "monotonic", lambda: now[0])
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with busy.BusyLine() as line:
            busy.stage(what)
            busy.stage_part(part)
            now[0] = seconds
            line._thread.join(0.2)
        stream.write("end")
        stream.flush()
        said = ""
        while not said.endswith("end"):
            said += os.read(main, 4096).decode()
    os.close(main)
    return said


def test_a_long_stage_is_shown_with_what_is_left_and_gone_at_the_end(monkeypatch):
    said = shown(monkeypatch, 4, part=0.5)
    assert "calibrating, 4 s: 50%, 4 s left" in said and said.endswith("\r\x1b[Kend")
    assert "calibrating, 1 min 05 s" in shown(monkeypatch, 65)


def test_a_short_stage_is_not_shown(monkeypatch):
    assert shown(monkeypatch, 1.9) == "end"


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with busy.BusyLine():
        busy.stage("calibrating")
    assert stream.getvalue() == ""
