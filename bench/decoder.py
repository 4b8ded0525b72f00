"""A small language model as exporters write them, with the keys and values of the tokens before as inputs and outputs."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH, INNER, WORDS = 6, 8, 64, 1536, 2000
HIDDEN = HEADS * WIDTH


class Writer:
    def __init__(self):
        self.random, self.nodes, self.constants = np.random.default_rng(0), [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, name, *shape):
        return self.constant(name, (self.random.standard_normal(shape) * 0.03).astype(np.float32))

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def norm(self, x, name):
        square = self.node("Pow", [x, "two"], f"{name}/square")
        mean = self.node("ReduceMean", [square, "last"], f"{name}/mean")
        root = self.node("Sqrt", [self.node("Add", [mean, "epsilon"], f"{name}/sum")], f"{name}/root")
        scaled = self.node("Div", [x, root], f"{name}/scaled")
        return self.node("Mul", [scaled, self.weight(f"{name}/gain", HIDDEN)], f"{name}/y")


def past(layer, part):
    return f"past.{layer}.{part}"


def attention(w, x, layer, caches, presents):
    name, heads = f"layer{layer}", {}
    for part in "qkv":
        y = w.node("MatMul", [x, w.weight(f"{name}/w{part}", HIDDEN, HIDDEN)], f"{name}/{part}")
        y = w.node("Reshape", [y, "to heads"], f"{name}/{part}/split")
        heads[part] = w.node("Transpose", [y], f"{name}/{part}/heads", perm=[0, 2, 1, 3])
    for part in "kv":
        caches.append(helper.make_tensor_value_info(past(layer, part), TensorProto.FLOAT, ["batch", HEADS, "past", WIDTH]))
        present = f"present.{layer}.{part}"
        heads[part] = w.node("Concat", [past(layer, part), heads[part]], present, axis=2)
        presents.append(helper.make_tensor_value_info(present, TensorProto.FLOAT, ["batch", HEADS, "length", WIDTH]))
    keys = w.node("Transpose", [heads["k"]], f"{name}/keys", perm=[0, 1, 3, 2])
    scores = w.node("Mul", [w.node("MatMul", [heads["q"], keys], f"{name}/scores"), "scale"], f"{name}/scaled")
    weights = w.node("Softmax", [scores], f"{name}/softmax", axis=-1)
    y = w.node("Transpose", [w.node("MatMul", [weights, heads["v"]], f"{name}/mixed")], f"{name}/turned", perm=[0, 2, 1, 3])
    y = w.node("Reshape", [y, "from heads"], f"{name}/joined")
    return w.node("MatMul", [y, w.weight(f"{name}/wo", HIDDEN, HIDDEN)], f"{name}/out")


def gated(w, x, name):
    gate = w.node("MatMul", [x, w.weight(f"{name}/w1", HIDDEN, INNER)], f"{name}/gate")
    up = w.node("MatMul", [x, w.weight(f"{name}/w3", HIDDEN, INNER)], f"{name}/up")
    silu = w.node("Mul", [gate, w.node("Sigmoid", [gate], f"{name}/sigmoid")], f"{name}/silu")
    return w.node("MatMul", [w.node("Mul", [silu, up], f"{name}/gated"), w.weight(f"{name}/w2", INNER, HIDDEN)], f"{name}/down")


def write(folder):
    """The model's path: ids [batch, sequence] and the pasts → logits and the presents, 80 MB of weights."""
    path = folder / "decoder.onnx"
    w, caches, presents = Writer(), [], []
    for name, value in (("to heads", np.array([0, 0, HEADS, WIDTH])), ("from heads", np.array([0, 0, HIDDEN])),
                        ("last", np.array([-1])), ("two", np.float32(2)), ("epsilon", np.float32(1e-5)),
                        ("scale", np.float32(WIDTH ** -0.5))):
        w.constant(name, np.asarray(value, np.int64 if isinstance(value, np.ndarray) else np.float32))
    x = w.node("Gather", [w.weight("words", WORDS, HIDDEN), "ids"], "embedded")
    for layer in range(LAYERS):
        x = w.node("Add", [x, attention(w, w.norm(x, f"norm{layer}.1"), layer, caches, presents)], f"residual{layer}.1")
        x = w.node("Add", [x, gated(w, w.norm(x, f"norm{layer}.2"), f"gated{layer}")], f"residual{layer}.2")
    w.node("MatMul", [w.norm(x, "norm"), w.weight("head", HIDDEN, WORDS)], "logits")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", WORDS])
    graph = helper.make_graph(w.nodes, "decoder", [ids, *caches], [logits, *presents], w.constants)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def feeds(length):
    """One token behind `length` others."""
    random = np.random.default_rng(1)
    caches = {past(layer, part): random.standard_normal((1, HEADS, length, WIDTH), np.float32)
              for layer in range(LAYERS) for part in "kv"}
    return {"ids": np.array([[7]]), **caches}
