"""What smelt raises. Each class carries the command's exit code and, where there is one, what to do next."""
from __future__ import annotations


class Error(Exception):
    """The base: the model, the machine or the file system stood in the way."""

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


_BY_CODE = {c.exit_code: c for c in (Error, UsageError, UnsupportedError, AccuracyError, NotProvenError)}


def from_code(code: int, message: str, next_step: str) -> Error:
    return _BY_CODE.get(code, Error)(message, next_step)
