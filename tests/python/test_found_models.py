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
