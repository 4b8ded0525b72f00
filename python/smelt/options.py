"""The options of a build, as keywords that every entry point takes."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from . import smelt_ext as _ext
from .errors import UsageError

if TYPE_CHECKING:
    Path = str | os.PathLike[str]
    Shapes = Mapping[str, Sequence[int | Sequence[int]]]
else:
    Path = str | os.PathLike


class BuildOptions(TypedDict, total=False):
    """The options of a build. Every entry point takes them as keywords."""

    device: str                                # "cpu" (default); "gpu" or "cuda" the first, or a GPU's number: "1", "cuda:1"
    memory_limit: int                          # bytes that values may take, on the GPU or the host; 0: what is left
    allow_fallback: bool                       # run steps that no GPU kernel takes on the processor; False: an error
    threads: int                               # 0: all cores that this process may use
    spin: bool                                 # False: threads that wait sleep at once
    tuning_level: int                          # 0 measures nothing … 2 (default) … 3 every candidate
    tuning_time_limit: float                   # seconds that measuring may take; 0: no limit
    tactics: str                               # "+onednn,-reference": allow or refuse by name
    optimize: bool                             # False: run the model as it stands
    skip: Sequence[str]                        # rewrites to leave out
    take_apart: bool                           # False: Loops of known turns and Einsums stay whole on a GPU
    precision: str                             # "fp16", "bf16", "tf32": convert an fp32 model
    keep_fp32: Sequence[str]                   # patterns of nodes or modules that stay fp32 in a conversion
    shapes: Shapes | Sequence[Shapes]          # {"x": (1, 3, 224, 224)}: fix symbolic extents; with (min, opt, max) in place of
                                               # an extent, prepare for that range: {"x": (1, 3, 48, (64, 320, 640))}; a list
                                               # of them: for several
    tune_new_shapes: bool                      # True: measure shapes that were not prepared when they are run first
    kept_shapes: int                           # shapes whose plans are kept, 64
    kept_bytes: int                            # about what these may hold beside weights and the arena; 0: no limit
    cache_dir: Path                            # the folder of the tuning cache
    use_cache: bool                            # False: neither read nor write the tuning cache
    plan_kernels: bool                         # False: refuse a plan that carries kernels, which are code
    time_limit: float                          # seconds that a run may take before it ends with StoppedError; 0: no limit


def _set_shapes(o: _ext.Options, shapes: Any) -> None:
    several = not isinstance(shapes, Mapping)
    profiles = [{name: [e if isinstance(e, Sequence) else (e, e, e) for e in extents] for name, extents in s.items()}
                for s in (shapes if several else [shapes])]
    ranges = any(isinstance(e, Sequence) for s in (shapes if several else [shapes]) for extents in s.values() for e in extents)
    if several or ranges:
        o.profiles = [{name: [[e[k] for e in extents] for k in range(3)] for name, extents in p.items()} for p in profiles]
    else:
        o.shapes = {k: list(v) for k, v in shapes.items()}


def make_options(options: Mapping[str, Any]) -> _ext.Options:
    unknown = sorted(set(options) - set(BuildOptions.__annotations__))
    if unknown:
        raise UsageError(f"there is no option '{unknown[0]}'", "The options are: " + ", ".join(BuildOptions.__annotations__))
    o = _ext.Options()
    for name, value in options.items():
        try:
            if name in ("skip", "keep_fp32"):
                value = [value] if isinstance(value, str) else list(value)
            elif name == "shapes":
                _set_shapes(o, value or {})
                continue
            elif name == "cache_dir":
                value = os.fspath(value)
            setattr(o, name, value)
        except (AttributeError, IndexError, TypeError):
            expected = getattr(BuildOptions.__annotations__[name], "__forward_arg__", BuildOptions.__annotations__[name])
            raise UsageError(f"option {name}={value!r} has type {type(value).__name__}, expected {expected}") from None
    if o.keep_fp32 and not o.precision:
        raise UsageError("keep_fp32 says what to leave out of a conversion, and there is none",
                         "Give precision='fp16' or 'bf16' too.")
    return o
