"""The errors that smelt raises. Each class has the command's exit code; `next_step` says what to do, where smelt knows."""
from __future__ import annotations


class Error(Exception):
    """The base class, and the error for what the model, the machine or the file system prevents. `message` says what happened
    and where; `next_step` says what to do next, or is empty."""

    exit_code = 1

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message if not next_step else f"{message}\n{next_step}")
        self.message = message
        self.next_step = next_step


class UsageError(Error, ValueError):
    """A wrong argument: an unknown input name, a wrong type or shape, an unknown option."""

    exit_code = 2


class UnsupportedError(Error, NotImplementedError):
    """The model needs an operator, type or opset that smelt does not have."""

    exit_code = 3


class AccuracyError(Error):
    """Results differ by more than the tolerance."""

    exit_code = 4


class NotProvenError(Error):
    """A speed-up that was required is not proven."""

    exit_code = 5


class StoppedError(Error):
    """A build or a run was cancelled, or took longer than its time limit."""

    exit_code = 6


_BY_CODE = {c.exit_code: c for c in (Error, UsageError, UnsupportedError, AccuracyError, NotProvenError, StoppedError)}


def from_code(code: int, message: str, next_step: str) -> Error:
    """The error of the class that has this exit code."""
    return _BY_CODE.get(code, Error)(message, next_step)
