#include <cmath>
#include <limits>
#include <random>

#include "ops/f64/evaluate.h"
#include "ops/f64/gemm.h"
#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

Tensor random(DType type, Shape shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  Tensor t = Tensor::empty(DType::f64, std::move(shape));
  for (double& v : t.span<double>()) v = normal(engine);
  return t.cast(type);
}

/// The blocked product adds in another order than the loops: the bound is that of k additions, with room for their growth.
void expect_near(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.type(), expected.type());
  ASSERT_EQ(actual.shape(), expected.shape());
  const auto a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-11) << "element " << i;
}

struct GemmCase {
  int64_t m, n, k;
  bool transposed_a, transposed_b;
  int threads;
};

class GemmF64 : public testing::TestWithParam<GemmCase> {};

TEST_P(GemmF64, agrees_with_plain_loops) {
  const auto [m, n, k, ta, tb, threads] = GetParam();
  const Tensor a = random(DType::f64, {m, k}, 1), b = random(DType::f64, {k, n}, 2);
  const int64_t gap = 3;  // c's rows lie further apart than they are long
  std::vector<double> c(static_cast<size_t>(m * (n + gap)), std::numeric_limits<double>::quiet_NaN());
  f64::gemm(m, n, k, {a.data<double>(), ta ? 1 : k, ta ? m : 1}, {b.data<double>(), tb ? 1 : n, tb ? k : 1}, c.data(), n + gap,
            threads);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += a.data<double>()[ta ? p * m + i : i * k + p] * b.data<double>()[tb ? j * k + p : p * n + j];
      ASSERT_NEAR(c[static_cast<size_t>(i * (n + gap) + j)], sum, 1e-11) << i << ", " << j;
    }
    for (int64_t j = n; j < n + gap; ++j)
      ASSERT_TRUE(std::isnan(c[static_cast<size_t>(i * (n + gap) + j)])) << "wrote behind a row";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GemmF64,
                         testing::Values(GemmCase{1, 1, 1, false, false, 1}, GemmCase{1, 300, 600, false, true, 2},
                                         GemmCase{300, 1, 257, true, false, 2}, GemmCase{97, 1009, 513, false, false, 1},
                                         GemmCase{5, 1013, 777, true, true, 3}, GemmCase{500, 130, 259, false, true, 4},
                                         GemmCase{4, 12, 256, false, false, 1}, GemmCase{7, 13, 0, false, false, 1},
                                         GemmCase{0, 13, 4, false, false, 2}, GemmCase{401, 399, 100, true, false, 2}));

/// A node as a graph, evaluated blocked and by its own reference on the widened inputs.
void compare(const std::string& op, const std::vector<Tensor>& inputs, Attributes attrs = {}) {
  Graph g;
  Node node;
  node.op = op;
  node.attrs = attrs;
  std::vector<Tensor> feeds, wide;
  for (const Tensor& t : inputs) {
    const ValueId v = t.valid() ? g.add_value("", t.type(), to_sym(t.shape())) : ValueId::none;
    node.inputs.push_back(v);
    wide.push_back(t.valid() && is_float(t.type()) ? t.cast(DType::f64) : t);
    if (!t.valid()) continue;
    g.add_input(v);
    feeds.push_back(t);
  }
  node.outputs = {g.add_value("y", inputs[0].type(), std::nullopt)};
  g.add_output(node.outputs[0]);
  g.add_node(node);
  SCOPED_TRACE(op);
  expect_near(evaluate_f64(g, feeds, 2)[0], run(op, wide, attrs));
}

TEST(EvaluateF64, agrees_with_the_loops_on_matrix_products) {
  compare("MatMul", {random(DType::f32, {3, 1, 37, 50}, 1), random(DType::f32, {2, 50, 41}, 2)});
  compare("MatMul", {random(DType::f16, {50}, 1), random(DType::f16, {4, 50, 3}, 2)});
  compare("MatMul", {random(DType::f32, {5, 50}, 1), random(DType::f32, {50}, 2)});
  compare("Gemm", {random(DType::bf16, {50, 33}, 1), random(DType::bf16, {29, 50}, 2), random(DType::bf16, {29}, 3)},
          {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
  compare("Gemm", {random(DType::f32, {7, 8}, 1), random(DType::f32, {8, 9}, 2), random(DType::f32, {7, 1}, 3)});
}

TEST(EvaluateF64, agrees_with_the_loops_on_convolutions) {
  const Attributes strided = {{"strides", Ints{2, 1}}, {"pads", Ints{1, 2, 0, 1}}, {"dilations", Ints{1, 2}}};
  compare("Conv", {random(DType::f32, {2, 6, 13, 11}, 1), random(DType::f32, {8, 6, 3, 3}, 2), random(DType::f32, {8}, 3)},
          strided);
  Attributes grouped = strided;
  grouped["group"] = int64_t{2};
  compare("Conv", {random(DType::f32, {2, 6, 13, 11}, 1), random(DType::f32, {8, 3, 3, 3}, 2)}, grouped);
  compare("Conv", {random(DType::f16, {1, 6, 9, 9}, 1), random(DType::f16, {6, 1, 3, 3}, 2)},
          {{"group", int64_t{6}}});  // depthwise
  compare("Conv", {random(DType::f32, {1, 5, 17}, 1), random(DType::f32, {4, 5, 4}, 2)},
          {{"auto_pad", std::string("SAME_UPPER")}});
  compare("Conv", {random(DType::f32, {1, 2, 5, 6, 7}, 1), random(DType::f32, {4, 2, 2, 3, 3}, 2)});
  compare("ConvTranspose", {random(DType::f32, {2, 6, 5, 7}, 1), random(DType::f32, {6, 8, 3, 2}, 2), random(DType::f32, {8}, 3)},
          {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 1}}, {"output_padding", Ints{1, 0}}});
  compare("ConvTranspose", {random(DType::f32, {1, 6, 5, 7}, 1), random(DType::f32, {6, 4, 2, 2}, 2)}, {{"group", int64_t{3}}});
}

Node node_of(const std::string& op, std::vector<ValueId> inputs, ValueId output, Attributes attrs = {}) {
  Node n;
  n.op = op;
  n.inputs = std::move(inputs);
  n.outputs = {output};
  n.attrs = std::move(attrs);
  return n;
}

/// x → Cast to f16 → + constant: with every rounding taken out.
TEST(EvaluateF64, rounds_nowhere_between_input_and_output) {
  Graph g;
  const ValueId x = g.add_value("x", DType::f32, SymShape{1}), half = g.add_value("half", DType::f16, SymShape{1});
  const ValueId bias = g.add_constant("bias", Tensor::scalar(1.0f / 3).cast(DType::f16));
  const ValueId y = g.add_value("y", DType::f16, SymShape{1}), made = g.add_value("made", DType::f32, SymShape{2});
  g.add_input(x);
  g.add_node(node_of("Cast", {x}, half, {{"to", static_cast<int64_t>(DType::f16)}}));
  g.add_node(node_of("Add", {half, bias}, y));
  g.add_node(node_of("Constant", {}, made, {{"value_floats", std::vector<float>{0.1f, 0.2f}}}));
  g.add_output(y);
  g.add_output(made);
  const float third = 1.0f / 3;
  const auto out = evaluate_f64(g, std::vector<Tensor>{f32({1}, {third})});
  ASSERT_EQ(out[0].type(), DType::f64);
  EXPECT_EQ(out[0].to_doubles()[0], static_cast<double>(third) + static_cast<double>(Half(third)));
  EXPECT_EQ(out[1].type(), DType::f64);
  EXPECT_EQ(out[1].to_doubles()[0], static_cast<double>(0.1f));
}

TEST(EvaluateF64, stacks_what_a_loop_makes_in_double) {
  auto body = std::make_shared<Graph>();
  const ValueId i = body->add_value("i", DType::i64, SymShape{}), go = body->add_value("go", DType::boolean, SymShape{});
  const ValueId state = body->add_value("state", DType::f32, SymShape{}),
                third = body->add_value("third", DType::f32, SymShape{});
  const ValueId three = body->add_constant("three", Tensor::scalar(3.0f));
  for (ValueId v : {i, go, state}) body->add_input(v);
  body->add_node(node_of("Div", {state, three}, third));
  for (ValueId v : {go, third, third}) body->add_output(v);
  Graph g;
  const ValueId x = g.add_value("x", DType::f32, SymShape{}), last = g.add_value("last", DType::f32, SymShape{});
  const ValueId all = g.add_value("all", DType::f32, SymShape{2}), trips = g.add_constant("trips", Tensor::scalar<int64_t>(2));
  g.add_input(x);
  Node loop = node_of("Loop", {trips, ValueId::none, x}, last, {{"body", GraphPtr(body)}});
  loop.outputs.push_back(all);
  g.add_node(std::move(loop));
  g.add_output(all);
  const auto out = evaluate_f64(g, std::vector<Tensor>{Tensor::scalar(1.0f)});
  EXPECT_EQ(out[0].to_doubles(), (std::vector<double>{1.0 / 3, 1.0 / 3 / 3}));
}

TEST(EvaluateF64, leaves_integers_and_narrow_floats_what_they_are) {
  Graph g;
  const ValueId x = g.add_value("x", DType::f32, SymShape{1}), narrow = g.add_value("narrow", DType::f8e4m3fn, SymShape{1});
  const ValueId whole = g.add_value("whole", DType::i32, SymShape{1});
  g.add_input(x);
  g.add_node(node_of("Cast", {x}, narrow, {{"to", static_cast<int64_t>(DType::f8e4m3fn)}}));
  g.add_node(node_of("Cast", {x}, whole, {{"to", static_cast<int64_t>(DType::i32)}}));
  g.add_output(narrow);
  g.add_output(whole);
  const auto out = evaluate_f64(g, std::vector<Tensor>{f32({1}, {2.3f})});
  EXPECT_EQ(out[0].type(), DType::f8e4m3fn);
  EXPECT_EQ(out[1].type(), DType::i32);
  EXPECT_EQ(out[0].to_doubles()[0], 2.25);
}

}  // namespace
}  // namespace smelt::ops::test
