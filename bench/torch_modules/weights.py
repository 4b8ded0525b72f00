"""Where the initializers of an exported graph belong in the module that it was exported from."""
import ast

import numpy as np
import onnx
import torch


def tensor(array):
    array = np.require(array, requirements=("C", "W"))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def shape_of(initializer):
    """A tensor without data."""
    kind = onnx.helper.tensor_dtype_to_np_dtype(initializer.data_type).name
    return torch.empty(tuple(initializer.dims), dtype=getattr(torch, kind), device="meta")


def scope_of(node):
    """The path of the module that a node comes from, "" for the model's own; the last of its scopes is the node itself."""
    scopes = next((p.value for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"), "[]")
    return ["", "", *ast.literal_eval(scopes)][-2]


def weights_of(graph, take, places):
    """Yields what the initializers are in a module: (name in its state, tensor). A node that reads one names the module by its
    scope; a convolution or Gemm by its weight's name, for the scope may be the batch norm that was folded into it."""
    known, products, groups = {t.name for t in graph.initializer}, set(), {}
    for node in graph.node:
        a, b, c, *_ = [*node.input, "", "", ""]
        scope, op = scope_of(node), node.op_type
        if op in ("Conv", "ConvTranspose", "Gemm", "LayerNormalization"):
            module = scope if op == "LayerNormalization" else b.removesuffix(".weight")
            yield f"{module}.weight", take(b)
            if c:
                yield f"{module}.bias", take(c)
        elif (op == "MatMul" and b in known) or (op == "Add" and b in known and a in products):
            kind = "weight" if op == "MatMul" else "bias"
            packed = f"{scope}.in_proj_{kind}"
            yield packed if packed in places else f"{scope}.{kind}", take(b).T.contiguous() if op == "MatMul" else take(b)
            products.add(node.output[0])
        elif op == "InstanceNormalization":   # over the groups of a group norm, whose scale and bias follow
            groups[scope] = take(b).float(), take(c).float()
        elif op in ("Mul", "Add") and scope in groups and b in known:
            value, (scale, bias) = take(b).flatten(), groups[scope]
            if op == "Mul":
                each = len(value) // len(scale)
                yield f"{scope}.weight", (scale.repeat_interleave(each) * value.float()).to(value.dtype)
                groups[scope] = scale, bias.repeat_interleave(each) * value.float()
            else:
                yield f"{scope}.bias", (bias + value.float()).to(value.dtype)
        elif op == "Mul" and f"{scope}.w" in places and b in known:
            yield f"{scope}.w", take(b)
        elif op == "Gather" and a.endswith(".weight"):
            yield a, take(a)
