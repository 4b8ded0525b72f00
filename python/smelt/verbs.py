"""The command's verbs as functions. Results print as the command's tables; `.data` is what --json gives."""
from __future__ import annotations

import html
import json
import os
from typing import TYPE_CHECKING, Any, Mapping, Optional

from . import smelt_ext as _ext
from .options import BuildOptions, Path, make_options
from .session import to_tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


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

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3">{html.escape(self._tables)}</pre>'


class Optimized(Result):
    """A plan that was written; goes wherever a path does: smelt.Session(smelt.optimize(model, plan))."""

    def __init__(self, path: str, text: str, tables: str) -> None:
        super().__init__(text, tables)
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def _feeds(feeds: Optional[Mapping[str, Any]]) -> dict[str, _ext.Tensor]:
    return {k: to_tensor(v, name=k) for k, v in (feeds or {}).items()}


def optimize(model: Path, output: Path, *, copy_weights: bool = False, embed_kernels: bool = False,
             arch: str = "", **options: Unpack[BuildOptions]) -> Optimized:
    """Fuses and tunes `model` and writes the plan, a valid ONNX file. Options as Session's; `arch` ("sm_87"): for such a GPU, here or
    not. `embed_kernels` writes a GPU's compiled kernels into the plan, which then runs without a compiler and unmeasured."""
    target = os.fspath(output)
    made = make_options(options)
    made.arch = arch
    return Optimized(target, *_ext.optimize(os.fspath(model), target, made, copy_weights, embed_kernels))


def profile(model: Path, feeds: Optional[Mapping[str, Any]] = None, *, iterations: int = 20, report: Path = "",
            trace: Path = "", **options: Unpack[BuildOptions]) -> Result:
    """Where the time goes, per step and module; of the model as it stands unless optimize=True. Files on request: `report`
    (HTML), `trace` (Chrome, Perfetto)."""
    options.setdefault("optimize", False)
    return Result(*_ext.profile(os.fspath(model), make_options(options), _feeds(feeds), iterations, os.fspath(report),
                                os.fspath(trace)))


def explain(model: Path, *, kernels: bool = False, **options: Unpack[BuildOptions]) -> Result:
    """Every pattern tried: matched, or the reason why not. Weights need not be there, unless `kernels` asks for the tactics that
    were not chosen."""
    return Result(*_ext.explain(os.fspath(model), make_options(options), kernels))


def bench(model: Path, against: Path = "", feeds: Optional[Mapping[str, Any]] = None, *, iterations: int = 10,
          duration: float = 3.0, report: Path = "", **options: Unpack[BuildOptions]) -> Result:
    """The optimised plan against the unfused model (or `against`), interleaved: `["bench"]["speedup"]` with its interval."""
    return Result(*_ext.bench(os.fspath(model), os.fspath(against), make_options(options), _feeds(feeds), iterations, duration,
                              os.fspath(report)))
