#!/usr/bin/env python3
"""Writes the seeds of the import fuzzer: small models that between them use every part of the format.

usage: make_corpus.py DIR        (needs onnx)
"""
import math, os, sys
import onnx
from onnx import TensorProto, helper, parser

HEADER = '<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3, "my" : 1]> '

# name: (opset, graph and functions)
GRAPHS = {
    "conv": (20, 'g (float[N, 3, 8, 8] x) => (float[N, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}>'
                 ' { c = Conv <pads = [0, 0, 0, 0]> (x, w, b) r = Relu(c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)'
                 ' s = Constant <value = float[4] {1, 1, 2, 2}> () y = Resize <mode = "nearest"> (p, , s) }'),
    "transformer": (20, 'g (float[B, S, 8] x, int64[B, S] ids) => (float[B, S, 8] y) <float[8] g = {1, 1, 1, 1, 1, 1, 1, 1}, float[8, 8] w, float[10, 8] table>'
                        ' { e = Gather(table, ids) n = LayerNormalization <axis = -1> (x, g) q = MatMul(n, w) k = Transpose <perm = [0, 2, 1]> (q)'
                        ' a = MatMul(q, k) m = Softmax <axis = -1> (a) v = MatMul(m, n) h = Gelu <approximate = "tanh"> (v) z = Add(h, e) y = Add(z, x) }'),
    "shapes": (18, 'g (float[N, 4, C] x) => (float[M, K] y) <int64[1] one = {1}, int64[1] minus = {-1}, int64 zero = {0}>'
                   ' { s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, one0) c = Concat <axis = 0> (u, minus) y = Reshape(x, c) one0 = Identity(zero) }'),
    "reduce": (18, 'g (float[2, 3, 4] x) => (float[2, 3, 1] y, int64[2, 3, 1] i) <int64[1] axes = {-1}> { y = ReduceMean(x, axes) i = ArgMax <axis = -1> (x) }'),
    "split": (18, 'g (float[2, 6] x) => (float[2, 3] y) <int64[2] s = {3, 3}> { a, b = Split <axis = 1> (x, s) c, d = Split <axis = 1, num_outputs = 2> (x) e = Add(a, b) f = Mul(c, d) y = Where(t, e, f) t = Less(e, f) }'),
    "if": (20, 'g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = If(c) <then_branch = t () => (float[2] p) { p = Add(x, w) },'
               ' else_branch = e () => (float[2] q) { q = Sub(w, x) }> }'),
    "loop": (20, 'g (int64 m, bool c, float[2] x, float[2] k) => (float[2] y, float[T, 2] z) { y, z = Loop(m, c, x) <body = b (int64 i, bool c0, float[2] s)'
                 ' => (bool d, float[2] t, float[2] u) { d = Identity(c0) t = Add(s, k) u = Mul(t, t) }> }'),
    "scan": (20, 'g (float[2] s, float[5, 2] x) => (float[2] t, float[5, 2] y) { t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] b)'
                 ' => (float[2] c, float[2] d) { c = Add(a, b) d = Identity(c) }> (s, x) }'),
    "scan8": (8, 'g (float[B, 2] s, float[B, 5, 2] x) => (float[B, 2] t, float[B, 5, 2] y) { t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] b)'
                 ' => (float[2] c, float[2] d) { c = Add(a, b) d = Identity(c) }> ( , s, x) }'),
    "function": (20, 'g (float[2] x) => (float[2] y) { a = my.twice <alpha = 0.5> (x) y = my.outer(a) }'
                     ' <domain: "my", opset_import: ["" : 20]> twice <alpha: float = 0.25> (u) => (v) { t = LeakyRelu <alpha: float = @alpha> (u) v = Add(t, t) }'
                     ' <domain: "my", opset_import: ["" : 20, "my" : 1]> outer (u) => (v) { w = my.twice(u) v = Neg(w) }'),
    "old7": (7, 'g (float[1, 2, 4, 4] x) => (float[1, 16] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}>'
                ' { n = BatchNormalization(x, s, b, m, v) u = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (n) d = Dropout <ratio = 0.3> (u)'
                ' p = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 1.0> (d) l = Slice <starts = [0], ends = [1], axes = [1]> (p) q = Squeeze <axes = [1]> (l)'
                ' a, i = TopK <k = 2, axis = 1> (q) t = Clip <min = 0.0, max = 1.0> (a) r = ReduceSum <axes = [1], keepdims = 0> (t) h = Unsqueeze <axes = [1]> (r)'
                ' f = Softmax <axis = 1> (h) w = Split <axis = 2> (f) y = Flatten(w) }'),
    "old11": (11, 'g (float[1, 2, 4, 4] x, float[1, 2, 4, 4] z) => (float[1, 2, 8, 8] y) <float[4] sc = {1, 1, 2, 2}, float[0] roi>'
                  ' { a = Softmax <axis = 1> (x) y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (a, roi, sc) }'),
    "microsoft": (20, 'g (float16[2, 8, 4] x, float16[2, 8, 4] s, float16[4] w, float16[16, 4] m) => (float16[2, 8, 16] y)'
                      ' { n, mean, var, sum = com.microsoft.SkipLayerNormalization(x, s, w) k = com.microsoft.FastGelu(sum) y = com.microsoft.FusedMatMul <transB = 1> (k, m) }'),
    "quantized": (20, 'g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float sc = {0.1}, uint8 z = {128}, int8[2, 2, 1, 1] w = {1, 2, 3, 4}, float ws = {0.2}, int8 wz = {0}>'
                      ' { q = QuantizeLinear(x, sc, z) d = DequantizeLinear(q, sc, z) wd = DequantizeLinear(w, ws, wz) y = Conv(d, wd) }'),
    "qlinear": (20, 'g (uint8[1, 2, 4, 4] x, float sc, uint8 z) => (uint8[1, 2, 1, 1] y) { a = com.microsoft.QLinearAdd(x, sc, z, x, sc, z, sc, z)'
                    ' c = com.microsoft.QLinearConcat <axis = 1> (sc, z, a, sc, z, x, sc, z) y = com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (c, sc, z, sc, z) }'),
    "detection": (16, 'g (float[1, N, 4] boxes, float[1, C, N] scores) => (int64[K, 3] y) <int64[1] m = {10}, float[1] t = {0.5}>'
                      ' { s = NonMaxSuppression(boxes, scores, m, t) z = NonZero(s) y = Cast <to = 7> (s) }'),
    "recurrent": (14, 'g (float[5, 1, 2] x, float[1, 12, 2] w, float[1, 12, 3] r) => (float[5, 1, 1, 3] y) { y = LSTM <hidden_size = 3> (x, w, r) }'),
    "einsum": (20, 'g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { e = Einsum <equation = "ij,jk->ik"> (x, w) r = Range(a, b, c) t = Tile(e, k) y = Expand(t, k)'
                   ' a = Constant <value_int = 0> () b = Constant <value_int = 3> () c = Constant <value_int = 1> () k = Constant <value_ints = [1, 1]> () }'),
    "strings": (20, 'g (string[2] x) => (string[2] y) { y = Identity(x) }'),
    "ml": (20, 'g (float[2, 3] x) => (float[2, 3] y) { y = ai.onnx.ml.Normalizer <norm = "L2"> (x) }'),
    "newest": (28, 'g (float[2, 4, 8] x, float[8] w) => (float[2, 4, 8] y) { n = RMSNormalization(x, w) y = Swish(n) }'),
    "attention": (24, 'g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v) => (float[1, 2, 4, 8] y) { y = Attention <is_causal = 1> (q, k, v) }'),
    "sequence": (20, 'g (float[2] x) => (float[2] y) { s = SequenceConstruct(x, x) i = Constant <value_int = 0> () y = SequenceAt(s, i) }'),
    "types": (20, 'g (float16[2] x, bfloat16[2] b, double[2] d) => (float[2] y) { f = Cast <to = 1> (x) h = Cast <to = 1> (b) e = Cast <to = 1> (d) i = Add(f, h) y = Add(i, e) }'),
}


def give_values(model):
    """A value that the text declares without a value and that no node gives becomes a weight."""
    made = {o for n in model.graph.node for o in n.output}
    for v in list(model.graph.value_info):
        if v.name not in made:
            t = v.type.tensor_type
            dims = [d.dim_value for d in t.shape.dim]
            model.graph.initializer.append(helper.make_tensor(v.name, t.elem_type, dims, [0.5] * math.prod(dims)))
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


def main(folder):
    os.makedirs(folder, exist_ok=True)
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
            big = model.graph.initializer.add(name="weights", data_type=TensorProto.FLOAT, dims=[64, 64], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.data"), ("offset", "4096"), ("length", "16384")):
                big.external_data.add(key=key, value=value)
        if name == "shapes":
            values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
            indices = helper.make_tensor("", TensorProto.INT64, [2, 2], [0, 1, 1, 2])
            model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
        with open(os.path.join(folder, name), "wb") as f:
            f.write(model.SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
