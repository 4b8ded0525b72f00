#!/usr/bin/env python3
"""Writes the seeds of the fuzzer: small models that between them use every part of the format.

usage: make_corpus.py DIR        (needs onnx)
"""
import math
import os
import sys

from onnx import TensorProto, helper, parser
from seed_models import casts, nested, plans
from seed_texts import GRAPHS

HEADER = '<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3, "my" : 1]> '

def give_values(model):
    """A value that the text declares without a value and that no node gives becomes a weight."""
    made = {o for n in model.graph.node for o in n.output}
    for v in list(model.graph.value_info):
        if v.name not in made:
            t = v.type.tensor_type
            dims = [d.dim_value for d in t.shape.dim]
            values = [1 + i % 3 for i in range(math.prod(dims))]
            model.graph.initializer.append(helper.make_tensor(v.name, t.elem_type, dims, values))
            model.graph.value_info.remove(v)


def order(model):
    """The text above need not be in order; the format wants it."""
    graph, done = model.graph, set()
    done.update(i.name for i in graph.input)
    done.update(t.name for t in graph.initializer)
    nodes, left = [], list(graph.node)
    while left:
        ready = [n for n in left if all(i in done or not i for i in n.input)]
        assert ready, [n.op_type for n in left]
        nodes.append(ready[0])
        done.update(ready[0].output)
        left.remove(ready[0])
    del graph.node[:]
    graph.node.extend(nodes)


def models():
    """Every model by name: those of GRAPHS, and what text does not spell."""
    for name, (opset, text) in GRAPHS.items():
        model = parser.parse_model(HEADER.format(ir=10 if opset > 10 else 4, opset=opset) + text)
        give_values(model)
        order(model)
        node = model.graph.node[0]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'block', 'block.0', 'op']")
        model.metadata_props.add(key="made by", value="make_corpus.py")
        if name == "conv":
            w = model.graph.initializer[0]
            raw = helper.make_tensor(w.name, w.data_type, w.dims, b"\0\0\0\x3f" * 6, raw=True)
            w.CopyFrom(raw)
        if name == "reduce":
            big = model.graph.initializer.add(name="weights", data_type=TensorProto.FLOAT, dims=[64, 64],
                                              data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.data"), ("offset", "4096"), ("length", "16384")):
                big.external_data.add(key=key, value=value)
        if name == "shapes":
            values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
            indices = helper.make_tensor("", TensorProto.INT64, [2, 2], [0, 1, 1, 2])
            model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
        yield name, model
    yield from casts()
    yield from plans()
    yield from nested()


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, model in models():
        for mode in range(4):     # stages.cpp takes the way to read a model from its size
            model.doc_string = ""
            while model.ByteSize() % 4 != mode:
                model.doc_string += "."
            with open(os.path.join(folder, f"{name}.{mode}"), "wb") as f:
                f.write(model.SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
