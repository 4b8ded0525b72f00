"""The cases of operators.py in every type that ONNX's schemas allow: a type that no other case has is here. NumPy has no bf16:
the tests alone ask for it."""
import dataclasses
import math

import numpy as np
import onnx
from operator_cases import TYPES, Case, case, ints, parse

KINDS = {k: f"tensor({onnx.TensorProto.DataType.Name(t).lower()})" for k, t in TYPES.items()}
TIMED = tuple(k for k in KINDS if k != "bf16")
# Whose function bodies take logarithms, which ONNX has of floats alone.
OF_FLOATS = ("ReduceLogSum", "ReduceLogSumExp")
INTEGERS = tuple(k for k in KINDS if k[0] in "iu")


def more():
    """Operators that no other family has."""
    image = "f32 8x64x56x56"
    yield case("BitwiseOr", "i32 8x64x56x56", "i32 8x64x56x56")
    yield case("GreaterOrEqual", image, image)
    yield case("CastLike", image, "i32 1")
    yield case("CumProd", "f32 64x64x196", np.array(1), opset=26, low=0.9, high=1.1)
    yield case("BlackmanWindow", "i64", low=200000, high=200000)
    yield case("HammingWindow", "i64", low=200000, high=200000)
    yield case("Flatten", image, axis=2)
    yield case("Squeeze", "f32 8x1x64x3136", ints(1))
    yield case("Unsqueeze", "f32 8x64x3136", ints(1))
    yield case("Shape", image)
    yield case("Size", image)
    yield case("TensorScatter", "f32 8x16x512x64", "f32 8x16x4x64", ints(*range(8)), opset=24, axis=2)
    yield case("SwiGLU", "f32 4096x384", "f32 4096x384", opset=28)


def schema_of(c):
    try:
        return onnx.defs.get_schema(c.op, c.opset, c.domain)
    except onnx.defs.SchemaError:
        return None


def variables(c):
    """{a type variable of the schema: (the type that the case gives it, the inputs that have it)}."""
    schema, found = schema_of(c), {}
    for i, value in enumerate(c.inputs):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)].type_str
        if not formal.startswith("tensor(") and value is not None:
            kind, indices = found.setdefault(formal, (parse(value)[0] if isinstance(value, str) else None, []))
            indices.append(i)
            if kind is None and isinstance(value, str):
                found[formal] = (parse(value)[0], indices)
    return {v: (kind, indices) for v, (kind, indices) in found.items() if kind}


def in_type(c, kind, indices):
    """The case with those inputs in that type."""
    inputs = list(c.inputs)
    for i in indices:
        value = inputs[i]
        inputs[i] = f"{kind} {value.partition(' ')[2]}".strip() if isinstance(value, str) else value.astype(numpy_type(kind))
    low, high = c.low, c.high
    if kind in INTEGERS:  # whole numbers, some of them not 0
        low, high = math.ceil(low), max(math.floor(high), math.ceil(low), 1)
    return dataclasses.replace(c, inputs=tuple(inputs), low=low, high=high)


def numpy_type(kind):
    return onnx.helper.tensor_dtype_to_np_dtype(TYPES[kind])


def in_all_types(cases, kinds=TIMED):
    """For each operator and type variable, its first case in those of `kinds` that none of `cases` has."""
    first, seen = {}, {}
    for c in cases:
        if c.domain or not schema_of(c):
            continue
        for variable, (kind, indices) in variables(c).items():
            first.setdefault((c.op, variable), (c, indices))
            seen.setdefault((c.op, variable), set()).add(kind)
    for (op, variable), (c, indices) in first.items():
        allowed = {t for constraint in schema_of(c).type_constraints if constraint.type_param_str == variable
                   for t in constraint.allowed_type_strs}
        for kind in kinds:
            if KINDS[kind] in allowed and kind not in seen[op, variable] and not (op in OF_FLOATS and kind in INTEGERS):
                yield in_type(c, kind, indices)


def types(kinds=TIMED):
    import operators  # its table of families has this one too

    yield from more()
    # A chain of operators is no case of any of them.
    others = [c for name, f in operators.FAMILIES.items() if name != "types" for c in f() if isinstance(c, Case)]
    yield from in_all_types([*others, *more()], kinds)


FAMILIES = (types,)
