// Operators of ONNX that a machine has no kernel of become others at import, and mean what they meant.
#include <gmock/gmock.h>

#include "import/models.h"
#include "ops/core/operator.h"
#include "ops/tactic_check.h"

namespace smelt {
namespace {

/// The graph where `op` runs, and where it does not.
std::pair<Graph, Graph> both(const std::string& op, const std::string& graph) {
  ImportOptions all, few;
  all.supported = [](std::string_view, std::string_view) { return true; };
  few.supported = [op](std::string_view, std::string_view other) { return other != op; };
  const onnx::ModelProto model = testing::parse(21, graph);
  return {testing::import(model, all), testing::import(model, few)};
}

bool has(const Graph& g, std::string_view op) {
  return std::ranges::any_of(g.topological(), [&](NodeId n) { return g.node(n).op == op; });
}

void expect_same(const std::string& op, const std::string& graph, const std::vector<Tensor>& inputs, double tolerance = 1e-6) {
  SCOPED_TRACE(graph);
  const auto [as_is, made] = both(op, graph);
  EXPECT_TRUE(has(as_is, op));
  EXPECT_FALSE(has(made, op));
  const Tensor want = ops::evaluate(as_is, inputs)[0], got = ops::evaluate(made, inputs)[0];
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.type(), want.type());
  EXPECT_LE(ops::error(got, want), tolerance);
}

void expect_stays(const std::string& op, const std::string& graph) {
  SCOPED_TRACE(graph);
  EXPECT_TRUE(has(both(op, graph).second, op));
}

TEST(WithoutKernel, pools_of_powers) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 9, 8}, 1);
  for (const char* how : {"", "p: int = 1, ", "p: int = 3, ", "pads: ints = [1, 0, 2, 1], strides: ints = [2, 1], ",
                          "dilations: ints = [2, 1], ", "auto_pad: string = \"VALID\", "})
    expect_same(
        "LpPool",
        fmt::format("g (float[2, 3, 9, 8] x) => (float[a, b, c, d] y) {{ y = LpPool<{}kernel_shape: ints = [3, 2]> (x) }}", how),
        {x});
  expect_same("LpPool", "g (float16[n, 3, 9, 8] x) => (float16[a, b, c, d] y) { y = LpPool<kernel_shape: ints = [3, 2]> (x) }",
              {x.cast(DType::f16)}, 1e-3);
  expect_same("LpPool", "g (double[2, 3, 72] x) => (double[a, b, c] y) { y = LpPool<kernel_shape: ints = [4]> (x) }",
              {random_tensor(DType::f64, {2, 3, 72}, 2)}, 1e-12);
  for (const char* p : {"1", "2", "3"})
    expect_same("GlobalLpPool",
                fmt::format("g (float[2, n, 9, 8] x) => (float[2, n, 1, 1] y) {{ y = GlobalLpPool<p: int = {}> (x) }}", p), {x});
  expect_stays(
      "LpPool",
      "g (float[2, 3, 9, 8] x) => (float[a, b, c, d] y) { y = LpPool<kernel_shape: ints = [2, 2], ceil_mode: int = 1> (x) }");
  expect_stays("GlobalLpPool", "g (float[] x) => (float[] y) { y = GlobalLpPool(x) }");
}

TEST(WithoutKernel, what_a_pooling_left_out) {
  const Tensor x = Tensor::of<float>({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor at = Tensor::of<int64_t>({1, 2, 2, 2}, {0, 6, 9, 15, 17, 19, 24, 30});  // of 4 x 4
  const std::string how = "<kernel_shape: ints = [2, 2], strides: ints = [2, 2]> ";
  expect_same("MaxUnpool",
              "g (float[1, 2, 2, 2] x, int64[1, 2, 2, 2] i) => (float[a, b, c, d] y) { y = MaxUnpool" + how + "(x, i) }", {x, at},
              0);
  expect_same("MaxUnpool",
              "g (float[n, c, h, w] x, int64[n, c, h, w] i) => (float[p, q, r, s] y) { y = MaxUnpool" + how + "(x, i) }", {x, at},
              0);
  expect_same(
      "MaxUnpool",
      "g (float[n, c, h, w] x, int64[n, c, h, w] i, int64[4] s) => (float[p, q, r, t] y) { y = MaxUnpool" + how + "(x, i, s) }",
      {x, at, Tensor::of<int64_t>({4}, {1, 2, 5, 6})}, 0);
  const Tensor odd = Tensor::of<int64_t>({1, 2, 2, 2}, {0, 2, 6, 8, 9, 11, 15, 17});  // of 3 x 3
  expect_same("MaxUnpool",
              "g (float16[1, 2, 2, 2] x, int64[1, 2, 2, 2] i) => (float16[a, b, c, d] y)"
              " { y = MaxUnpool<kernel_shape: ints = [3, 3], strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x, i) }",
              {x.cast(DType::f16), odd}, 0);
}

TEST(WithoutKernel, products_of_signed_by_unsigned_bytes) {
  const Tensor a = random_tensor(DType::i8, {5, 16}, 1, -128, 127), b = random_tensor(DType::u8, {16, 6}, 2, 0, 255);
  const auto graph = [](const char* more, const char* inputs) {
    return fmt::format("g (int8[5, 16] a, uint8[16, 6] b{}) => (int32[5, 6] y) {{ y = MatMulInteger(a, b{}) }}", more, inputs);
  };
  const auto [as_is, made] = both("MatMulInteger", graph("", ""));
  EXPECT_EQ(ops::evaluate(as_is, std::vector<Tensor>{a, b})[0].to_ints(),
            ops::evaluate(made, std::vector<Tensor>{a, b})[0].to_ints());
  for (const char* shape : {"", "[6]"}) {
    const Tensor w = shape[0] ? random_tensor(DType::u8, {6}, 3, 0, 255) : Tensor::scalar<uint8_t>(200);
    const std::vector<Tensor> in{a, b, Tensor::scalar<int8_t>(-7), w};
    const auto [one, other] = both("MatMulInteger", graph(fmt::format(", int8 z, uint8{} w", shape).c_str(), ", z, w"));
    EXPECT_EQ(ops::evaluate(one, in)[0].to_ints(), ops::evaluate(other, in)[0].to_ints());
    for (const NodeId n : other.topological())
      if (other.node(n).op == "MatMulInteger") {
        EXPECT_EQ(other.value(other.node(n).in(1)).type, DType::i8);
      }
  }
  expect_stays("MatMulInteger", "g (uint8[5, 16] a, int8[16, 6] b) => (int32[5, 6] y) { y = MatMulInteger(a, b) }");
}

TEST(WithoutKernel, classes_and_bits_that_are_drawn) {
  // Of shares that leave no choice; and how often each is drawn.
  const auto [as_is, made] = both(
      "Multinomial", "g (float[2, 4] x) => (int64[2, 2000] y) { y = Multinomial<sample_size: int = 2000, dtype: int = 7> (x) }");
  EXPECT_FALSE(has(made, "Multinomial"));
  const Tensor x =
      Tensor::of<float>({2, 4}, {-1e4f, -1e4f, 3, -1e4f, std::log(1.f), std::log(2.f), std::log(3.f), std::log(4.f)});
  const std::vector<int64_t> y = ops::evaluate(made, std::vector<Tensor>{x})[0].to_ints();
  ASSERT_EQ(y.size(), 4000u);
  EXPECT_TRUE(std::all_of(y.begin(), y.begin() + 2000, [](int64_t k) { return k == 2; }));
  for (int64_t k = 0; k < 4; ++k)
    EXPECT_NEAR(static_cast<double>(std::count(y.begin() + 2000, y.end(), k)), 200.0 * static_cast<double>(k + 1), 120) << k;
  expect_stays("Multinomial",
               "g (float[2, 4] x) => (int32[2, 3] y) { y = Multinomial<sample_size: int = 3, seed: float = 1.0> (x) }");
  expect_same("Bernoulli", "g (float[40, 50] x) => (bool[40, 50] y) { y = Bernoulli<dtype: int = 9, seed: float = 3.0> (x) }",
              {random_tensor(DType::f32, {40, 50}, 4, 0, 1)}, 0);
}

}  // namespace
}  // namespace smelt
