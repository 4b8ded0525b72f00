"""Writing graphs that spell operators out in the ways that exporters and people write them: spellings_*.py."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.bool_: TensorProto.BOOL, np.int64: TensorProto.INT64}


class Writer:
    """One model of many small graphs; the names of each begin with its own prefix."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.constants, self.feeds = [], [], [], [], {}
        self.random, self.prefix, self.type = np.random.default_rng(7), "", np.float32

    def begin(self, prefix, kind=np.float32):
        self.prefix, self.type = prefix, kind

    def name(self):
        return f"{self.prefix}/{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def input(self, *shape, low=-1, high=1, kind=None):
        name, kind = self.name(), kind or self.type
        a = self.random.uniform(low, high, shape)
        self.feeds[name] = a > 0 if kind == np.bool_ else a.astype(kind)
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def constant(self, value, kind=None):
        name = self.name()
        value = np.asarray(value)
        self.constants.append(
            numpy_helper.from_array(value.astype(kind or (self.type if value.dtype.kind == "f" else value.dtype)), name)
        )
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        """A node; a number among its inputs is a constant of the graph's type, a list one of integers."""
        inputs = [
            self.constant(float(i)) if isinstance(i, float) else self.ints(*i) if isinstance(i, list) else i for i in inputs
        ]
        name = self.name()
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name, **attributes))
        return names[0] if outputs == 1 else names

    def turned(self, x, *perm):
        return self("Transpose", x, perm=list(perm))

    def cast(self, x, kind):
        return self("Cast", x, to=TYPES[kind])

    def end(self, y, kind=None):
        """y is what the graph begun last computes."""
        self.outputs.append(helper.make_tensor_value_info(y, TYPES[kind or self.type], None))

    def model(self):
        graph = helper.make_graph(self.nodes, "spellings", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def part(table):
    """Adds the function to the table, under its name."""
    def add(f):
        table[f.__name__.strip("_")] = f
        return f

    return add
