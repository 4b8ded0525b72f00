#include "import/export.h"

#include <gmock/gmock.h>

#include "import/models.h"

namespace smelt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Graph again(const Graph& g, const ExportOptions& options = {}, const ImportOptions& import_options = {}) {
  const std::string bytes = export_bytes(g, options);
  return import_model({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "plan.onnx", import_options);
}

TEST(Export, gives_back_the_graph) {
  const Graph g = import(parse(
      20, R"(g (float[N, 4] x, bool c, int64 m) => (float[N, 4] y, float[N, 4] z, float[T, N, 4] w) <float[4] k = {1, 2, 3, 4}> {
    hi = Constant <value = float {3.0}> ()
    a = Add(x, k)
    b = Clip(a, , hi)
    y = If(c) <then_branch = t () => (float[N, 4] p) { p = Add(b, k) }, else_branch = e () => (float[N, 4] q) { q = Neg(x) }>
    z, w = Loop(m, c, b) <body = body (int64 i, bool c0, float[N, 4] s) => (bool d, float[N, 4] t, float[N, 4] u) {
      d = Identity(c0) t = Mul(s, a) u = Relu(t) }> })"));
  EXPECT_EQ(print(again(g)), print(g));
}

TEST(Export, keeps_sources_and_scopes) {
  auto m = parse(20, "g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }");
  auto* e = m.mutable_graph()->mutable_node(0)->add_metadata_props();
  e->set_key("pkg.torch.onnx.name_scopes");
  e->set_value(R"(['', 'it\'s', 'relu'])");
  Graph g = import(m);
  const NodeId neg = g.topological()[1];
  g.merge_sources(neg, g.topological()[0]);
  const Graph h = again(g);
  EXPECT_EQ(print(h), print(g));
  const Node& n = h.node(h.topological()[1]);
  ASSERT_EQ(n.sources.size(), 2u);
  std::vector<std::vector<std::string>> scopes;
  for (int32_t s : n.sources) scopes.push_back(h.sources()[static_cast<size_t>(s)].scopes);
  EXPECT_THAT(scopes, ::testing::UnorderedElementsAre(ElementsAre("", "it's"), ElementsAre()));
}

TEST(Export, is_the_same_bytes_every_time_and_carries_metadata) {
  const auto m = parse(20, "g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }");
  ExportOptions options;
  options.metadata = {{"smelt.device", "cpu"}, {"smelt.tactics", "[]"}};
  const std::string bytes = export_bytes(import(m), options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(export_bytes(import(m), options), bytes);
  EXPECT_EQ(again(import(m), options).model.metadata.at("smelt.device"), "cpu");
}

TEST(Export, bodies_pass_captured_values_on_as_their_own) {
  const Graph g = import(parse(20,
                               "g (bool c, float[2] x) => (float[2] y) { a = Relu(x) y = If(c) <then_branch = t () => (float[2] "
                               "p) { p = Neg(a) }, else_branch = e () => (float[2] q) { q = Identity(a) }> }"));
  Graph h = clone(g);
  for (NodeId id : h.topological()) {
    if (h.node(id).op != "If") continue;
    Graph& body = *h.node(id).get_graph("else_branch");
    body.set_output(0, body.inputs()[0]);
    body.remove_node(body.topological()[0]);
  }
  EXPECT_EQ(ops(*only(again(h), "If").get_graph("else_branch")).size(), 1u);
}

// A fused multiplication: Pointwise over two operands, and its body.
Graph fused(float scale) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_value("x", DType::f32, SymShape{Dim(2), Dim(3)}), z = g.add_value("z", DType::f32, SymShape{Dim(3)});
  g.add_input(x);
  g.add_input(z);
  Node n;
  n.domain = smelt_domain;
  n.op = "Pointwise";
  n.name = "Mul_1+Relu_2";
  n.inputs = {x, z};
  n.outputs = {g.add_value("y", DType::f32, SymShape{Dim(2), Dim(3)})};
  n.program = expr::Program::parse("(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = const(" + std::to_string(scale) +
                                   "):f32; %4 = mul(%2, %3):f32; return %4 }");
  g.sources() = {{"Mul_1", "Mul", {"", "block"}}, {"Relu_2", "Relu", {}}};
  n.sources = {0, 1};
  g.add_output(n.outputs[0]);
  g.add_node(std::move(n));
  return g;
}

Graph body_of(const Graph& g, NodeId id) {
  Graph body;
  body.name = "body";
  const auto& n = g.node(id);
  for (ValueId v : n.inputs) body.add_input(body.add_value(g.value(v).name, g.value(v).type, g.value(v).shape));
  auto node = [&](const char* op, std::vector<ValueId> inputs, const char* out) {
    Node m;
    m.op = op;
    m.name = out;
    m.inputs = std::move(inputs);
    m.outputs = {body.add_value(out, DType::f32, g.value(n.out()).shape)};
    const ValueId y = m.outputs[0];
    body.add_node(std::move(m));
    return y;
  };
  const double scale = n.program->code()[3].value;
  const ValueId product = node("Mul", {body.inputs()[0], body.inputs()[1]}, "product");
  body.add_output(node("Mul", {product, body.add_constant("scale", Tensor::scalar<float>(static_cast<float>(scale)))}, "scaled"));
  return body;
}

TEST(Export, fused_nodes_come_back_with_program_and_sources) {
  const Graph g = fused(2);
  ExportOptions options;
  options.expand = body_of;
  const Graph h = again(g, options);
  EXPECT_EQ(print(h), print(g));
  EXPECT_EQ(h.sources()[0].scopes, g.sources()[0].scopes);
}

TEST(Export, fused_nodes_become_their_bodies_for_who_does_not_know_them) {
  ExportOptions options;
  options.expand = body_of;
  ImportOptions unknown;
  unknown.supported = [](std::string_view domain, std::string_view) { return domain != smelt_domain; };
  const Graph h = again(fused(2), options, unknown);
  EXPECT_THAT(ops(h), ElementsAre("Mul", "Mul"));
  EXPECT_EQ(h.node(h.topological()[0]).sources.size(), 2u);

  onnx::ModelProto later;
  later.ParseFromString(export_bytes(fused(2), options));
  for (auto& e : *later.mutable_metadata_props())
    if (e.key() == plan_version_key) e.set_value("99");
  EXPECT_THAT(ops(import(later)), ElementsAre("Mul", "Mul"));

  later.ParseFromString(export_bytes(fused(2), options));
  for (auto& a : *later.mutable_graph()->mutable_node(0)->mutable_attribute())
    if (a.name() == "program") a.set_s("(in0:f32, in1:f32) { %2 = frobnicate(in0, in1):f32; return %2 }");
  EXPECT_THAT(ops(import(later)), ElementsAre("Mul", "Mul"));
}

TEST(Export, is_of_the_oldest_opset_that_says_the_same) {
  const auto opset = [](const std::string& graph) {
    onnx::ModelProto plan;
    plan.ParseFromString(export_bytes(import(parse(28, graph))));
    return plan.opset_import(0).version();
  };
  EXPECT_EQ(opset("g (float[2] x) => (float[2] y) { y = Relu(x) }"), 21);
  EXPECT_EQ(opset("g (float[1, 2, 4, 4] x) => (float[1, 2, 1, 1] y) { y = GlobalLpPool(x) }"), 21);
  EXPECT_EQ(opset("g (bfloat16[1, 2, 4, 4] x) => (bfloat16[1, 2, 1, 1] y) { y = GlobalAveragePool(x) }"), 22);
  EXPECT_EQ(opset("g (float[2] x) => (float[2] y) { a = Swish(x) y = Relu(a) }"), 24);
  EXPECT_EQ(opset("g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] p) { p = Swish(x) }, "
                  "else_branch = e () => (float[2] q) { q = Neg(x) }> }"),
            24);
}

TEST(Export, names_what_the_plans_opset_lacks) {
  const auto refused = [](const std::string& graph) {
    try {
      export_bytes(import(parse(28, graph)));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::unsupported);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("g (float[1, 2, 4, 4] x) => (float[1, 8, 2, 2] y) { y = SpaceToDepth <blocksize = 2> (x) }"), "");
  EXPECT_THAT(refused("g (float[1, 2, 4, 4] x) => (float[1, 8, 2, 2] y) { "
                      "y = SpaceToDepth <blocksize = 2, mode = \"CRD\"> (x) }"),
              ::testing::HasSubstr("attribute 'mode' is newer than opset 26"));
  EXPECT_THAT(refused("g (float16[2] x) => (float16[2] y) { y = Celu(x) }"),
              ::testing::HasSubstr("input 0 of type f16 is newer than opset 26"));
  EXPECT_THAT(refused("g (float[2, 4] x) => (float[2, 4] y) { y = SwiGLU(x, x) }"),
              ::testing::HasSubstr("the operator is newer than opset 26"));
}

TEST(Export, needs_a_body_for_a_fused_node) { EXPECT_THROW(export_bytes(fused(2)), Error); }

class Weights : public ::testing::Test {
 protected:
  Weights() {
    auto m = parse(20, "g (float[1000] x) => (float[1000] y) <float[1000] w = {1}> { a = Add(x, w) y = Mul(a, w) }");
    auto& w = *m.mutable_graph()->mutable_initializer(0);
    w.clear_float_data();
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair{"location", "w.data"}, {"offset", "64"}}) {
      auto* e = w.add_external_data();
      e->set_key(key);
      e->set_value(value);
    }
    std::vector<float> values(1016);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    folder.write("w.data", std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
    model = folder.write("m.onnx", m.SerializeAsString());
  }
  Folder folder, elsewhere;
  std::filesystem::path model;
};

TEST_F(Weights, a_plan_beside_the_model_points_at_its_data) {
  const ExportedData data = export_model(import_model(model), folder / "plan.onnx");
  EXPECT_EQ(data.bytes, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "plan.data"));
  const Graph h = import_model(folder / "plan.onnx");
  EXPECT_EQ(h.model.data.at(0).file, "w.data");
  EXPECT_EQ(h.model.data.at(0).offset, 64);
  EXPECT_EQ(h.value(h.find_value("w")).constant.data<float>()[0], 16.f);
}

TEST_F(Weights, a_plan_elsewhere_copies_them_only_when_asked) {
  const Graph g = import_model(model);
  try {
    export_model(g, elsewhere / "plan.onnx");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_THAT(e.what(), HasSubstr("4000 bytes of weights lie in 'w.data'"));
    EXPECT_THAT(e.next(), HasSubstr("--copy-weights"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));
  ExportOptions options;
  options.copy_weights = true;
  EXPECT_EQ(export_model(g, elsewhere / "plan.onnx", options).bytes, 4000);
  const Graph h = import_model(elsewhere / "plan.onnx");
  EXPECT_EQ(h.value(h.find_value("w")).constant.data<float>()[999], 1015.f);
}

TEST_F(Weights, what_folding_made_goes_into_a_file_of_the_plans_own) {
  Graph g = import_model(model);
  const ValueId w = g.find_value("w"), folded = g.add_constant("folded", Tensor::zeros(DType::f32, {1000}));
  g.set_input(g.topological()[1], 1, folded);
  ASSERT_NE(w, folded);
  const ExportedData data = export_model(g, folder / "w.onnx");  // its data file must not be w.data
  EXPECT_EQ(data.file.filename(), "w.1.data");
  EXPECT_EQ(data.bytes, 4000);
  const Graph h = import_model(folder / "w.onnx");
  EXPECT_EQ(h.value(h.find_value("folded")).constant.data<float>()[5], 0.f);
  EXPECT_EQ(h.value(h.find_value("w")).constant.data<float>()[5], 21.f);
}

TEST_F(Weights, two_exports_are_equal_byte_for_byte) {
  ExportOptions options;
  options.copy_weights = true;
  export_model(import_model(model), elsewhere / "plan.onnx", options);
  const std::string plan = read(elsewhere / "plan.onnx"), data = read(elsewhere / "plan.data");
  export_model(import_model(model), elsewhere / "plan.onnx", options);
  EXPECT_EQ(read(elsewhere / "plan.onnx"), plan);
  EXPECT_EQ(read(elsewhere / "plan.data"), data);
}

TEST_F(Weights, a_folder_that_is_not_there_is_an_error) {
  EXPECT_THROW(export_model(import_model(model), folder / "none/plan.onnx"), Error);
}

}  // namespace
}  // namespace smelt::testing
