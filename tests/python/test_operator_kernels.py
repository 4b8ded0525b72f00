"""Every operator of bench/operators.py, over types, axes, ranks and forms of broadcasting, has a kernel of its own on the CPU: in every
type that ONNX's schemas allow, and by weights that are computed. Which of them have none on a GPU stands in ON_HOST."""
import importlib
import json
import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import compose

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"

# Those that run in the plain loops of their reference, and why.
BY_REFERENCE = {
    "Unique": "of slices along an axis, which are compared with each other",
}
BY_COMPUTED_WEIGHTS = {
    "QLinearConv": "weights are quantised beforehand; what is computed in int8 is ConvInteger's",
}
# On a GPU these have no kernel, of any type or where an input has one of these: an error there, or steps on the host.
ON_HOST = {
    **dict.fromkeys(("Det", "MaxRoiPool"), None),
    "Multinomial": None,  # with a seed: a generator's numbers, in its order
    "Range": None,  # by constants: what sizes may follow from
    **{op: {"f64"} for op in ("BatchNormalization", "DeformConv", "GRU", "GroupNormalization", "InstanceNormalization", "LSTM", "RNN",
                              "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    "Upsample": {"bool"},
}
# ONNX Runtime's, whose weights in blocks are constants.
NEED_CONSTANTS = ("MatMulNBits",)


def families():
    sys.path.insert(0, str(BENCH))
    names = ("", "_moving", "_products", "_sequences", "_shapes", "_wide")
    return {f.__name__: f for n in names for f in importlib.import_module(f"operator_cases{n}").FAMILIES}


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


def by_reference(command, folder, models, cases):
    """{the name of a case: its operator} of those that have a step in the plain loops of a reference."""
    slow, seen = {}, 0
    for model in models:
        onnx.save(model, folder / "operators.onnx")
        said = command("explain", folder / "operators.onnx", "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2)
        for row in json.loads(said.stdout)["tactics"]:
            if row["result"] != "runs":
                continue
            seen += 1
            if row["tactic"].startswith("reference"):
                case = cases[int(row["step"].split("/")[0])]
                slow[case.name] = case.op
    assert seen >= len(cases) // 2  # constants are folded, and views are no steps
    return slow


@pytest.mark.parametrize("family", families())
def test_operators_have_kernels(command, family, tmp_path):
    cases = [c for c in families()[family]() if is_valid(c)]
    slow = by_reference(command, tmp_path, merged(cases).values(), cases)
    assert {name for name, op in slow.items() if op not in BY_REFERENCE} == set()


def test_operators_have_kernels_in_every_type_of_their_schemas(command, tmp_path):
    families()
    types = importlib.import_module("operator_cases_types")
    cases = [c for c in types.types(types.KINDS) if is_valid(c)]
    assert len(cases) > 700
    slow = by_reference(command, tmp_path, merged(cases).values(), cases)
    assert {name for name, op in slow.items() if op not in BY_REFERENCE} == set()


def test_a_gpu_has_kernels_in_every_type_of_their_schemas_but_those_that_are_listed(command, tmp_path):
    families()
    types = importlib.import_module("operator_cases_types")
    cases = [c for c in types.types(types.KINDS) if is_valid(c)]
    seen, missing, listed = 0, set(), set()
    for model in merged(cases).values():
        onnx.save(model, tmp_path / "operators.onnx")
        said = command("explain", tmp_path / "operators.onnx", "--arch", "sm_90", "--kernels", "--allow-fallback", "--json",
                       "--no-cache", "--threads", 2, code=None, timeout=900)
        if said.returncode == 3 and "NVRTC" in said.stderr:
            pytest.skip("no NVRTC")
        assert said.returncode == 0, said.stderr
        for row in json.loads(said.stdout)["tactics"]:
            if row["result"] != "runs":
                continue
            seen += 1
            if "on the host" in row["tactic"]:
                case = cases[int(row["step"].split("/")[0])]
                kinds = ON_HOST.get(case.op, set())
                if kinds is None or any(isinstance(i, str) and types.parse(i)[0] in kinds for i in case.inputs):
                    listed.add(case.op)
                else:
                    missing.add(case.name)
    assert seen >= len(cases) // 2
    assert missing == set()
    assert listed == set(ON_HOST)  # else it has a kernel now: take it off the list


def computed(model):
    """The model with its constants as inputs, but those that lists of numbers say: axes, shapes."""
    graph = model.graph
    for constant in list(graph.initializer):
        if constant.data_type == onnx.TensorProto.INT64 and len(constant.dims) <= 1:
            continue
        graph.input.append(onnx.helper.make_tensor_value_info(constant.name, constant.data_type, list(constant.dims)))
        graph.initializer.remove(constant)
    return model


@pytest.mark.parametrize("family", families())
def test_operators_have_kernels_whose_weights_are_computed(command, family, tmp_path):
    cases = [c for c in families()[family]() if any(isinstance(i, np.ndarray) and i.size > 1 for i in c.inputs)]
    cases = [c for c in cases if c.op not in NEED_CONSTANTS and is_valid(c)]
    if not cases:
        pytest.skip("no operator of it has weights")
    slow = by_reference(command, tmp_path, [computed(m) for m in merged(cases).values()], cases)
    assert {name for name, op in slow.items() if op not in {**BY_REFERENCE, **BY_COMPUTED_WEIGHTS}} == set()
