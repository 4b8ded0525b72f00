"""PyTorch modules: smelt.torch.profile(module, inputs) says why one is slow, module by module."""
from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import verbs
from .errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import BuildOptions, Path


class ModuleProfile(verbs.Result):
    """What profile returns: a Result whose `modules` are the figures of the profile by the names of module.named_modules()."""

    def __init__(self, result: verbs.Result, module: torch.nn.Module) -> None:
        self.data, self._tables = result.data, result._tables
        known = dict(module.named_modules())
        self.modules: dict[str, dict[str, Any]] = {}
        for row in self.data["after"]["scopes"]:
            path = row["path"].strip()
            name = "" if path == "(model)" else path
            if name in known:
                self.modules[name] = {**row, "path": name, "type": type(known[name]).__name__}


def profile(module: torch.nn.Module, inputs: Any, *, iterations: int = 20, report: Path = "", trace: Path = "", keep: Path = "",
            **options: Unpack[BuildOptions]) -> ModuleProfile:
    """Exports `module` to ONNX, profiles it as smelt runs it, and says which of its modules the time goes to.

    inputs: a tensor, a tuple of positional arguments, or a dict of keyword arguments; the profile runs on these.
    keep: a file to leave the exported model in.
    iterations, report, trace, options: those of smelt.profile; optimize=False profiles the model operator by operator. A step
    that stands for operators of several modules counts for the module around them.
    The result prints as tables, with what to do first; result.modules["layer1.0.conv1"]["total_us"] is a module's time."""
    named = isinstance(inputs, Mapping)
    if not named and not isinstance(inputs, Sequence):
        inputs = (inputs,)
    given = list(inputs.values()) if named else list(inputs)
    if not all(isinstance(t, torch.Tensor) for t in given):
        raise UsageError(f"inputs: expected tensors, found {', '.join(type(t).__name__ for t in given)}")
    names = list(inputs) if named else [f"input_{i}" for i in range(len(given))]
    options.setdefault("optimize", True)
    training = module.training
    module.eval()
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = os.fspath(keep) or os.path.join(folder, "module.onnx")
            positional, keywords = ((), dict(inputs)) if named else (tuple(given), None)
            torch.onnx.export(module, positional, path, kwargs=keywords, input_names=names,
                              dynamo=importlib.util.find_spec("onnxscript") is not None)
            feeds = {name: t.detach().cpu() for name, t in zip(names, given)}
            result = verbs.profile(path, feeds, iterations=iterations, report=report, trace=trace, **options)
    finally:
        module.train(training)
    return ModuleProfile(result, module)


__all__ = ["ModuleProfile", "profile"]
