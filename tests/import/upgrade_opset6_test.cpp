#include "models.h"
#include "ops/core/operator.h"

namespace smelt::testing {
namespace {

Tensor counted(Shape shape) {
  Tensor t = Tensor::empty(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = static_cast<float>(i + 1);
  return t;
}

TEST(Opset6, aligns_the_second_operand_with_the_axis_it_names) {
  const Graph g =
      import(parse(6, "g (float[2, 3, 4] x, float[3] b) => (float[2, 3, 4] y) { y = Add<broadcast = 1, axis = 1>(x, b) }"));
  const std::vector<Tensor> in = {counted({2, 3, 4}), counted({3})};
  const auto y = ops::evaluate(g, in)[0].to_doubles();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<double>(i + 1 + i / 4 % 3 + 1));
  for (NodeId n : g.topological()) EXPECT_FALSE(g.node(n).has("broadcast") || g.node(n).has("axis"));
}

TEST(Opset6, gives_prelu_one_slope_a_channel) {
  const Graph g =
      import(parse(6, "g (float[1, 2, 3] x, float[2] slope) => (float[1, 2, 3] y) { z = Neg(x) y = PRelu(z, slope) }"));
  const std::vector<Tensor> in = {counted({1, 2, 3}), counted({2})};
  EXPECT_EQ(ops::evaluate(g, in)[0].to_doubles(), (std::vector<double>{-1, -2, -3, -8, -10, -12}));
}

TEST(Opset6, is_the_oldest_that_is_read) {
  EXPECT_NE(error_of(parse(5, "g (float[2] x) => (float[2] y) { y = Relu(x) }")).find("of ONNX opset 5, expected 6 to"),
            std::string::npos);
}

TEST(UpgradeOpset6, refuses_an_axis_that_is_not_there) {
  for (const std::string axis : {"-9223372036854775807", "-4", "4", "9223372036854775807"}) {
    const std::string error = error_of(
        parse(6, "g (float[2, 3, 4] x, float[3] b) => (float[2, 3, 4] y) { y = Add<broadcast = 1, axis = " + axis + ">(x, b) }"));
    EXPECT_NE(error.find("expected -3 to 3"), std::string::npos) << axis << ": " << error;
  }
}

}  // namespace
}  // namespace smelt::testing
