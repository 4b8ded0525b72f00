#include "import/import.h"

#include <gmock/gmock.h>

#include "import/models.h"

namespace smelt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Import, takes_branches_that_name_a_value_of_shape_arithmetic_alike) {
  const Graph g = import(parse(18, R"(g (bool c, float[2] x) => (int64 y) {
    y = If(c) <then_branch = t () => (int64 p) { k = Constant <value = int64 {1}> () r = Add(k, k) p = Identity(r) },
               else_branch = e () => (int64 q) { k = Constant <value = int64 {2}> () r = Mul(k, k) q = Identity(r) }> })"));
  EXPECT_EQ(g.live_nodes(), 1u);
}

TEST(Import, gives_nodes_values_types_and_shapes) {
  const Graph g = import(parse(20, R"(g (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y)
    <float[4, 3, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { c = Conv(x, w) y = Relu(c) })"));
  EXPECT_THAT(ops(g), ElementsAre("Conv", "Relu"));
  const Node& conv = only(g, "Conv");
  EXPECT_EQ(to_string(*g.value(conv.out()).shape), "[N, 4, 8, 8]");
  EXPECT_EQ(g.value(conv.out()).type, DType::f32);
  const Tensor& w = g.value(conv.in(1)).constant;
  EXPECT_EQ(w.shape(), (Shape{4, 3, 1, 1}));
  EXPECT_EQ(w.data<float>()[11], 12.f);
  EXPECT_EQ(g.inputs().size(), 1u);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
}

TEST(Import, does_not_take_the_extent_of_a_sliced_axis_for_that_of_the_whole) {
  for (const int opset : {10, 11, 13, 20}) {  // ONNX's inference does before 13
    const Graph g = import(parse(opset, R"(g (float[2, n] x) => (float[2, m] y)
      <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] a = {-1}, int64[1] t = {2}> { z = Slice(x, s, e, a, t) y = Relu(z) })"));
    const SymShape& z = *g.value(only(g, "Slice").out()).shape;
    EXPECT_EQ(z.at(0), Dim(2));
    EXPECT_NE(z.at(1), Dim("n")) << "opset " << opset;
  }
}

TEST(Import, does_not_take_a_width_of_attention_that_is_not_known_for_0) {
  const Graph g = import(parse(23, R"(g (float[b, s, 24] q, float[b, t, 24] k, float[b, t, w] v) => (float[b, s, u] y)
    { a = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v) y = Relu(a) })"));
  const SymShape& a = *g.value(only(g, "Attention").out()).shape;
  ASSERT_EQ(a.size(), 3u);
  EXPECT_FALSE(a[2].known());
  const Graph of_16 = import(parse(23, R"(g (float[b, s, 24] q, float[b, t, 24] k, float[b, t, 12] v) => (float[b, s, u] y)
    { a = Attention<q_num_heads = 6, kv_num_heads = 3>(q, k, v) y = Relu(a) })"));
  EXPECT_EQ(of_16.value(only(of_16, "Attention").out()).shape->at(2), Dim(24));
}

TEST(Import, finds_the_shape_and_the_type_that_a_result_does_not_have) {
  auto m = parse(20, "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { y = Relu(x) z = Neg(x) }");
  m.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  m.mutable_graph()->mutable_output(1)->clear_type();
  const Graph g = import(m);
  for (ValueId v : g.outputs()) {
    EXPECT_EQ(g.value(v).type, DType::f32);
    EXPECT_EQ(to_string(*g.value(v).shape), "[2, 3]");
  }
}

TEST(Import, constants_and_initializers_that_are_inputs_too_become_constants) {
  const Graph g = import(parse(20, R"(g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}>
    { c = Constant<value_floats = [3.0, 4.0]>() a = Add(x, w) y = Add(a, c) })"));
  EXPECT_EQ(g.inputs().size(), 1u);
  EXPECT_THAT(ops(g), ElementsAre("Add", "Add"));
  EXPECT_EQ(g.value(g.find_value("c")).constant.data<float>()[1], 4.f);
  EXPECT_EQ(g.value(g.find_value("w")).constant.data<float>()[0], 1.f);
}

TEST(Import, reads_every_scope_of_a_node) {
  auto m = parse(20, "g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }");
  auto set = [&](int node, const char* key, const char* value) {
    auto* e = m.mutable_graph()->mutable_node(node)->add_metadata_props();
    e->set_key(key);
    e->set_value(value);
  };
  set(0, "pkg.torch.onnx.name_scopes", R"(['', 'layer1', 'layer1.0', 'relu_1'])");
  set(1, "namespace", ": Net/head: torch.nn.Linear/neg_1: aten.neg.default");
  m.mutable_graph()->mutable_node(0)->set_name("n0");
  const Graph g = import(m);
  EXPECT_EQ(g.sources()[0].name, "n0");
  EXPECT_THAT(g.sources()[0].scopes, ElementsAre("", "layer1", "layer1.0"));
  EXPECT_THAT(g.sources()[1].scopes, ElementsAre("", "head"));
}

TEST(Import, reads_scopes_from_the_older_exporters_names) {
  auto m = parse(20, "g (float[2] x) => (float[2] y) { y = Relu(x) }");
  m.mutable_graph()->mutable_node(0)->set_name("/layer1/layer1.0/conv1/Conv");
  EXPECT_THAT(import(m).sources()[0].scopes, ElementsAre("", "layer1", "layer1.0", "layer1.0.conv1"));
}

TEST(Import, bodies_list_what_they_capture) {
  const Graph g = import(parse(20, R"(g (bool c, float[2] x, float[2] z) => (float[2] y) <float[2] w = {1, 2}> {
    y = If(c) <then_branch = t () => (float[2] p) { p = Add(x, w) }, else_branch = e () => (float[2] q) { q = Sub(z, x) }> })"));
  const Node& n = only(g, "If");
  EXPECT_EQ(n.get_int("captured", -1), 2);
  ASSERT_EQ(n.inputs.size(), 3u);
  EXPECT_EQ(g.value(n.in(1)).name, "z");  // bodies in the order of their attributes' names
  EXPECT_EQ(g.value(n.in(2)).name, "x");
  for (const char* branch : {"then_branch", "else_branch"}) {
    const auto body = n.get_graph(branch);
    ASSERT_EQ(body->inputs().size(), 2u);
    EXPECT_EQ(body->value(body->inputs()[1]).type, DType::f32);
  }
  const auto then = n.get_graph("then_branch");
  EXPECT_TRUE(then->value(then->find_value("w")).is_constant());
}

TEST(Import, tables_of_integers_that_broadcast_are_no_shapes) {
  const Graph g = import(parse(20, R"(g (int64[2] x) => (int64[N, M] y) <int64[3, 1] a = {1, 2, 3}, int64[1, 2] b = {1, 2}> {
    t = Add(a, b) y = Mul(t, x) })"));
  EXPECT_EQ(to_shape(*g.value(g.outputs()[0]).shape), (Shape{3, 2}));
}

TEST(Import, loops_keep_their_formal_inputs_before_the_captured) {
  const Graph g = import(parse(20, R"(g (int64 m, float[2] x, float[2] k) => (float[2] y) {
    y = Loop(m, , x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) t = Add(s, k) }> })"));
  const Node& n = only(g, "Loop");
  ASSERT_EQ(n.inputs.size(), 4u);
  EXPECT_EQ(n.in(1), ValueId::none);
  EXPECT_EQ(n.get_int("captured", 0), 1);
  EXPECT_EQ(n.get_graph("body")->inputs().size(), 4u);
}

TEST(Import, inlines_local_functions_with_names_scopes_and_attributes) {
  auto m = parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (float[2] x) => (float[2] y) { a = my.twice<alpha = 0.5>(x) y = my.twice(a) }
    <domain: "my", opset_import: ["" : 20], overload: ""> twice <alpha: float = 0.25>(u) => (v) {
      t = LeakyRelu<alpha: float = @alpha>(u) v = Add(t, t) })");
  for (auto& n : *m.mutable_graph()->mutable_node()) {
    auto* e = n.add_metadata_props();
    e->set_key("pkg.torch.onnx.name_scopes");
    e->set_value("['', 'block', 'f']");
  }
  m.mutable_graph()->mutable_node(0)->set_name("call0");
  const Graph g = import(m);
  EXPECT_THAT(ops(g), ElementsAre("LeakyRelu", "Add", "LeakyRelu", "Add"));
  const auto order = g.topological();
  EXPECT_FLOAT_EQ(g.node(order[0]).get_float("alpha", 0), 0.5f);
  EXPECT_FLOAT_EQ(g.node(order[2]).get_float("alpha", 0), 0.25f);
  EXPECT_EQ(g.node(order[0]).name, "call0/LeakyRelu");
  EXPECT_THAT(g.sources()[static_cast<size_t>(g.node(order[0]).sources.at(0))].scopes, ElementsAre("", "block"));
}

TEST(Import, expands_functions_that_smelt_does_not_run_itself) {
  const auto m = parse(20, "g (float[2, 4] x) => (float[2, 4] y) { y = Gelu<approximate = \"tanh\">(x) }");
  EXPECT_THAT(ops(import(m)), ElementsAre("Gelu"));
  ImportOptions options;
  options.supported = [](std::string_view, std::string_view op) { return op != "Gelu"; };
  const Graph g = import(m, options);
  EXPECT_GT(g.live_nodes(), 3u);
  EXPECT_EQ(only(g, "Tanh").sources.size(), 1u);
  EXPECT_EQ(g.sources().at(static_cast<size_t>(only(g, "Tanh").sources[0])).op_type, "Gelu");
  EXPECT_EQ(to_string(*g.value(g.outputs()[0]).shape), "[2, 4]");
}

TEST(Import, lists_every_node_it_cannot_run_with_types_and_shapes) {
  ImportOptions options;
  options.supported = [](std::string_view domain, std::string_view op) { return domain.empty() && op == "Relu"; };
  ExitCode code{};
  const auto message = error_of(parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (float[2, N] x) => (float[2, N] y) { a = Relu(x) b = Sin(a) c = my.Thing(b) y = Relu(c) })"),
                                options, &code);
  EXPECT_EQ(code, ExitCode::unsupported);
  EXPECT_THAT(message, HasSubstr("2 nodes"));
  EXPECT_THAT(message, HasSubstr("(Sin)(f32[2, N])"));
  EXPECT_THAT(message, HasSubstr("(my::Thing)(f32[2, N])"));
}

TEST(Import, lists_nodes_that_work_on_sequences) {
  ExitCode code{};
  const auto message = error_of(parse(20, R"(g (seq(float[2]) s, float[2] x) => (float[2] y) {
    i = Constant <value_int = 0> () t = SequenceInsert(s, x) y = SequenceAt(t, i) })"),
                                {}, &code);
  EXPECT_EQ(code, ExitCode::unsupported);
  EXPECT_THAT(message, HasSubstr("2 nodes"));
  EXPECT_THAT(message, HasSubstr("(SequenceAt)(seq(f32[2])"));
}

TEST(Import, lists_operators_onnx_does_not_know) {
  ExitCode code{};
  const auto message = error_of(parse(20, "g (float[2] x) => (float[2] y) { y = Frobnicate(x) }"), {}, &code);
  EXPECT_EQ(code, ExitCode::unsupported);
  EXPECT_THAT(message, HasSubstr("Frobnicate"));
}

TEST(Import, binds_symbols_everywhere_and_infers_again) {
  const auto m = parse(20, R"(g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add(x, z) })");
  ImportOptions options;
  options.shapes = {{"x", {5, 3}}};
  const Graph g = import(m, options);
  EXPECT_EQ(to_string(*g.value(g.inputs()[1]).shape), "[5, 3]");
  EXPECT_EQ(to_string(*g.value(g.outputs()[0]).shape), "[5, 3]");
  for (const Shape& wrong : {Shape{5, 4}, Shape{5}, Shape{-1, 3}}) {
    options.shapes = {{"x", wrong}};
    ExitCode code{};
    EXPECT_THAT(error_of(m, options, &code), HasSubstr("--shapes"));
    EXPECT_EQ(code, ExitCode::usage);
  }
  options.shapes = {{"nope", {1}}};
  EXPECT_THAT(error_of(m, options), HasSubstr("x, z"));
  options.shapes = {{"x", {5, 3}}, {"z", {6, 3}}};
  EXPECT_THAT(error_of(m, options), HasSubstr("'N' to 5 and to 6"));
}

TEST(Import, takes_negative_dimensions_and_question_marks_for_unknown_ones) {
  auto m = parse(20, R"(g (float[N, 3, H, W] x) => (float[N, 3, H, W] y) { y = Relu(x) })");
  for (auto* value : {m.mutable_graph()->mutable_input(0), m.mutable_graph()->mutable_output(0)}) {
    auto& shape = *value->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_value(-1);
    for (int axis : {2, 3}) shape.mutable_dim(axis)->set_dim_param("?");
  }
  EXPECT_EQ(to_string(*import(m).value(import(m).inputs()[0]).shape), "[?, 3, ?, ?]");
  ImportOptions options;
  options.shapes = {{"x", {5, 3, 48, 192}}};  // two of one name would have to be equal
  const Graph g = import(m, options);
  EXPECT_EQ(to_string(*g.value(g.outputs()[0]).shape), "[5, 3, 48, 192]");
}

TEST(Import, knows_types_behind_com_microsoft_operators) {
  const Graph g =
      import(parse(20, R"(g (float16[2, 8, 4] x, float16[2, 8, 4] s, float16[4] w, float16[16, 4] m) => (float16[2, 8, 16] y) {
    n, mean, var, sum = com.microsoft.SkipLayerNormalization(x, s, w)
    k = com.microsoft.FastGelu(sum)
    y = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(k, m) })"));
  EXPECT_EQ(to_string(*g.value(only(g, "FastGelu").out()).shape), "[2, 8, 4]");
  EXPECT_EQ(g.value(only(g, "FusedMatMul").out()).type, DType::f16);
}

TEST(Import, knows_types_behind_operators_without_an_inference_function) {
  const Graph g = import(parse(R"(<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]> g (float[2, 6] x) => (int64[K] y) {
    s = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x) a = Relu(s) y = ArgMax <keepdims = 0> (a) })"));
  EXPECT_EQ(g.value(only(g, "Relu").in(0)).type, DType::f32);
}

TEST(Import, sparse_initializers_become_dense) {
  auto m = parse(20, "g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }");
  auto* s = m.mutable_graph()->add_sparse_initializer();
  s->add_dims(2);
  s->add_dims(3);
  auto* v = s->mutable_values();
  v->set_name("w");
  v->set_data_type(1);
  v->add_dims(2);
  v->add_float_data(5);
  v->add_float_data(7);
  auto* i = s->mutable_indices();
  i->set_data_type(7);
  i->add_dims(2);
  i->add_int64_data(1);
  i->add_int64_data(5);
  const Graph g = import(m);
  EXPECT_THAT(g.value(g.find_value("w")).constant.span<float>(), ElementsAre(0, 5, 0, 0, 0, 7));
  s->set_dims(0, int64_t{1} << 40);
  EXPECT_THAT(error_of(m), HasSubstr("when dense"));
}

TEST(Import, large_sparse_initializers_become_dense) {
  auto m = parse(20, "g (float[40, 30] x) => (float[40, 30] y) { y = Add(x, w) }");
  auto* s = m.mutable_graph()->add_sparse_initializer();
  s->add_dims(40);
  s->add_dims(30);
  auto* v = s->mutable_values();
  v->set_name("w");
  v->set_data_type(1);
  v->add_dims(1);
  v->add_float_data(5);
  auto* i = s->mutable_indices();
  i->set_data_type(7);
  i->add_dims(1);
  i->add_int64_data(1199);
  const Graph g = import(m);
  EXPECT_EQ(g.value(g.find_value("w")).constant.data<float>()[1199], 5);
}

}  // namespace
}  // namespace smelt::testing
