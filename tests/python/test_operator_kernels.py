"""Every operator of bench/operators.py, over types, axes, ranks and forms of broadcasting, has a kernel of its own on the CPU."""
import importlib
import json
import pathlib
import sys

import onnx
import pytest
from onnx import compose

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"

# Those that run in the plain loops of their reference: Unique of slices along an axis.
BY_REFERENCE = {"Unique"}


def families():
    sys.path.insert(0, str(BENCH))
    modules = ("operator_cases", "operator_cases_moving", "operator_cases_products", "operator_cases_sequences", "operator_cases_wide")
    return {f.__name__: f for m in modules for f in importlib.import_module(m).FAMILIES}


def merged(cases):
    """{(opset, domain): one model with a node for each case, named by its number}."""
    models = {}
    for i, case in enumerate(cases):
        model = compose.add_prefix(case.model(), f"{i}/")
        key = (case.opset, case.domain)
        if key not in models:
            models[key] = model
            continue
        graph = models[key].graph
        for field in ("node", "input", "output", "initializer"):
            getattr(graph, field).extend(getattr(model.graph, field))
    return models


def is_valid(case):
    if case.domain == "com.microsoft":  # ONNX's checker has no rules of it
        return True
    try:
        onnx.checker.check_model(case.model(), full_check=True)
    except onnx.checker.ValidationError:
        return False
    except onnx.shape_inference.InferenceError:
        return False
    return True


@pytest.mark.parametrize("family", families())
def test_operators_have_kernels(command, family, tmp_path):
    cases = [c for c in families()[family]() if is_valid(c)]
    slow, seen = {}, 0
    for model in merged(cases).values():
        onnx.save(model, tmp_path / "operators.onnx")
        said = command("explain", tmp_path / "operators.onnx", "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2)
        for row in json.loads(said.stdout)["tactics"]:
            if row["result"] != "runs":
                continue
            seen += 1
            if row["tactic"].startswith("reference"):
                case = cases[int(row["step"].split("/")[0])]
                slow[case.name] = case.op
    assert seen > 0
    assert {name for name, op in slow.items() if op not in BY_REFERENCE} == set()
