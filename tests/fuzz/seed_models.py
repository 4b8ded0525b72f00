"""Seeds of the fuzzer that ONNX's text format does not spell, for make_corpus.py: casts, damaged plans, odd nodes."""
import math

import onnx
from onnx import TensorProto, helper


def casts():
    """A constant of every element type, converted to every other."""
    types = [t for t in TensorProto.DataType.values() if t not in (TensorProto.UNDEFINED, TensorProto.STRING) and not
             TensorProto.DataType.Name(t).startswith(("COMPLEX", "FLOAT6"))]
    for source in types:
        kind = TensorProto.DataType.Name(source)
        values = [0, 1, 1, 0, 1] if source == TensorProto.BOOL else [0, 1, 3, 2, 1]
        if "FLOAT" in kind or kind == "DOUBLE":
            values = [0.0, -1.5, math.nan, math.inf, -math.inf, 1e30, 1e-40, 0.7]
        elif kind.startswith("INT"):
            values = [0, -1, -2, 1, 1]
        dims = [len(values)]
        if source in (TensorProto.FLOAT, TensorProto.DOUBLE):
            x = helper.make_tensor("x", source, dims, values)
        else:       # through f32, by the operator itself
            x = helper.make_tensor("f", TensorProto.FLOAT, dims, [float(v) for v in values])
        nodes = [helper.make_node("Cast", ["f"], ["x"], to=source)] if x.name == "f" else []
        outputs = []
        for target in types:
            for saturate in (0, 1) if "FLOAT8" in TensorProto.DataType.Name(target) else (1,):
                name = f"y{target}_{saturate}"
                nodes.append(helper.make_node("Cast", ["x"], [name], to=target, saturate=saturate))
                outputs.append(helper.make_tensor_value_info(name, target, dims))
        graph = helper.make_graph(nodes, "casts", [], outputs, [x])
        yield f"casts_of_{kind.lower()}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def plans():
    """Plans as smelt reads them, of fused nodes that are not as it writes them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.smelt", 1)]
    add = "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }"
    relu = "(in0:f32) { %1 = relu(in0):f32; return %1 }"
    both = "(in0:f32) { %1 = relu(in0):f32; return %1, in0 }"
    for name, op, inputs, attributes in (
            ("sound", "MatMul", "x w", {"program": relu}), ("region", "Pointwise", "x x", {"program": add}),
            ("passing_on", "Pointwise", "x", {"program": "(in0:f32) { return in0 }"}),
            ("operands_missing", "MatMul", "x w", {"program": add}), ("operands_left", "MatMul", "x w x", {"program": relu}),
            ("results", "Pointwise", "x", {"program": both}), ("no_program", "Pointwise", "x", {}),
            ("no_reader", "MatMul", "x w x", {}), ("other_type", "MatMul", "x w", {"program": relu.replace("f32", "f64")}),
            ("other_operand", "Pointwise", "x x", {"program": add.replace("in1:f32", "in1:i64")}),
            ("one_input", "MatMul", "x", {"program": relu}), ("more_inputs", "RotaryEmbedding", "x x x x", {}),
            ("gap", "MatMul", "x _", {}), ("outputs", "MatMul", "x w", {"more": 1}), ("segments", "Conv", "x w", {"segments": -2}),
            ("text", "Norm", "x w", {"axis": "last", "kind": "rms"}), ("number", "Norm", "x w", {"axis": 0.5, "kind": "rms", "epsilon": 1}),
            ("list", "Conv", "x w", {"strides": 2, "group": [1, 2]}), ("captured", "MatMul", "x w", {"captured": 5}),
            ("before", "Reduce", "x x", {"program": add, "inputs_before": 7, "axes": [1]}), ("unread", "Pointwise", "x", {"program": "("}),
            ("later", "Unheard", "x", {})):
        attributes = dict(attributes)
        outputs = ["y", "more"] if attributes.pop("more", 0) else ["y"]
        node = helper.make_node(op, inputs.replace("_", "").split(" "), outputs, domain="ai.smelt", overload="0", **attributes)
        body = helper.make_function("ai.smelt", op, [f"in{i}" for i in range(len(node.input))], ["out"],
                                    [helper.make_node("Relu", ["in0"], ["out"])], opsets[:1], list(attributes), overload="0")
        for with_body in (False, True):
            model = helper.make_model(helper.make_graph([node], "g", [x, w], [y]), opset_imports=opsets, ir_version=13,
                                      functions=[body] if with_body else [])
            model.metadata_props.add(key="smelt.plan.version", value="1")
            yield f"plan_{name}_{'with_body' if with_body else 'alone'}", model


def nested():
    """If in If, one deeper than smelt reads; in the graph and in a function; scopes as torch.jit wrote them; odd nodes."""
    def branch(depth):
        inner = helper.make_node("Neg", ["x"], ["y"]) if depth == 0 else helper.make_node(
            "If", ["c"], ["y"], then_branch=branch(depth - 1), else_branch=branch(0))
        return helper.make_graph([inner], f"b{depth}", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])

    x, c = (helper.make_tensor_value_info(n, t, s) for n, t, s in (("x", TensorProto.FLOAT, [2]), ("c", TensorProto.BOOL, [])))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1), helper.make_opsetid("ai.smelt", 1)]

    def model(node, **more):
        return helper.make_model(helper.make_graph([node], "g", [x, c], [y]), opset_imports=opsets, ir_version=10, **more)

    for depth in (3, 17):
        deep = helper.make_node("If", ["c"], ["y"], then_branch=branch(depth), else_branch=branch(0))
        yield f"nested_{depth}", model(deep)
        f = helper.make_function("my", "deep", ["x", "c"], ["y"], [deep], opsets[:1])
        yield f"nested_function_{depth}", model(helper.make_node("deep", ["x", "c"], ["y"], domain="my"), functions=[f])
    for name in ("/layer1/layer1.0/conv1/Neg", "/a/b.0/c/Neg", "/a.b/b.1/b.1.c/Neg", "Neg_3"):
        yield "named" + name.replace("/", "_"), model(helper.make_node("Neg", ["x"], ["y"], name=name))
    scoped = model(helper.make_node("Neg", ["x"], ["y"]))
    scoped.graph.node[0].metadata_props.add(key="namespace", value=": my.Model/layer1: torch.nn.Sequential/neg: aten.neg")
    yield "namespace", scoped
    for op, domain, inputs in (("Unheard", "ai.smelt", ["x"]), ("Pointwise", "ai.smelt", ["x"]), ("Unheard", "", ["x"]),
                               ("Neg", "", ["x", "x"]), ("QLinearConv", "", ["x"]), ("SkipLayerNormalization", "com.microsoft", ["x"])):
        yield f"odd_{domain}_{op}", model(helper.make_node(op, inputs, ["y"], domain=domain))
    odd = model(helper.make_node("Neg", ["x"], ["y"]))
    odd.graph.node[0].attribute.add(name="t", type=onnx.AttributeProto.TYPE_PROTO).tp.tensor_type.elem_type = 1
    yield "odd_attribute", odd
    internal = model(helper.make_node("Neg", ["x"], ["y"]))       # ONNX leaves attributes of such names unchecked
    internal.graph.node[0].attribute.add(name="__t", type=onnx.AttributeProto.TYPE_PROTO).tp.tensor_type.elem_type = 1
    yield "odd_internal_attribute", internal
    outer = helper.make_node("If", ["c"], ["y"], then_branch=helper.make_graph([], "t", [], [x]), else_branch=branch(0))
    yield "branch_of_what_is_outside", model(outer)
    words = model(helper.make_node("Neg", ["x"], ["y"]))
    words.graph.initializer.add(name="words", data_type=TensorProto.STRING, dims=[3], string_data=[b"one", b"two"])
    yield "odd_strings", words
    vague = model(helper.make_node("Add", ["x", "v"], ["y"], broadcast=1, axis=0))
    vague.graph.node.insert(0, helper.make_node("Reshape", ["x", "s"], ["v"]))
    vague.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, ["K"]))
    vague.opset_import[0].version = 6
    yield "axis_of_unknown_rank", vague
    twice = model(helper.make_node("Neg", ["x"], ["y"]))
    twice.opset_import.append(helper.make_opsetid("ai.onnx", 20))
    yield "imported_twice", twice
    versions = model(helper.make_node("Neg", ["x"], ["y"]))
    versions.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    yield "imported_in_two_versions", versions
    negation = helper.make_function("my", "f", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets[:1])
    unused = helper.make_function("my", "g", ["a"], ["b"], [helper.make_node("NoSuch", ["a"], ["b"])], opsets[:1])
    for inputs in (["x"], ["x", "x"]):
        yield f"call_with_{len(inputs)}", model(helper.make_node("f", inputs, ["y"], domain="my"), functions=[negation, unused])
    shapeless = model(helper.make_node("Neg", ["x"], ["y"]))
    shapeless.graph.input[0].type.tensor_type.ClearField("shape")
    yield "shapeless", shapeless
    yield "odd_kind", model(helper.make_node("Softmax", ["x"], ["y"], axis=1.5))
