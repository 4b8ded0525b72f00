"""Seeds of the fuzzer in ONNX's text format, for make_corpus.py. A value that is declared and that no node gives is a weight."""
# name: (opset, graph and functions)
GRAPHS = {
    "conv": (20, """
        g (float[N, 3, 8, 8] x) => (float[N, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}>
        { c = Conv <pads = [0, 0, 0, 0]> (x, w, b) r = Relu(c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
          s = Constant <value = float[4] {1, 1, 2, 2}> () y = Resize <mode = "nearest"> (p, , s) }"""),
    "transformer": (20, """
        g (float[B, S, 8] x, int64[B, S] ids) => (float[B, S, 8] y) <float[8] g = {1, 1, 1, 1, 1, 1, 1, 1}, float[8, 8] w,
            float[10, 8] table>
        { e = Gather(table, ids) n = LayerNormalization <axis = -1> (x, g) q = MatMul(n, w)
          k = Transpose <perm = [0, 2, 1]> (q) a = MatMul(q, k) m = Softmax <axis = -1> (a) v = MatMul(m, n)
          h = Gelu <approximate = "tanh"> (v) z = Add(h, e) y = Add(z, x) }"""),
    "shapes": (18, """
        g (float[N, 4, C] x) => (float[M, K] y) <int64[1] one = {1}, int64[1] minus = {-1}, int64 zero = {0}>
        { s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, one0) c = Concat <axis = 0> (u, minus) y = Reshape(x, c)
          one0 = Identity(zero) }"""),
    "reduce": (18, """
        g (float[2, 3, 4] x) => (float[2, 3, 1] y, int64[2, 3, 1] i) <int64[1] axes = {-1}>
        { y = ReduceMean(x, axes) i = ArgMax <axis = -1> (x) }"""),
    "split": (18, """
        g (float[2, 6] x) => (float[2, 3] y) <int64[2] s = {3, 3}>
        { a, b = Split <axis = 1> (x, s) c, d = Split <axis = 1, num_outputs = 2> (x) e = Add(a, b) f = Mul(c, d)
          y = Where(t, e, f) t = Less(e, f) }"""),
    "if": (20, """
        g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}>
        { y = If(c) <then_branch = t () => (float[2] p) { p = Add(x, w) }, else_branch = e () => (float[2] q) { q = Sub(w, x)
          }> }"""),
    "loop": (20, """
        g (int64 m, bool c, float[2] x, float[2] k) => (float[2] y, float[T, 2] z)
        { y, z = Loop(m, c, x) <body = b (int64 i, bool c0, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c0)
          t = Add(s, k) u = Mul(t, t) }> }"""),
    "scan": (20, """
        g (float[2] s, float[5, 2] x) => (float[2] t, float[5, 2] y)
        { t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] b) => (float[2] c, float[2] d) { c = Add(a, b)
          d = Identity(c) }> (s, x) }"""),
    "scan8": (8, """
        g (float[B, 2] s, float[B, 5, 2] x) => (float[B, 2] t, float[B, 5, 2] y)
        { t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] b) => (float[2] c, float[2] d) { c = Add(a, b)
          d = Identity(c) }> ( , s, x) }"""),
    "function": (20, """
        g (float[2] x) => (float[2] y)
        { a = my.twice <alpha = 0.5> (x) y = my.outer(a) }
        <domain: "my", opset_import: ["" : 20]> twice <alpha: float = 0.25> (u) => (v)
        { t = LeakyRelu <alpha: float = @alpha> (u) v = Add(t, t) }
        <domain: "my", opset_import: ["" : 20, "my" : 1]> outer (u) => (v) { w = my.twice(u) v = Neg(w) }"""),
    "old7": (7, """
        g (float[1, 2, 4, 4] x) => (float[1, 10] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0},
            float[2] v = {1, 1}>
        { n = BatchNormalization(x, s, b, m, v) u = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (n)
          d = Dropout <ratio = 0.3> (u) p = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 1.0> (d)
          l = Slice <starts = [0], ends = [1], axes = [1]> (p) q = Squeeze <axes = [1]> (l) a, i = TopK <k = 2, axis = 1> (q)
          t = Clip <min = 0.0, max = 1.0> (a) r = ReduceSum <axes = [1], keepdims = 0> (t) h = Unsqueeze <axes = [1]> (r)
          f = Softmax <axis = 1> (h) w = Split <axis = 2> (f) y = Flatten(w) }"""),
    "old11": (11, """
        g (float[1, 2, 4, 4] x, float[1, 2, 4, 4] z) => (float[1, 2, 8, 8] y) <float[4] sc = {1, 1, 2, 2}, float[0] roi>
        { a = Softmax <axis = 1> (x)
          y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (a, roi, sc) }"""),
    "microsoft": (20, """
        g (float16[2, 8, 4] x, float16[2, 8, 4] s, float16[4] w, float16[16, 4] m) => (float16[2, 8, 16] y)
        { n, mean, var, sum = com.microsoft.SkipLayerNormalization(x, s, w) k = com.microsoft.FastGelu(sum)
          y = com.microsoft.FusedMatMul <transB = 1> (k, m) }"""),
    "quantized": (20, """
        g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float sc = {0.1}, uint8 z = {128},
            int8[2, 2, 1, 1] w = {1, 2, 3, 4}, float ws = {0.2}, int8 wz = {0}>
        { q = QuantizeLinear(x, sc, z) d = DequantizeLinear(q, sc, z) wd = DequantizeLinear(w, ws, wz) y = Conv(d, wd) }"""),
    "qlinear": (20, """
        g (uint8[1, 2, 4, 4] x, float sc, uint8 z) => (uint8[1, 2, 1, 1] y)
        { a = com.microsoft.QLinearAdd(x, sc, z, x, sc, z, sc, z)
          c = com.microsoft.QLinearConcat <axis = 1> (sc, z, a, sc, z, x, sc, z)
          y = com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (c, sc, z, sc, z) }"""),
    "detection": (16, """
        g (float[1, N, 4] boxes, float[1, C, N] scores) => (int64[K, 3] y) <int64[1] m = {10}, float[1] t = {0.5}>
        { s = NonMaxSuppression(boxes, scores, m, t) z = NonZero(s) y = Cast <to = 7> (s) }"""),
    "recurrent": (14, """
        g (float[5, 1, 2] x, float[1, 12, 2] w, float[1, 12, 3] r) => (float[5, 1, 1, 3] y)
        { y = LSTM <hidden_size = 3> (x, w, r) }"""),
    "einsum": (20, """
        g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y)
        { e = Einsum <equation = "ij,jk->ik"> (x, w) r = Range(a, b, c) t = Tile(e, k) y = Expand(t, k)
          a = Constant <value_int = 0> () b = Constant <value_int = 3> () c = Constant <value_int = 1> ()
          k = Constant <value_ints = [1, 1]> () }"""),
    "strings": (20, """
        g (string[2] x) => (string[2] y)
        { y = Identity(x) }"""),
    "ml": (20, """
        g (float[2, 3] x) => (float[2, 3] y)
        { y = ai.onnx.ml.Normalizer <norm = "L2"> (x) }"""),
    "newest": (28, """
        g (float[2, 4, 8] x, float[8] w) => (float[2, 4, 8] y)
        { n = RMSNormalization(x, w) y = Swish(n) }"""),
    "attention": (24, """
        g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v) => (float[1, 2, 4, 8] y)
        { y = Attention <is_causal = 1> (q, k, v) }"""),
    "sequence": (20, """
        g (float[2] x) => (float[2] y)
        { s = SequenceConstruct(x, x) i = Constant <value_int = 0> () y = SequenceAt(s, i) }"""),
    "types": (20, """
        g (float16[2] x, bfloat16[2] b, double[2] d) => (float[2] y)
        { f = Cast <to = 1> (x) h = Cast <to = 1> (b) e = Cast <to = 1> (d) i = Add(f, h) y = Add(i, e) }"""),
    # What the rewrites look for; weights are filled in below.
    "gelu": (20, """
        g (float[B, 4, 8] x) => (float[B, 4, 8] y, float[B, 4, 8] t) <float[8] b, float r = {1.41421354}, float one = {1},
            float half = {0.5}, float c = {0.044715}, float k = {0.7978846}, float three = {3}>
        { h = Add(x, b) d = Div(h, r) e = Erf(d) p = Add(e, one) m = Mul(h, p) y = Mul(m, half) h3 = Pow(x, three)
          hc = Mul(h3, c) hs = Add(x, hc) hk = Mul(hs, k) th = Tanh(hk) tp = Add(th, one) tm = Mul(x, tp) t = Mul(tm, half) }"""),
    "silu": (20, """
        g (float[2, 4] x) => (float[2, 4] y, float[2, 4] z) <float three = {3}, float six = {6}, float zero = {0}>
        { s = Sigmoid(x) y = Mul(x, s) a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) z = Div(m, six) }"""),
    "rms_norm": (20, """
        g (float[2, 4, 8] x, float[2, 4, 8] res) => (float[2, 4, 8] y, float[2, 4, 8] h) <float[8] w, float two = {2},
            float eps = {1e-5}, int64[1] last = {-1}>
        { h = Add(x, res) q = Pow(h, two) m = ReduceMean(q, last) e = Add(m, eps) s = Sqrt(e) r = Reciprocal(s) n = Mul(h, r)
          y = Mul(n, w) }"""),
    "rms_norm_16": (20, """
        g (float16[2, 8] x) => (float16[2, 8] y) <float16[8] w, float eps = {1e-5}, int64[1] last = {-1}>
        { f = Cast <to = 1> (x) q = Mul(f, f) m = ReduceMean(q, last) e = Add(m, eps) s = Sqrt(e) n = Div(f, s)
          c = Cast <to = 10> (n) y = Mul(c, w) }"""),
    "layer_norm": (20, """
        g (float[2, 4, 8] x, float[2, 1, 8] scale, float[2, 1, 8] shift) => (float[2, 4, 8] y) <float[8] w, float[8] b,
            float two = {2}, float one = {1}, float eps = {1e-5}, int64[1] last = {-1}>
        { m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, last) e = Add(v, eps) s = Sqrt(e)
          n = Div(d, s) g = Mul(n, w) a = Add(g, b) u = Add(scale, one) k = Mul(a, u) y = Add(k, shift) }"""),
    "group_norm": (20, """
        g (float[1, 4, 4, 4] x) => (float[1, 4, 4, 4] y) <int64[3] groups = {0, 2, -1}, int64[4] back = {1, 4, 4, 4},
            float[2] w, float[2] b, float[4, 1, 1] s, float[4, 1, 1] o>
        { r = Reshape(x, groups) n = InstanceNormalization(r, w, b) h = Reshape(n, back) m = Mul(h, s) a = Add(m, o)
          i = Sigmoid(a) y = Mul(a, i) }"""),
    "attend": (20, """
        g (float[2, 4, 8] x, bool[1, 1, 4, 4] keep) => (float[2, 4, 8] y) <float[8, 8] wq, float[8, 8] wk, float[8, 8] wv,
            float[8, 8] wo, float[8] bq, int64[4] heads = {0, 0, 2, 4}, int64[3] joined = {0, 0, 8}, float scale = {0.5},
            float low = {-10000}, float zero = {0}>
        { mq = MatMul(x, wq) aq = Add(mq, bq) rq = Reshape(aq, heads) q = Transpose <perm = [0, 2, 1, 3]> (rq)
          mk = MatMul(x, wk) rk = Reshape(mk, heads) k = Transpose <perm = [0, 2, 3, 1]> (rk) mv = MatMul(x, wv)
          rv = Reshape(mv, heads) v = Transpose <perm = [0, 2, 1, 3]> (rv) a = MatMul(q, k) s = Mul(a, scale)
          bias = Where(keep, zero, low) m = Add(s, bias) p = Softmax <axis = -1> (m) nan = IsNaN(p) g = Where(nan, zero, p)
          o = MatMul(g, v) t = Transpose <perm = [0, 2, 1, 3]> (o) j = Reshape(t, joined) w = MatMul(j, wo) y = Add(w, x) }"""),
    "grouped_heads": (20, """
        g (float[1, 4, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v) => (float[1, 4, 4, 8] y)
            <int64[5] rep = {1, 2, 2, 4, 8}, int64[4] all = {1, 4, 4, 8}, int64[1] two = {2}, float scale = {0.35}>
        { k5 = Unsqueeze(k, two) ke = Expand(k5, rep) kr = Reshape(ke, all) v5 = Unsqueeze(v, two) ve = Expand(v5, rep)
          vr = Reshape(ve, all) kt = Transpose <perm = [0, 1, 3, 2]> (kr) a = MatMul(q, kt) s = Mul(a, scale)
          p = Softmax <axis = -1> (s) y = MatMul(p, vr) }"""),
    "rotary": (20, """
        g (float[1, 2, 4, 8] x, float[1, 1, 4, 8] c, float[1, 1, 4, 8] s) => (float[1, 2, 4, 8] y) <int64[1] zero = {0},
            int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {3}>
        { a = Mul(x, c) l = Slice(x, zero, half, last) h = Slice(x, half, end, last) n = Neg(h) r = Concat <axis = -1> (n, l)
          b = Mul(r, s) y = Add(a, b) }"""),
    "swiglu": (20, """
        g (float[2, 4, 8] x) => (float[2, 4, 8] y) <float[8, 12] w1, float[8, 12] w3, float[12, 8] w2>
        { a = MatMul(x, w1) s = Sigmoid(a) g = Mul(a, s) b = MatMul(x, w3) m = Mul(g, b) o = MatMul(m, w2) y = Add(x, o) }"""),
    "gemm": (20, """
        g (float[4, 8] x, float[4, 6] r) => (float[4, 6] y, float[4, 6] z) <float[6, 8] w, float[6] b, float[8, 6] v,
            float[1, 6] c>
        { p = Gemm <transB = 1> (x, w, b) q = Relu(p) y = Add(q, r) m = MatMul(x, v) n = Add(m, c) z = Tanh(n) }"""),
    "residual": (20, """
        g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y) <float[4, 4, 3, 3] w, float[4] s, float[4] b, float[4] m, float[4] v,
            int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[1, 4, 1, 1] k>
        { p = Pad(x, pads) c = Conv(p, w) n = BatchNormalization(c, s, b, m, v) r = Relu(n)
          d = Conv <pads = [1, 1, 1, 1]> (r, w) e = Add(d, k) a = Add(e, x) y = Relu(a) }"""),
    "concat": (20, """
        g (float[1, 4, 6, 6] x, float[1, 2, 3, 3] low) => (float[1, 3, 6, 6] y) <float[4, 4, 1, 1] w1, float[2, 4, 3, 3] w2,
            float[3, 8, 3, 3] w3, float[4] sc = {1, 1, 2, 2}>
        { a = Conv(x, w1) b = Relu(a) c = Conv <pads = [1, 1, 1, 1]> (b, w2) u = Resize <mode = "nearest",
          coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (low, , sc) j = Concat <axis = 1> (b, c, u)
          d = Conv <pads = [1, 1, 1, 1]> (j, w3) y = LeakyRelu(d) }"""),
    "qdq": (20, """
        g (float[1, 3, 4, 4] x) => (float[1, 4, 2, 2] y) <float sx = {0.1}, uint8 zx = {120}, int8[4, 3, 3, 3] w, float[4] sw,
            int8[4] zw, int32[4] b, float[4] sb, int32[4] zb, float sy = {0.2}, uint8 zy = {3}>
        { qx = QuantizeLinear(x, sx, zx) dx = DequantizeLinear(qx, sx, zx) dw = DequantizeLinear <axis = 0> (w, sw, zw)
          db = DequantizeLinear <axis = 0> (b, sb, zb) c = Conv <pads = [1, 1, 1, 1]> (dx, dw, db) r = Relu(c)
          q = QuantizeLinear(r, sy, zy) d = DequantizeLinear(q, sy, zy)
          p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d) q2 = QuantizeLinear(p, sy, zy)
          y = DequantizeLinear(q2, sy, zy) }"""),
    "qdq_matmul": (20, """
        g (float[2, 8] x) => (float[2, 4] y) <float sx = {0.1}, uint8 zx = {120}, int8[8, 4] w, float sw = {0.05},
            int8 zw = {0}, float[4] b, float sy = {0.2}, uint8 zy = {3}>
        { qx = QuantizeLinear(x, sx, zx) dx = DequantizeLinear(qx, sx, zx) dw = DequantizeLinear(w, sw, zw) m = MatMul(dx, dw)
          a = Add(m, b) q = QuantizeLinear(a, sy, zy) y = DequantizeLinear(q, sy, zy) }"""),
    "qoperators": (20, """
        g (uint8[1, 3, 4, 4] x) => (uint8[1, 4, 4, 4] y) <float s = {0.1}, uint8 z = {120}, int8[4, 3, 1, 1] w, int8 zw = {0},
            int32[4] b>
        { c = QLinearConv(x, s, z, w, s, zw, s, z, b) y = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (c, s, z, s, z) }"""),
    "pointwise": (20, """
        g (float[2, 4, 8] x, float[8] a, float[4, 1] b) => (float[2, 4, 8] y, float[2, 4] z) <float half = {0.5},
            int64[1] last = {-1}>
        { m = Mul(x, a) n = Add(m, b) t = Tanh(n) e = Exp(t) y = Mul(e, half) r = ReduceSum <keepdims = 0> (y, last)
          z = Neg(r) }"""),
    "moves": (20, """
        g (float[2, 3, 4] x) => (float[4, 3, 2] y, float16[24] z) <int64[2] s = {6, 4}, int64[1] flat = {-1},
            int64[1] zero = {0}>
        { a = Transpose <perm = [1, 0, 2]> (x) b = Transpose <perm = [2, 0, 1]> (a) y = Identity(b) r = Reshape(x, s)
          q = Reshape(r, flat) u = Unsqueeze(q, zero) v = Squeeze(u, zero) c = Cast <to = 11> (v) d = Cast <to = 1> (c)
          z = Cast <to = 10> (d) }"""),
    "sizes": (20, """
        g (float[B, S, 8] x) => (float[B, 2, S, 4] y, float[1, 1, S, S] mask) <int64 one = {1}, int64 zero = {0},
            int64[1] z1 = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[2] ax = {0, 1}, float big = {-1e9},
            float none = {0}>
        { s = Shape(x) b = Gather(s, zero) n = Gather(s, one) b1 = Unsqueeze(b, z1) n1 = Unsqueeze(n, z1)
          t = Concat <axis = 0> (b1, n1, two, four) r = Reshape(x, t) y = Transpose <perm = [0, 2, 1, 3]> (r)
          i = Range(zero, n, one) row = Unsqueeze(i, z1) u = Unsqueeze(i, one1) c = Greater(row, u) w = Where(c, big, none)
          mask = Unsqueeze(w, ax) one1 = Constant <value_ints = [1]> () }"""),
    # Old operators, those of com.microsoft, and element types that nothing above has.
    "old6": (6, """
        g (float[2, 3, 4, 4] x, float[3] k) => (float[2, 48] y) <int64[2] s = {2, 48}>
        { d = Dropout <is_test = 1, ratio = 0.5> (x) a = Add <axis = 1, broadcast = 1> (d, k) m = Mul <broadcast = 1> (a, a)
          p = PRelu(m, k) n = BatchNormalization <is_test = 1> (p, k, k, k, k) r = Reshape(n, s) y = Sub(r, r) }"""),
    "old15": (15, """
        g (float[1, 2, 8, 8] x, float[3, 4] rois, int64[3] batch) => (float[3, 2, 2, 2] y, float[1, 2] z)
        { y = RoiAlign <output_height = 2, output_width = 2> (x, rois, batch) m = ReduceMax <axes = [2, 3], keepdims = 0> (x)
          t = HardSwish(m) z = BatchNormalization(t, s, s, s, s) s = Constant <value = float[2] {1, 2}> () }"""),
    "old17": (17, """
        g (float[1, 2, 8, 8] x, float[1, 4, 4, 2] grid) => (float[1, 2, 1, 1] y, float[1, 2, 4, 4] c)
        { s = GridSample <mode = "bicubic", align_corners = 1> (x, grid) c = Pad <mode = "reflect"> (s, p)
          y = ReduceMean <axes = [2, 3]> (c) p = Constant <value = int64[8] {0, 0, 0, 0, 0, 0, 0, 0}> () }"""),
    "contributed": (20, """
        g (float[4, 8] x, float[8] b) => (float[4, 6] y, float[4, 6] z, float[4, 8] u, uint8[4, 8] q, float[4, 8] d)
          <float[6, 8] w, float[6] c, float s = {0.1}, uint8 zp = {12}, uint8[8, 6] qw, float[6] ws>
        { y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, c) u = com.microsoft.BiasGelu(x, b)
          q = com.microsoft.QuantizeLinear(x, s, zp) d = com.microsoft.DequantizeLinear(q, s, zp)
          z = com.microsoft.DynamicQuantizeMatMul(x, qw, ws) }"""),
    "contributed_integer": (20, """
        g (uint8[4, 8] x, uint8[1, 2, 6, 6] p) => (float[4, 6] y, uint8[4, 6] z, uint8[1, 2, 3, 3] a, float[4, 6] f)
          <float s = {0.1}, uint8 zp = {12}, uint8[8, 6] w, int32[6] c>
        { y = com.microsoft.MatMulIntegerToFloat(x, w, s, s, zp, zp) z = com.microsoft.QGemm(x, s, zp, w, s, zp, c, s, zp)
          a = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], strides = [2, 2]> (p, s, zp, s, zp)
          f = com.microsoft.QGemm(x, s, zp, w, s, zp, c) }"""),
    "casts": (24, """
        g (float[4] x) => (float[4] y, string[3] t, double[2] v, bool[4] i)
          <float8e4m3fn[4] e, float8e5m2[4] m, int4[4] n, uint4[4] u, float[3] f, uint64[2] big = {1, 18446744073709551615},
            double[2] d = {1, 0.5}, uint32[4] shift>
        { ef = Cast <to = 1> (e) mf = Cast <to = 1> (m) nf = Cast <to = 1> (n) uf = Cast <to = 1> (u) a = Add(ef, mf)
          b = Add(nf, uf) c = Add(a, b) y = Add(c, x) t = Cast <to = 8> (f) w = Cast <to = 1> (t) g = Cast <to = 11> (big)
          v = Add(g, d) i = IsInf <detect_negative = 0> (y) h = BitShift <direction = "LEFT"> (shift, shift)
          k = Cast <to = 17> (x) l = Cast <to = 6> (k) o = CastLike(l, w) }"""),
    "shapes_of_inputs": (20, """
        g (float[N, S, 8] x, float[N, S, 8] z) => (float[N, S, 8] y, float[K, L, 8] e)
          <int64[1] zero = {0}, int64[1] two = {2}, int64[1] eight = {8}, float[1] v = {2}>
        { s = Shape(z) y = Reshape(x, s) f = Shape <end = 2> (x) t = Concat <axis = 0> (f, eight) e = Expand(one, t)
          one = ConstantOfShape <value = float[1] {2}> (eight) q = Slice(s, zero, two) r = Size(x) }"""),
    "upsample_concat": (20, """
        g (float[1, 4, 6, 6] x, float[1, 2, 3, 3] low) => (float[1, 3, 6, 6] y)
          <float[3, 6, 3, 3] w, float[4] sc = {1, 1, 2, 2}, float[3] s, float[3] b, float[3] m, float[3] v>
        { u = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (low, , sc)
          j = Concat <axis = 1> (x, u) d = Conv <pads = [1, 1, 1, 1]> (j, w) n = BatchNormalization(d, s, b, m, v)
          y = Relu(n) }"""),
    # What the fuzzer had not come to by itself in some million runs (scripts/fuzz_lines.sh names such lines).
    "pads_of_some_axes": (18, """
        g (float[1, 4, 6, 6] x, float[1, 4, 6, 6] big) => (float[1, 4, 6, 6] y, float[A, B, C, D] z) <float[4, 4, 3, 3] w,
            int64[4] pads = {1, 1, 1, 1}, int64[2] axes = {2, -1}, int64[8] huge = {0, 0, 9223372036854775807, 0, 0, 0, 0, 0}>
        { p = Pad(x, pads, , axes) y = Conv(p, w) q = Pad(big, huge) z = Conv <pads = [1, 1, 1, 1]> (q, w) }"""),
    "resize_to_sizes": (20, """
        g (float[1, 2, 3, 3] low, float[1, 2, 6, 6] x) => (float[1, 3, 6, 6] y, float[1, 3, 6, 6] z) <float[3, 4, 3, 3] w,
            int64[4] sizes = {1, 2, 6, 6}, float[6, 2, 1, 1] group>
        { u = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (low, , , sizes)
          a = Relu(x) j = Concat <axis = 1> (a, u) y = Conv <pads = [1, 1, 1, 1]> (j, w) k = Concat <axis = 1> (u, a)
          v = Conv <group = 2> (k, group) t = Slice(v, b, e, c) z = Relu(t) b = Constant <value_ints = [0]> ()
          e = Constant <value_ints = [3]> () c = Constant <value_ints = [1]> () }"""),
    "long_epilogue": (20, """
        g (float[4, 8] x, float[4, 6] a, float[4, 6] b, float[4, 6] c, float[4, 6] d, float[4, 6] e, float[4, 6] f, float[4, 6] h,
           float[4, 6] i, float[4, 6] j, float[4, 6] k) => (float[4, 6] y) <float[8, 6] w>
        { m = MatMul(x, w) m1 = Add(m, a) m2 = Mul(m1, b) m3 = Add(m2, c) m4 = Mul(m3, d) m5 = Add(m4, e) m6 = Mul(m5, f)
          m7 = Add(m6, h) m8 = Mul(m7, i) m9 = Add(m8, j) y = Mul(m9, k) }"""),
    "large_constants": (20, """
        g (float[1024] x) => (float[1024, 1024] y, float[K] z) <int64[2] s = {1024, 1024}, int64[1] n = {33554432},
            float one = {1}>
        { c = ConstantOfShape <value = float[1] {2}> (s) m = MatMul(c, c) y = Add(m, x) b = ConstantOfShape <value = int8[1] {2}> (n)
          z = DequantizeLinear(b, one) }"""),
    "double_norm": (20, """
        g (double[2, 8] x) => (double[2, 8] y) <double[8] w, double eps = {0.000010000000000001}, int64[1] last = {-1}>
        { q = Mul(x, x) m = ReduceMean(q, last) e = Add(m, eps) s = Sqrt(e) n = Div(x, s) y = Mul(n, w) }"""),
    "bits": (20, """
        g (uint32[4, 2] x, uint32[4, 2] k, float[4, 2] f) => (uint32[4, 2] y, bool[4, 2] i)
        { l = BitShift <direction = "LEFT"> (x, k) r = BitShift <direction = "RIGHT"> (l, k) a = BitwiseAnd(r, x)
          o = BitwiseOr(a, k) n = BitwiseNot(o) y = BitwiseXor(n, x) e = Exp(f) j = IsInf <detect_negative = 0,
          detect_positive = 0> (e) i = Not(j) }"""),
    "probabilities_out": (20, """
        g (float[1, 2, 4, 8] q, float[1, 2, 8, 4] k) => (float[1, 2, 4, 4] p) <float s = {0.5}>
        { a = MatMul(q, k) m = Mul(a, s) p = Softmax <axis = -1> (m) }"""),
    "probabilities_cast_and_cast": (20, """
        g (float[1, 2, 4, 8] q, float[1, 2, 8, 4] k, bfloat16[1, 2, 4, 8] v) => (bfloat16[1, 2, 4, 8] y) <float s = {0.5}>
        { a = MatMul(q, k) m = Mul(a, s) p = Softmax <axis = -1> (m) h = Cast <to = 10> (p) b = Cast <to = 16> (h)
          c = Cast <to = 10> (b) d = Cast <to = 16> (c) y = MatMul(d, v) }"""),
    "mask_of_4_bits": (24, """
        g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v, uint4[4, 4] m) => (float[1, 2, 4, 8] y)
        { y = Attention(q, k, v, m) }"""),
    "half_a_cache": (24, """
        g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v, float[1, 2, 3, 8] past) => (float[1, 2, 4, 8] y)
        { y = Attention(q, k, v, , past) }"""),
    "paired_heads": (20, """
        g (float[1, 2, 4, 8] x, float[1, 1, 4, 4] c, float[1, 1, 4, 4] s) => (float[1, 2, 4, 8] y) <int64[5] pairs = {1, 2, 4, 4, 2},
            int64[4] flat = {1, 2, 4, 8}, int64 zero = {0}, int64 one = {1}, int64[1] last = {3}, int64[2] two = {1, 1}>
        { r = Reshape(x, pairs) a, b = Split <axis = -1> (r, two) sa = Squeeze(a, end) sb = Squeeze(b, end) ac = Mul(sa, c)
          bs = Mul(sb, s) as = Mul(sa, s) bc = Mul(sb, c) f = Sub(ac, bs) h = Add(as, bc) u = Unsqueeze(f, last)
          v = Unsqueeze(h, last) j = Concat <axis = 3> (u, v) y = Reshape(j, flat) end = Constant <value_ints = [-1]> () }"""),
    "pairs_of_another_axis": (20, """
        g (float[2, 4, 3, 8] x, float[3, 4] c, float[3, 4] s) => (float[2, 4, 3, 8] y) <int64[4] flat = {2, 4, 3, 8},
            int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] end = {8}>
        { a = Slice(x, zero, end, three, two) b = Slice(x, one, end, three, two) ac = Mul(a, c) bs = Mul(b, s) as = Mul(a, s)
          bc = Mul(b, c) f = Sub(ac, bs) h = Add(as, bc) u = Unsqueeze(f, two) v = Unsqueeze(h, two)
          j = Concat <axis = -1> (u, v) y = Reshape(j, flat) }"""),
    "concat_of_an_upsampled_concat": (20, """
        g (float[1, 2, 3, 3] a, float[1, 2, 3, 3] b, float[1, 2, 6, 6] x) => (float[1, 3, 6, 6] y) <float[3, 6, 3, 3] w,
            float[4] sc = {1, 1, 2, 2}>
        { c = Concat <axis = 1> (a, b) u = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
          nearest_mode = "floor"> (c, , sc) j = Concat <axis = 1> (u, x) y = Conv <pads = [1, 1, 1, 1]> (j, w) }"""),
    "upsampled_to_sizes_not_known": (20, """
        g (float[N, 2, 3, 3] low, float[N, 2, 6, 6] x, float[1, 2, 3, 3] one, int64[4] sizes)
          => (float[A, B, C, D] y, float[E, F, G, H] z)
            <float[3, 4, 3, 3] w, int64[4] known = {2, 2, 6, 6}, float[1, 2, 6, 6] v>
        { u = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (low, , , known)
          j = Concat <axis = 1> (u, x) y = Conv <pads = [1, 1, 1, 1]> (j, w) v = Resize <mode = "nearest",
          coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (one, , , sizes) k = Concat <axis = 1> (v, v)
          z = Conv <pads = [1, 1, 1, 1]> (k, w) }"""),
    "padding_of_anything": (20, """
        g (float16[1, 1, 16] x, float16[1, 1, 3] w, float16[1, 1, 9] z, float16[1, 1, 3000000000] v)
          => (float16[A, B, C] y, float16[D, E, F] u)
        { y = Conv <auto_pad = "SAME_UPPER", strides = [2]> (x, w) u = Conv <auto_pad = "SAME_LOWER"> (z, v) }"""),
    "large_dequantized": (20, """
        g (float[24000000] x) => (float[24000000] y) <int64[1] n = {8000000}, float one = {1}>
        { a = ConstantOfShape <value = int8[1] {2}> (n) b = Concat <axis = 0> (a, a, a) z = DequantizeLinear(b, one)
          y = Add(x, z) }"""),
    "two_tensors_behind_bytes": (20, """
        g (uint8[1, 2, 4, 4] x, uint8[1, 3, 4, 4] p, uint8[1, 3, 4, 4] q) => (uint8[1, 3, 4, 4] y) <float s = {0.5}, uint8 z = {3},
            int8[3, 2, 1, 1] w, int8 wz = {0}>
        { c = QLinearConv(x, s, z, w, s, wz, s, z) d = DequantizeLinear(c, s, z) e = DequantizeLinear(p, s, z)
          f = DequantizeLinear(q, s, z) g1 = Add(d, e) h = Add(g1, f) y = QuantizeLinear(h, s, z) }"""),
    "long_way_to_the_product": (20, """
        g (float[2, 8] x, float[2, 8] r) => (float[2, 8] y) <float[8] w, float[8, 8] m>
        { a = MatMul(x, m) b = Tanh(a) c = Sin(b) d = Cos(c) e = Sqrt(d) f = Abs(e) g1 = Neg(f) h = Erf(g1) i = Exp(h)
          j = Floor(i) k = Ceil(j) l = Add(k, r) y = LayerNormalization(l, w) }"""),
    "infinite_zero_point": (20, """
        g (float8e5m2[2, 8] x) => (float[2, 8] y) <float[8, 8] m>
        { s = Constant <value = float {0.5}> () n = Constant <value = float {-1e30}> () t = CastLike <saturate = 0> (n, x)
          d = DequantizeLinear(x, s, t) y = MatMul(d, m) }"""),
    "greatest_of_one": (20, """
        g (float[2, 8] x) => (float[2, 8] y) { a = Max(x) b = Sum(a) c = Mean(b) d = Min(c) y = Exp(d) }"""),
    "scale_of_a_group": (18, """
        g (float[2, 4, 3, 3] x, float[2] s, float[2] b) => (float[2, 4, 3, 3] y)
        { y = GroupNormalization <num_groups = 2> (x, s, b) }"""),
    "scale_of_unknown_groups": (18, """
        g (float[N, C, H] x, float[2] s, float[2] b) => (float[N, C, H] y) { y = GroupNormalization <num_groups = 2> (x, s, b) }"""),
    "smaller_10": (10, """
        g (float[1, 1, 5, 4] x) => (float[A, B, C, D] y, float[E, F, G, H] z) <float[4] s = {1, 1, 0.6, 0.6},
            float[4] t = {1, 1, 2, 0.5}>
        { y = Resize <mode = "nearest"> (x, s) z = Resize <mode = "nearest"> (x, t) }"""),
    "nearest_half_pixels_11": (11, """
        g (float[1, 1, 5, 4] x) => (float[A, B, C, D] y) <float[4] s = {1, 1, 1.7, 0.6}, float[0] roi>
        { y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, roi, s) }"""),
    "mean_and_variance": (13, """
        g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) { y = MeanVarianceNormalization(x) }"""),
    "claims": (20, """
        g (float[N, 3, 8] x, int64[3] s) => (float[A, B, C] y, float[E, F, G] z)
        <float[4, 6, 1] r, float[1, 3, 8] a, float[2, 12] wrong>
        { a = Relu(x) r = Reshape(a, s) y = Neg(r) wrong = Exp(a) z = Neg(wrong) }"""),
    "functions_that_pass_on": (20, """
        g (float[2] x, bool c) => (float[2] y, float[2] z, float[2] v)
        { y, z = my.both(x) v = If(c) <then_branch = t () => (float[2] p) { p = Identity(x) },
          else_branch = e () => (float[2] q) { q = Neg(x) }> }
        <domain: "my", opset_import: ["" : 20]> both (u) => (u, w) { w = Neg(u) }"""),
    "nothing_passed_on": (20, """
        g () => (float[2] y, float[2] z)
        { y, z = my.both() }
        <domain: "my", opset_import: ["" : 20]> both (u) => (u, w) { w = Constant <value = float[2] {1, 2}> () }"""),
    "statistics_of_positions": (7, """
        g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float[2] s>
        { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }"""),
    "cast_of_strings": (20, """
        g (float[2] x) => (float[2] y, string[2] t) <string[2] s = {"1.5", "nan"}, float[2] f = {0.1, 100000}>
        { n = Cast <to = 1> (s) y = Add(n, x) t = Cast <to = 8> (f) i = Cast <to = 7> (s) b = Cast <to = 9> (s) }"""),
    # Weights that fold to 4 bits and are enough for a product by blocks (src/fuse/rewrites/quantized/block_matmul.cpp).
    "blocks_of_4_bits": (21, """
        g (float[3, 256] a, float[256] c) => (float[3, 256] y, float[3, 256] v)
        <uint8[1, 32] cell, int64[2] times = {256, 8}, float[1, 1] one, uint8[1, 1] mid, int64[2] blocks = {256, 8}>
        { wide = Tile(cell, times) q = Cast <to = 21> (wide) s = Tile(one, blocks) wz = Tile(mid, blocks) z = Cast <to = 21> (wz)
          d = DequantizeLinear <axis = 1, block_size = 32> (q, s, z) t = Transpose <perm = [1, 0]> (d) p = MatMul(a, t)
          y = Add(p, c) e = DequantizeLinear <axis = 1, block_size = 32> (q, s) v = Gemm <transB = 1, alpha = 0.5> (y, e, c) }"""),
    "blocks_of_columns": (21, """
        g (float[N, 256] a) => (float[N, 256] y)
        <int8[1, 32] cell, int64[2] times = {256, 8}, float16[1, 1] one, int64[2] blocks = {16, 256}>
        { wide = Tile(cell, times) q = Cast <to = 22> (wide) h = Tile(one, blocks) s = Cast <to = 1> (h)
          d = DequantizeLinear <axis = 0, block_size = 16> (q, s) p = MatMul(a, d) y = Relu(p) }"""),
    "blocks_with_padding": (21, """
        g (float[2, 3, 272] a) => (float[2, 3, 256] y)
        <uint8[1, 32] cell, int64[2] times = {256, 9}, float[1, 1] one, int64[2] blocks = {256, 9}, int64[1] begin = {0},
            int64[1] end = {272}, int64[1] along = {1}>
        { wide = Tile(cell, times) s = Tile(one, blocks) d = DequantizeLinear <axis = 1, block_size = 32> (wide, s)
          k = Slice(d, begin, end, along) t = Transpose <perm = [1, 0]> (k) y = MatMul(a, t) }"""),
}
