"""The command's verbs as functions. A result prints as the command's tables; its `data` is what --json writes."""
from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import smelt_ext as _ext
from .options import BuildOptions, Path, make_options
from .session import to_tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Result:
    """What a verb returns. `data` holds the figures as nested dicts and lists, and result[key] is data[key]. str(result) gives
    the command's tables; a notebook shows them."""

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
    """A plan that `optimize` wrote, with its tables. It is a path: smelt.Session(smelt.optimize(model, plan)) runs it."""

    def __init__(self, path: str, text: str, tables: str) -> None:
        super().__init__(text, tables)
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def _feeds(feeds: Mapping[str, Any] | None) -> dict[str, _ext.Tensor]:
    return {k: to_tensor(v, name=k) for k, v in (feeds or {}).items()}


def optimize(model: Path, output: Path, *, copy_weights: bool = False, packed_weights: bool = True,
             embed_kernels: bool = False, arch: str = "", **options: Unpack[BuildOptions]) -> Optimized:
    """Fuses and tunes `model` and writes the plan, a valid ONNX file, to `output`.

    copy_weights: writes the weights beside the plan. Without it the plan points at the model's own data file, which works where
    both lie in one folder.
    packed_weights: writes weights of the plan's own data file as the processor's kernels read them, too: the plan starts sooner,
    and its data file has up to three times the size.
    embed_kernels: writes the GPU's compiled kernels into the plan. Such a plan runs without a compiler and measures nothing.
    arch: the GPU architecture that the plan is for ("sm_87"). The machine needs no such GPU.
    options: those of BuildOptions.
    Raises smelt.Error and its subclasses."""
    target = os.fspath(output)
    made = make_options(options)
    made.arch = arch
    return Optimized(target, *_ext.optimize(os.fspath(model), target, made, copy_weights, embed_kernels, packed_weights))


def profile(model: Path, feeds: Mapping[str, Any] | None = None, *, iterations: int = 20, report: Path = "",
            trace: Path = "", **options: Unpack[BuildOptions]) -> Result:
    """Measures where the time goes, per step and per module. It profiles the model as it stands; optimize=True profiles the
    optimised plan.

    feeds: inputs by name; random ones where it is not given.
    iterations: how many runs are measured.
    report: an HTML file to write. trace: a file of trace events to write, for Chrome or Perfetto.
    options: those of BuildOptions."""
    options.setdefault("optimize", False)
    return Result(*_ext.profile(os.fspath(model), make_options(options), _feeds(feeds), iterations, os.fspath(report),
                                os.fspath(trace)))


def explain(model: Path, *, kernels: bool = False, **options: Unpack[BuildOptions]) -> Result:
    """Lists every pattern that was tried: where it matched, and why not elsewhere. It reads the graph alone, so that the weights
    may be missing. kernels=True adds the tactics that were not chosen, and needs the weights."""
    return Result(*_ext.explain(os.fspath(model), make_options(options), kernels))


def bench(model: Path, against: Path = "", feeds: Mapping[str, Any] | None = None, *, iterations: int = 10,
          duration: float = 3.0, report: Path = "", **options: Unpack[BuildOptions]) -> Result:
    """Times the optimised plan and the unfused model in turn. result["bench"]["speedup"] is the ratio with its 95% interval.

    against: another model or plan to time instead of the unfused model; where that is faster, "slower_nodes" says which nodes
    make it so, such as those of a quantised model that stayed in float.
    feeds: inputs by name; random ones where it is not given.
    iterations, duration: the least number of runs and seconds of each.
    report: an HTML file to write.
    options: those of BuildOptions."""
    return Result(*_ext.bench(os.fspath(model), os.fspath(against), make_options(options), _feeds(feeds), iterations, duration,
                              os.fspath(report)))
