"""The command's verbs as functions. Results print as the command's tables; `.data` is what --json gives."""
from __future__ import annotations

import json
import os
from typing import Any, Mapping

from . import smelt_ext as _ext
from .session import make_options, to_tensor


class Result:
    """`data`: numbers as nested dicts and lists; str(result): the command's tables."""

    def __init__(self, text: str, tables: str) -> None:
        self.data: dict[str, Any] = json.loads(text)
        self._tables = tables

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __str__(self) -> str:
        return self._tables

    __repr__ = __str__


def _feeds(feeds: Mapping[str, Any] | None) -> dict[str, _ext.Tensor]:
    return {k: to_tensor(v) for k, v in (feeds or {}).items()}


def optimize(model: str | os.PathLike, output: str | os.PathLike, *, copy_weights: bool = False, **options: Any) -> str:
    """Fuses and tunes `model` and writes the plan, a valid ONNX file; returns its path. Options as Session's."""
    return _ext.optimize(os.fspath(model), os.fspath(output), make_options(**options), copy_weights)


def profile(model: str | os.PathLike, feeds: Mapping[str, Any] | None = None, *, iterations: int = 20, optimize: bool = False, **options: Any) -> Result:
    """Where the time goes, per step and module. optimize=False profiles the model as it stands."""
    return Result(*_ext.profile(os.fspath(model), make_options(optimize=optimize, **options), _feeds(feeds), iterations))


def explain(model: str | os.PathLike, **options: Any) -> Result:
    """Every pattern tried: matched, or the reason why not. Weights need not be there."""
    return Result(*_ext.explain(os.fspath(model), make_options(**options)))


def bench(model: str | os.PathLike, against: str | os.PathLike = "", feeds: Mapping[str, Any] | None = None, *, iterations: int = 10, duration: float = 3.0,
          **options: Any) -> Result:
    """The optimised plan against the unfused model (or `against`), interleaved: `["bench"]["speedup"]` with its interval."""
    return Result(*_ext.bench(os.fspath(model), os.fspath(against), make_options(**options), _feeds(feeds), iterations, duration))
