"""Random models of nested If, Loop and Scan, held to ONNX Runtime. Bodies read values of all scopes around them, and branches beside
each other use the same names."""
import random

import numpy as np
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto as T
from onnx import checker, helper


class Scope:
    """The nodes of a graph that is being made, and the names of its 1-D values, those of the scopes around it included."""

    def __init__(self, model, values):
        self.model, self.values, self.nodes = model, list(values), []

    def add(self, op, inputs, **attributes):
        self.model.count += 1
        name = f"v{self.model.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{self.model.count}", **attributes))
        return name

    def constant(self, array):
        array = np.asarray(array)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return self.add("Constant", [], value=helper.make_tensor("c", kind, array.shape, array.flatten().tolist()))

    def any(self):
        return self.model.random.choice(self.values)


class Model:
    def __init__(self, seed, flags=()):
        """`flags`: names of inputs that are booleans, which conditions are made of."""
        self.random, self.count, self.joins, self.flags = random.Random(seed), 0, 0, flags

    def proto(self):
        scope = Scope(self, ["x", "z"])
        self.grow(scope, 3, 8)
        outputs = [scope.add("Identity", [scope.any()]) for _ in range(3)]
        inputs = [helper.make_tensor_value_info(name, T.FLOAT, [f"len_{name}"]) for name in ("x", "z")]
        inputs += [helper.make_tensor_value_info(name, T.BOOL, []) for name in self.flags]
        graph = helper.make_graph(scope.nodes, "random", inputs,
                                  [helper.make_tensor_value_info(name, T.FLOAT, [f"len_{name}"]) for name in outputs])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(proto)
        return proto

    def total(self, scope, x):
        return scope.add("ReduceSum", [x], keepdims=0)

    def condition(self, scope):
        if not self.flags or self.random.random() < 0.4:
            return self.condition_of_values(scope)
        flag, kind = self.random.choice(self.flags), self.random.randrange(3)
        if kind == 0:
            return flag
        return scope.add("Not", [flag]) if kind == 1 else scope.add("And", [flag, self.condition_of_values(scope)])

    def condition_of_values(self, scope):
        x = scope.any()
        kind = self.random.randrange(4)
        if kind == 0:
            return scope.constant(np.array(self.random.random() < 0.5))
        if kind == 1:
            return scope.add("Less", [scope.add("Size", [x]), scope.constant(np.int64(self.random.randrange(8)))])
        if kind == 2:
            first = scope.add("Gather", [scope.add("Shape", [x]), scope.constant(np.int64(0))])
            return scope.add("Equal", [first, scope.constant(np.int64(3))])
        return scope.add("Greater", [self.total(scope, x), scope.constant(np.float32(0.1))])

    def grow(self, scope, depth, nodes):
        for _ in range(nodes):
            kind = self.random.randrange(7 if depth else 4)
            if kind < 2:
                scope.values.append(scope.add(self.random.choice(["Relu", "Neg", "Abs", "Tanh"]), [scope.any()]))
            elif kind == 2:
                scope.values.append(scope.add("Add", [scope.any(), self.total(scope, scope.any())]))
            elif kind == 3 and self.joins < 4:
                self.joins += 1
                scope.values.append(scope.add("Concat", [scope.any(), scope.any()], axis=0))
            elif kind == 4:
                self.add_if(scope, depth - 1)
            elif kind == 5:
                self.add_loop(scope, depth - 1)
            elif kind == 6:
                self.add_scan(scope, depth - 1)

    def add_if(self, scope, depth):
        condition = self.condition(scope)
        branches, before, furthest = {}, self.count, self.count
        for key in ("then_branch", "else_branch"):
            self.count = before
            inner = Scope(self, scope.values)
            self.grow(inner, depth, self.random.randrange(5))
            outputs = [inner.add("Identity", [inner.any()]) for _ in range(2)]
            branches[key] = helper.make_graph(inner.nodes, key, [],
                                              [helper.make_tensor_value_info(o, T.FLOAT, [None]) for o in outputs])
            furthest = max(furthest, self.count)
        self.count = furthest
        self.add_several(scope, "If", [condition], 2, **branches)

    def add_loop(self, scope, depth):
        trips = scope.constant(np.int64(1 + self.random.randrange(3)))
        start = scope.any()
        self.count += 1
        i, go, state = (f"{name}{self.count}" for name in ("i", "go", "state"))
        inner = Scope(self, [*scope.values, state])
        self.grow(inner, depth, 1 + self.random.randrange(4))
        outputs = [inner.add("Identity", [go]), inner.add("Identity", [inner.any()]), self.total(inner, inner.any())]
        body = helper.make_graph(
            inner.nodes, "body",
            [helper.make_tensor_value_info(i, T.INT64, []), helper.make_tensor_value_info(go, T.BOOL, []),
             helper.make_tensor_value_info(state, T.FLOAT, [None])],
            [helper.make_tensor_value_info(outputs[0], T.BOOL, []), helper.make_tensor_value_info(outputs[1], T.FLOAT, [None]),
             helper.make_tensor_value_info(outputs[2], T.FLOAT, [])])
        self.add_several(scope, "Loop", [trips, "", start], 2, body=body)

    def add_scan(self, scope, depth):
        """Rows of [n, 1], one by one; the state keeps its shape, as ONNX Runtime asks."""
        rows = scope.add("Unsqueeze", [scope.any(), scope.constant(np.array([1], np.int64))])
        start = scope.constant(np.array([0.5], np.float32))
        self.count += 1
        state, row = f"state{self.count}", f"row{self.count}"
        inner = Scope(self, [*scope.values, state, row])
        self.grow(inner, depth, self.random.randrange(3))
        last = inner.add("Identity", [row]) if self.random.random() < 0.3 else inner.add("Add", [state, row])
        stacked = self.total(inner, inner.any())
        body = helper.make_graph(
            inner.nodes, "body",
            [helper.make_tensor_value_info(state, T.FLOAT, [1]), helper.make_tensor_value_info(row, T.FLOAT, [1])],
            [helper.make_tensor_value_info(last, T.FLOAT, [1]), helper.make_tensor_value_info(stacked, T.FLOAT, [])])
        self.add_several(scope, "Scan", [start, rows], 2, body=body, num_scan_inputs=1)

    def add_several(self, scope, op, inputs, count, **attributes):
        self.count += 1
        outputs = [f"w{self.count}_{i}" for i in range(count)]
        scope.nodes.append(helper.make_node(op, inputs, outputs, name=f"n{self.count}", **attributes))
        scope.values += outputs


@pytest.mark.parametrize("flags", [(), ("f",), ("f", "g")], ids=["no flags", "a flag", "flags"])
@pytest.mark.parametrize("seed", range(40))
def test_random_control_flow_gives_what_onnx_runtime_gives(seed, flags):
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 3   # it warns of names that it leaves as they are
    proto = Model(seed, flags).proto()
    peer = ort.InferenceSession(proto.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
    sessions = [smelt.Session(proto, tuning_level=0, optimize=optimize) for optimize in (True, False)]
    generator = np.random.default_rng(seed)
    for turn, (n, m) in enumerate(((3, 2), (1, 5), (3, 2), (4, 3))):
        given = {name: np.array((turn >> i) % 2 == 0) for i, name in enumerate(flags)}
        feeds = {"x": generator.standard_normal(n).astype(np.float32), "z": generator.standard_normal(m).astype(np.float32), **given}
        expected = peer.run(None, feeds)
        for session in sessions:
            for ours, theirs in zip(session.run(None, feeds), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
