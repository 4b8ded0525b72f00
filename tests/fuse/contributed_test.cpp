// Operators of com.microsoft that a machine has no kernel of become ONNX's at import, and mean what they meant.
#include <gmock/gmock.h>

#include "import/models.h"
#include "ops/core/operator.h"
#include "ops/tactic_check.h"

namespace smelt {
namespace {

/// The graph as it is where these operators run, and where they do not.
std::pair<Graph, Graph> both(const std::string& graph) {
  ImportOptions all, few;
  all.supported = [](std::string_view, std::string_view) { return true; };
  few.supported = [](std::string_view domain, std::string_view) { return domain != microsoft_domain; };
  const onnx::ModelProto model = testing::parse(23, graph);
  return {testing::import(model, all), testing::import(model, few)};
}

size_t contributed(const Graph& g) {
  size_t n = 0;
  for (const NodeId id : g.topological()) n += g.node(id).domain == microsoft_domain;
  return n;
}

void expect_same(const std::string& graph, const std::vector<Tensor>& inputs, double tolerance = 1e-5) {
  SCOPED_TRACE(graph);
  const auto [as_is, expanded] = both(graph);
  EXPECT_EQ(contributed(as_is), 1u);
  EXPECT_EQ(contributed(expanded), 0u);
  const Tensor want = ops::evaluate(as_is, inputs)[0], got = ops::evaluate(expanded, inputs)[0];
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.type(), want.type());
  EXPECT_LE(ops::error(got, want), tolerance);
}

TEST(Contributed, products_with_an_activation) {
  const std::vector<Tensor> in{random_tensor(DType::f32, {4, 8}, 1), random_tensor(DType::f32, {6, 8}, 2),
                               random_tensor(DType::f32, {6}, 3)};
  for (const char* how : {"activation: string = \"Relu\"", "activation: string = \"LeakyRelu\", activation_alpha: float = 0.3",
                          "activation: string = \"Elu\", activation_alpha: float = 0.7", "activation: string = \"Tanh\"",
                          "activation: string = \"HardSigmoid\", activation_alpha: float = 0.3, activation_beta: float = 0.4"})
    expect_same(std::string("g (float[4, 8] a, float[6, 8] b, float[6] c) => (float[4, 6] y)"
                            " { y = com.microsoft.FusedGemm<transB: int = 1, alpha: float = 0.5, beta: float = 2.0, ") +
                    how + "> (a, b, c) }",
                in);
  expect_same(
      "g (float[4, 8] a, float[6, 8] b) => (float[4, 6] y)"
      " { y = com.microsoft.FusedGemm<transB: int = 1, activation: string = \"Relu\"> (a, b) }",
      {in[0], in[1]});
}

TEST(Contributed, products_of_integers_with_their_scales) {
  const auto bytes = [](DType type, const Shape& s, uint32_t seed) {
    return random_tensor(type, s, seed, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
  };
  const Tensor a = bytes(DType::u8, {5, 16}, 1), b = bytes(DType::i8, {16, 6}, 2);
  expect_same(
      "g (uint8[5, 16] a, int8[16, 6] b, float s, float t, uint8 z, int8 w, float[6] c) => (float[5, 6] y)"
      " { y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, z, w, c) }",
      {a, b, Tensor::scalar(0.02f), Tensor::scalar(0.01f), Tensor::scalar<uint8_t>(120), Tensor::scalar<int8_t>(3),
       random_tensor(DType::f32, {6}, 3)});
  expect_same(
      "g (uint8[5, 16] a, int8[16, 6] b, float s, float[6] t) => (float[5, 6] y)"
      " { y = com.microsoft.MatMulIntegerToFloat(a, b, s, t) }",
      {a, b, Tensor::scalar(0.02f), random_tensor(DType::f32, {6}, 4, 0.01, 0.02)});
  const Tensor x = random_tensor(DType::f32, {2, 5, 16}, 5);
  expect_same(
      "g (float[2, 5, 16] a, int8[16, 6] b, float t, int8 w, float[6] c) => (float[2, 5, 6] y)"
      " { y = com.microsoft.DynamicQuantizeMatMul(a, b, t, w, c) }",
      {x, b, Tensor::scalar(0.01f), Tensor::scalar<int8_t>(-4), random_tensor(DType::f32, {6}, 6)});
  expect_same(
      "g (float[2, 5, 16] a, int8[16, 6] b, float[6] t) => (float[2, 5, 6] y)"
      " { y = com.microsoft.DynamicQuantizeMatMul(a, b, t) }",
      {x, b, random_tensor(DType::f32, {6}, 7, 0.01, 0.02)});
}

TEST(Contributed, rotary_embeddings) {
  const Tensor cos = random_tensor(DType::f32, {20, 4}, 1), sin = random_tensor(DType::f32, {20, 4}, 2);
  const Tensor each = Tensor::of<int64_t>({2, 3}, {4, 5, 6, 0, 9, 19}), first = Tensor::of<int64_t>({1}, {7});
  const Tensor packed = random_tensor(DType::f32, {2, 3, 24}, 3), heads = random_tensor(DType::f32, {2, 3, 3, 8}, 4);
  const auto graph = [](const char* x, const char* positions, const char* how) {
    return fmt::format(
        "g ({0} x, {1} p, float[20, 4] c, float[20, 4] s) => ({0} y) {{ y = com.microsoft.RotaryEmbedding{2} (x, p, c, s) }}", x,
        positions, how);
  };
  for (const char* how : {"", "<interleaved: int = 1>", "<scale: float = 0.5>"}) {
    expect_same(graph("float[2, 3, 24]", "int64[2, 3]", how), {packed, each, cos, sin});
    expect_same(graph("float[2, 3, 24]", "int64[1]", how), {packed, first, cos, sin});
    expect_same(graph("float[2, 3, 3, 8]", "int64[1]", how), {heads, first, cos, sin});
  }
  expect_same(graph("float[2, 3, 24]", "int64[2, 3]", "<num_heads: int = 2, rotary_embedding_dim: int = 8>"),
              {packed, each, cos, sin});
  // Positions whose rank only the run knows.
  for (const Tensor& p : {each, first}) expect_same(graph("float[2, 3, 24]", "int64[]", ""), {packed, p, cos, sin});
}

/// What is not known of a call is no error of the import: the operator stays, for the machine to say that it has no kernel, or to run it on
/// the processor.
TEST(Contributed, calls_that_onnx_has_no_form_of_stay) {
  const auto stay = [](const std::string& graph) {
    SCOPED_TRACE(graph);
    EXPECT_EQ(contributed(both(graph).second), 1u);
  };
  const auto rotary = [](const char* x, const char* how) {
    return fmt::format(
        "g ({0} x, int64[1] p, float[20, 4] c, float[20, 4] s) => ({0} y) {{ y = com.microsoft.RotaryEmbedding{1} (x, p, c, s) "
        "}}",
        x, how);
  };
  stay(rotary("float[]", "<num_heads: int = 3>"));  // of unknown rank
  stay(rotary("float[2, 3, n]", ""));               // no number of heads
  stay(rotary("float[2, 3, 24]", "<is_packed_batching: int = 1>"));
  stay(
      "g (uint8[5, 16] a, int8[16, 6] b, float[] s, float t) => (float[5, 6] y) { y = com.microsoft.MatMulIntegerToFloat(a, b, "
      "s, t) }");
  stay(
      "g (float[4, 8] a, float[8, 6] b) => (float[4, 6] y) { y = com.microsoft.FusedGemm<activation: string = \"Selu\"> (a, b) "
      "}");
}

}  // namespace
}  // namespace smelt
