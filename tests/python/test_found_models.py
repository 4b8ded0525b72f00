"""Models as exporters and tools leave them: stale claims, other spellings of a domain, functions that nothing calls, old operators."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import smelt
from onnx import TensorProto, helper, numpy_helper, parser

RNG = np.random.default_rng(0)


def saved(folder, text, opset=20, name="m", ir=8, edit=None):
    model = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> {text}')
    if edit:
        edit(model)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def peer(path, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options).run(None, feeds)


def check(path, feeds, tolerance=1e-5):
    """smelt, unfused and fused, and its plan in both: what ONNX Runtime gives for the model."""
    want = peer(path, feeds)
    plan = path.with_suffix(".plan.onnx")
    smelt.optimize(str(path), str(plan), tuning_level=0)
    for got in (smelt.Session(path, optimize=False).run(None, feeds), smelt.Session(path).run(None, feeds),
                smelt.Session(plan).run(None, feeds), peer(plan, feeds)):
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def steps_in_reference(command, path):
    said = command("explain", path, "--kernels", "--json", "--tuning-level", 0, "--no-cache").stdout
    return [t["step"] for t in json.loads(said)["tactics"] if t["result"] == "runs" and t["tactic"].startswith("reference")]


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("body", [
    "{ a = Relu(x) b = Transpose <perm = [1, 0, 2]> (a) c = Neg(b) y = Transpose <perm = [1, 0, 2]> (c) }",
    "{ s = Shape(x) zero = Constant <value_int = 0> () n = Gather(s, zero) last = Constant <value_ints = [0]> () "
    "u = Unsqueeze(n, last) minus = Constant <value_ints = [-1]> () t = Concat <axis = 0> (u, minus) y = Reshape(x, t) }",
])
def test_a_batch_made_symbolic_behind_inferences_back(tmp_path, body):
    """The usual edit: inferred at batch 1, then the inputs' and outputs' batch renamed, the values between them forgotten."""
    def edit(model):
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        model.CopyFrom(inferred)
        assert model.graph.value_info
        for v in (*model.graph.input, *model.graph.output):
            v.type.tensor_type.shape.dim[0].dim_param = "N"

    shape = "float[1, 3, 8]" if "perm" in body else "float[A, B]"
    path = saved(tmp_path, f"g (float[1, 3, 8] x) => ({shape} y) {body}", edit=edit)
    for n in (1, 4):
        feeds = {"x": floats(n, 3, 8)}
        np.testing.assert_array_equal(smelt.Session(path).run(None, feeds)[0], peer(path, feeds)[0])


def test_one_symbol_is_one_extent(tmp_path):
    path = saved(tmp_path, "g (float[N, 8] x, float[N, 8] z) => (float[N, 8] y) { y = Add(x, z) }")
    session = smelt.Session(path)
    session.run(None, {"x": floats(3, 8), "z": floats(3, 8)})
    with pytest.raises(smelt.UsageError, match=r"input 'z' has shape \[1, 8\], in which N is 1; expected 3, as in input 'x'"):
        session.run(None, {"x": floats(3, 8), "z": floats(1, 8)})
    square = smelt.Session(saved(tmp_path, "g (float[N, N] x) => (float[N, N] y) { y = Relu(x) }", name="square"))
    with pytest.raises(smelt.UsageError, match="N is 4; expected 2"):
        square.run(None, {"x": floats(2, 4)})


def test_a_plan_of_attention_has_no_two_nodes_of_one_name(tmp_path):
    path = saved(tmp_path, """g (float[2, 5, 8] x) => (float[2, 5, 8] y)
        { y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, x, x) }""", opset=23, ir=10)
    check(path, {"x": floats(2, 5, 8)})


@pytest.mark.parametrize("location", ["./m.plan.data", "m.plan.data", "sub/../m.plan.data"])
def test_a_plan_leaves_the_models_weights_alone(tmp_path, location):
    (tmp_path / "sub").mkdir()
    w = floats(64, 64)
    (tmp_path / "m.plan.data").write_bytes(w.tobytes())

    def edit(model):
        for name in ("w", "w2"):
            t = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=w.shape, data_location=TensorProto.EXTERNAL)
            t.external_data.add(key="location", value=location)

    path = saved(tmp_path, "g (float[2, 64] x, float[64] b) => (float[2, 64] y) { p = Add(w2, w) m = MatMul(x, p) y = Add(m, b) }",
                 edit=edit)
    feeds = {"x": floats(2, 64), "b": floats(64)}
    want = peer(path, feeds)[0] if ".." not in location else feeds["x"] @ (2 * w) + feeds["b"]
    plan = tmp_path / "m.plan.onnx"
    smelt.optimize(str(path), str(plan), tuning_level=0)
    assert (tmp_path / "m.plan.data").read_bytes() == w.tobytes()
    np.testing.assert_allclose(smelt.Session(plan).run(None, feeds)[0], want, rtol=1e-4, atol=1e-4)
    with pytest.raises(smelt.UsageError, match="the model's weights lie in this file"):
        smelt.optimize(str(path), str(tmp_path / "m.plan.data"), tuning_level=0)


def test_mean_variance_normalization_with_its_default_axes(tmp_path):
    path = saved(tmp_path, "g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) { y = MeanVarianceNormalization(x) }", opset=13)
    check(path, {"x": floats(2, 3, 4, 4)}, 1e-4)


def test_group_normalization_of_opset_18_has_a_scale_for_each_group(tmp_path):
    path = saved(tmp_path, """g (float[2, 4, 3, 3] x, float[2] s, float[2] b) => (float[2, 4, 3, 3] y)
        { y = GroupNormalization <num_groups = 2> (x, s, b) }""", opset=18)
    check(path, {"x": floats(2, 4, 3, 3), "s": floats(2), "b": floats(2)})


@pytest.mark.parametrize("scale", [0.6, 2.0])
def test_resize_10_rounds_as_its_test_cases_do(tmp_path, scale):
    path = saved(tmp_path, f"""g (float[1, 1, 5, 4] x) => (float[A, B, C, D] y) <float[4] s = {{1, 1, {scale}, {scale}}}>
        {{ y = Resize <mode = "nearest"> (x, s) }}""", opset=10, ir=5)
    check(path, {"x": floats(1, 1, 5, 4)})


def test_resize_11_by_half_pixels_for_nearest_neighbours(tmp_path):
    path = saved(tmp_path, """g (float[1, 1, 5, 4] x) => (float[A, B, C, D] y) <float[4] s = {1, 1, 1.7, 0.6}, float[0] roi>
        { y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, roi, s) }""", opset=11,
                 edit=lambda m: m.graph.initializer.append(numpy_helper.from_array(np.zeros(0, np.float32), "roi")))
    check(path, {"x": floats(1, 1, 5, 4)})


@pytest.mark.parametrize("body,shapes", [
    ("(float[1,2,8,8] x, float[2,4] r, int64[2] b) => (float[2,2,3,3] y) { t = Relu(x) "
     "y = RoiAlign<output_height = 3, output_width = 3>(t, r, b) }", {"x": (1, 2, 8, 8), "r": (2, 4)}),
    ("(float[1,2,8,8] x) => (float[1,2,1,1] y) { t = Relu(x) y = GlobalLpPool(t) }", {"x": (1, 2, 8, 8)}),
    ("(float[1,2,8,8] x) => (float[1,2,8,8] y) { t = RandomNormalLike<seed = 1.0>(x) u = Mul(t, x) y = Sub(u, u) }",
     {"x": (1, 2, 8, 8)})])
def test_plans_of_operators_that_onnx_runtime_has_in_older_opsets_only(tmp_path, body, shapes):
    feeds = {name: RNG.uniform(0, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    if "r" in feeds:
        feeds["b"] = np.zeros(2, np.int64)
    check(saved(tmp_path, "g " + body), feeds)


def test_the_standard_domain_by_its_long_name(tmp_path):
    def long_name(model):
        model.graph.node[0].domain = "ai.onnx"

    check(saved(tmp_path, "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", edit=long_name), {"x": floats(2, 3)})

    def long_import(model):
        long_name(model)
        model.opset_import[0].domain = "ai.onnx"

    check(saved(tmp_path, "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", edit=long_import, name="n"), {"x": floats(2, 3)})


def test_two_versions_of_one_domain_are_an_error(tmp_path):
    path = saved(tmp_path, "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }", opset=13,
                 edit=lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 9)))
    with pytest.raises(smelt.Error, match="imports the operators of domain '' twice, of version 13 and 9"):
        smelt.Session(path)


def test_an_input_without_a_shape(tmp_path):
    path = saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }",
                 edit=lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"))
    for shape in ((2,), (3, 4)):
        x = floats(*shape)
        np.testing.assert_array_equal(smelt.Session(path).run(None, {"x": x})[0], np.maximum(x, 0))


def test_a_function_that_nothing_calls_need_not_run(tmp_path):
    def edit(model):
        model.opset_import.append(helper.make_opsetid("my", 1))
        model.functions.append(helper.make_function("my", "unused", ["a"], ["b"], [helper.make_node("NoSuch", ["a"], ["b"])],
                                                    [helper.make_opsetid("", 20)]))

    check(saved(tmp_path, "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", edit=edit), {"x": floats(2, 3)})


def test_a_call_with_more_inputs_than_its_function_takes(tmp_path):
    def edit(model):
        model.opset_import.append(helper.make_opsetid("my", 1))
        model.graph.node[0].domain = "my"
        model.graph.node[0].op_type = "f"
        model.functions.append(helper.make_function("my", "f", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                                    [helper.make_opsetid("", 20)]))

    path = saved(tmp_path, "g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, x) }", edit=edit)
    with pytest.raises(smelt.Error, match="2 inputs and 1 outputs, but function 'f' has 1 and 1"):
        smelt.Session(path)


@pytest.mark.parametrize("x, y", [("float16", "float"), ("float", "float16")])
def test_a_norm_from_its_parts_keeps_the_type_of_a_cast_beside_it(tmp_path, x, y):
    """onnxruntime's converter to float16 casts a result that was a norm's; the norm takes the cast in."""
    numbers = {"float16": 10, "float": 1}
    path = saved(tmp_path, f"g (float[2, 8] x0) => (float[2, 8] y0) {{ x = Cast <to = {numbers[x]}> (x0) s = Mul(x, x) "
                 f"m = ReduceMean <axes = [-1]> (s) e0 = Constant <value_float = 0.01> () e = Cast <to = {numbers[x]}> (e0) "
                 f"v = Add(m, e) r = Sqrt(v) n = Div(x, r) z = Cast <to = {numbers[y]}> (n) y0 = Cast <to = 1> (z) }}", opset=17)
    check(path, {"x0": floats(2, 8)}, tolerance=2e-3)


def test_weights_in_few_bits_are_widened_once_and_tables_of_them_by_the_rows_that_are_read(tmp_path, command):
    """As tools that shrink files write them: Cast and Mul of constants, which a run must not compute again."""
    rows, width, many = 3 << 14, 64, 3 << 14   # both results are above 8 MiB in f32
    given = {"table": RNG.integers(-128, 128, (rows, width), np.int8), "scales": np.abs(floats(rows, 1)),
             "weights": floats(width, many).astype(np.float16)}
    path = saved(tmp_path, f"""g (int64[A, B] i) => (float[A, B, {many}] y)
        {{ t = Cast <to = 1> (table) s = Mul(t, scales) e = Gather(s, i) w = Cast <to = 1> (weights) y = MatMul(e, w) }}""",
                 edit=lambda m: m.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in given.items()))
    feeds = {"i": np.array([[3, -1], [rows - 1, 0]])}
    [want], [got] = peer(path, feeds), smelt.Session(path, tuning_level=0).run(None, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
    said = json.loads(command("explain", path, "--kernels", "--json", "--tuning-level", 0, "--no-cache").stdout)
    steps = {t["step"]: t["problem"] for t in said["tactics"] if t["result"] == "runs"}
    assert steps
    assert not [p for p in steps.values() if f">f32[{rows},{width}]" in p or f">f32[{width},{many}]" in p], steps


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_pooling_window_that_begins_inside_a_smaller_image(tmp_path, op, size):
    path = saved(tmp_path, f"""g (float[N, 2, H, W] x) => (float[N, 2, A, B] y)
        {{ y = {op} <kernel_shape = [2, 3], strides = [2, 3], ceil_mode = 1> (x) }}""", opset=19)
    check(path, {"x": floats(1, 2, *size)})


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_causal_attention_over_lengths_that_only_a_run_knows(tmp_path, command, packed, past):
    """As PyTorch's exporter writes it for opset 23."""
    kept = ", float[1, 2, P, 8] pk, float[1, 2, P, 8] pv" if past else ""
    result = "y, k2, v2" if past else "y"
    shape, given = ("1, S, 32", "q_num_heads = 4, kv_num_heads = 2, ") if packed else ("1, 4, S, 8", "")
    keys = "1, S, 16" if packed else "1, 2, S, 8"
    cache = ", float[1, 2, T, 8] k2, float[1, 2, T, 8] v2" if past else ""
    path = saved(tmp_path, f"""g (float[{shape}] q, float[{keys}] k, float[{keys}] v{kept}) => (float[{shape}] y{cache})
        {{ {result} = Attention <{given}is_causal = 1, softcap = 3.0> (q, k, v{", , pk, pv" if past else ""}) }}""", opset=23, ir=10)
    for steps in (5, 1):
        feeds = {"q": floats(1, steps, 32), "k": floats(1, steps, 16), "v": floats(1, steps, 16)}
        if not packed:
            feeds = {n: x.reshape(1, steps, -1, 8).transpose(0, 2, 1, 3).copy() for n, x in feeds.items()}
        if past:
            feeds |= {"pk": floats(1, 2, past, 8), "pv": floats(1, 2, past, 8)}
        check(path, feeds, 1e-4)
    assert steps_in_reference(command, path) == []


def test_a_convolution_of_f64_and_what_follows_run_on_kernels(tmp_path, command):
    path = saved(tmp_path, "g (double[1, 3, 20, 20] x) => (double[1, 5, 20, 20] y) { c = Conv <pads = [1, 1, 1, 1]> (x, w, b) y = Relu(c) }",
                 edit=lambda m: m.graph.initializer.extend([numpy_helper.from_array(RNG.standard_normal((5, 3, 3, 3)), "w"),
                                                            numpy_helper.from_array(RNG.standard_normal(5), "b")]))
    x = RNG.standard_normal((1, 3, 20, 20))
    fused, apart = (smelt.Session(path, tuning_level=0, optimize=o).run(None, {"x": x})[0] for o in (True, False))
    np.testing.assert_allclose(fused, apart, rtol=1e-12, atol=1e-12)
    assert steps_in_reference(command, path) == []
