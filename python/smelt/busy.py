"""What a verb of the package is at, on the terminal, as the command's own verbs say it: a line on standard error, where it takes
longer than two seconds. It is written over, and gone at the end. Where standard error is no terminal there is none."""
from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

SILENT = 2.0    # seconds; what takes less needs no line
BETWEEN = 0.25


class BusyLine:
    """Shows what `stage` was told last, while it is entered. One at a time."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BusyLine:
        if sys.stderr is not None and sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        stage("")
        self._over.set()
        if self._thread:
            self._thread.join()

    def _show(self) -> None:
        visible = False
        while not self._over.wait(BETWEEN):
            what, part, since = _now[0]
            spent = time.monotonic() - since
            if what and spent >= SILENT:
                left = f": {100 * part:.0f}%, {_duration(spent * (1 - part) / part)} left" if 0.02 < part < 1 else ""
                sys.stderr.write(f"\r\033[K{what}, {_duration(spent)}{left}")
                sys.stderr.flush()
                visible = True
        if visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


_now = [("", 0.0, 0.0)]   # one entry: what, the part of it that is done, since when


def stage(what: str) -> None:
    """What is done from here on; empty: nothing that a line should say."""
    _now[0] = (what, 0.0, time.monotonic())


def stage_part(part: float) -> None:
    """How much of it is done, from 0 to 1."""
    what, _, since = _now[0]
    _now[0] = (what, part, since)


def _duration(seconds: float) -> str:
    s = round(seconds)
    return f"{s} s" if s < 60 else f"{s // 60} min {s % 60:02} s"
