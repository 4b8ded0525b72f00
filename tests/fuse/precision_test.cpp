#include "fuse/precision.h"

#include <gmock/gmock.h>

#include "fuse/name_patterns.h"
#include "import/models.h"
#include "ops/core/operator.h"
#include "support/graphs.h"

namespace smelt::testing {
namespace {

using fuse::convert_precision;
using fuse::matches;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph mlp() {
  return import(parse(20, R"(g (float[2, 4] x) => (float[2, 4] y) <
      float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, float[4] b = {1, 2, 3, 4}> {
    h = MatMul(x, w) a = Add(h, b) y = Relu(a) })"));
}

DType type(const Graph& g, const char* name) { return g.value(g.find_value(name)).type; }

TEST(Precision, computes_in_the_new_type_between_fp32_inputs_and_outputs) {
  Graph g = mlp();
  const auto s = convert_precision(g, "bf16");
  verify(g);
  EXPECT_THAT(ops(g), ElementsAre("Cast", "MatMul", "Add", "Relu", "Cast"));
  EXPECT_EQ(type(g, "h"), DType::bf16);
  EXPECT_EQ(type(g, "x"), DType::f32);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  EXPECT_EQ(g.value(g.outputs()[0]).type, DType::f32);
  EXPECT_EQ(g.constant(g.topological()[1], 1).type(), DType::bf16);
  EXPECT_EQ(s.converted, 3);
  EXPECT_EQ(s.casts, 2);
  EXPECT_EQ(s.kept, 0);
  EXPECT_EQ(g.model.metadata.at("smelt.precision"), "bf16");
}

TEST(Precision, keeps_nodes_and_scopes_by_pattern) {
  Graph g = mlp();
  const auto s = convert_precision(g, "fp16", {"Add*"});
  verify(g);
  EXPECT_EQ(type(g, "a"), DType::f32);
  EXPECT_EQ(s.kept, 2);  // Add, and Relu behind it
  Graph scoped = mlp();
  scoped.sources()[0].scopes = {"", "head"};
  convert_precision(scoped, "fp16", {"hea?"});
  EXPECT_EQ(type(scoped, "h"), DType::f32);
  Graph unknown = mlp();
  EXPECT_THROW(convert_precision(unknown, "fp16", {"nobody*"}), Error);
}

TEST(Precision, squares_and_means_stay_fp32_with_what_lies_between) {
  Graph g = import(parse(20, R"(g (float[2, 8] x) => (float[2, 8] y) <
      float two = {2}, float eps = {0.000001}, int64[1] last = {-1}, float[8] w = {1, 1, 1, 1, 1, 1, 1, 1}> {
    p = Pow(x, two) m = ReduceMean(p, last) e = Add(m, eps) r = Sqrt(e) q = Div(x, r) y = Mul(q, w) })"));
  convert_precision(g, "fp16");
  verify(g);
  for (const char* v : {"p", "m", "e", "r"}) EXPECT_EQ(type(g, v), DType::f32) << v;
  EXPECT_EQ(type(g, "q"), DType::f16);
}

constexpr const char* spelled_out = R"(g (float[2, 8] x, float[8, 8] m) => (float[2, 8] y) <
    float two = {2}, float three = {3}, float eps = {0.000001}, float one = {1}, float half = {0.5}, float c = {0.044715},
    float s = {0.7978846}, int64[1] last = {-1}, float[8] w = {1, 2, 1, 1, 1, 1, 1, 1}> {
  p = Pow(x, two) a = ReduceMean(p, last) e = Add(a, eps) r = Sqrt(e) i = Div(one, r) q = Mul(x, i) n = Mul(q, w) h = MatMul(n, m)
  b = Pow(h, three) d = Mul(b, c) f = Add(h, d) k = Mul(f, s) t = Tanh(k) u = Add(t, one) v = Mul(h, u) y = Mul(v, half) })";

// Squares stay fp32, and would keep what they are parts of from being recognised.
TEST(Precision, what_is_spelled_out_is_recognised_first_and_converts_as_a_whole) {
  const auto model = [] {
    Graph g = import(parse(20, spelled_out));
    return g;
  };
  const std::vector<Tensor> x{test::random_tensor({2, 8}, 1), test::random_tensor({8, 8}, 2)};
  const std::vector<double> expected = ops::evaluate(model(), x)[0].to_doubles();
  for (const char* precision : {"fp16", "bf16"}) {
    Graph g = model();
    const fuse::Options options;
    const auto s = convert_precision(g, precision, {}, {.fusing = &options});
    verify(g);
    EXPECT_THAT(ops(g), ElementsAre("Cast", "Norm", "Cast", "MatMul", "Pointwise", "Cast")) << precision;
    EXPECT_EQ(s.kept, 0);
    EXPECT_EQ(bits(type(g, "n")), 16);
    EXPECT_THAT(ops::evaluate(g, x)[0].to_doubles(), ::testing::Pointwise(::testing::DoubleNear(0.1), expected)) << precision;
    fuse::run(g, options);
    verify(g);
    EXPECT_THAT(ops(g), ElementsAre("Pointwise", "Norm", "Pointwise", "MatMul"))
        << "the product takes the activation, and the casts of x and m stay";
  }
  Graph kept = model();
  const fuse::Options options;
  convert_precision(kept, "fp16", {"Pow_*"}, {.fusing = &options});
  EXPECT_EQ(type(kept, "n"), DType::f32) << "a part that stays keeps the whole";
  Graph apart = model();
  const fuse::Options skipping{.skip = {"recognise_rms_norm", "attention"}};
  convert_precision(apart, "fp16", {}, {.fusing = &skipping});
  EXPECT_EQ(type(apart, "p"), DType::f32);
}

TEST(Precision, constants_stay_finite_and_do_not_vanish) {
  Graph g = import(parse(20, R"(g (float[2] x) => (float[2] y) <float lowest = {-3.4e38}, float tiny = {1e-12}> {
    a = Add(x, lowest) y = Mul(a, tiny) })"));
  convert_precision(g, "fp16");
  const auto order = g.topological();
  EXPECT_EQ(g.constant(order[1], 1).to_doubles(), std::vector<double>{-65504});
  EXPECT_GT(g.constant(order[2], 1).to_doubles()[0], 0);
}

TEST(Precision, the_result_is_near_the_fp32_one_and_not_equal_to_it) {
  const Graph g = mlp();
  const std::vector<Tensor> x{Tensor::of<float>({2, 4}, {0.1f, -0.7f, 0.33f, 1.9f, -1.3f, 0.01f, 0.77f, 0.5f})};
  const std::vector<double> expected = ops::evaluate(g, x)[0].to_doubles();
  for (const char* precision : {"fp16", "bf16"}) {
    Graph low = clone(g);
    convert_precision(low, precision);
    const std::vector<double> found = ops::evaluate(low, x)[0].to_doubles();
    EXPECT_NE(found, expected) << precision;
    EXPECT_THAT(found, ::testing::Pointwise(::testing::DoubleNear(0.2), expected))
        << precision;  // bf16 near 30: half a unit is 0.06
  }
}

TEST(Precision, resize_and_its_scales_stay_fp32) {
  Graph g = import(parse(20, R"(g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] scales = {1, 1, 2, 2}> {
    r = Resize <mode = "nearest"> (x, , scales) y = Neg(r) })"));
  convert_precision(g, "fp16");
  verify(g);
  EXPECT_EQ(type(g, "r"), DType::f32);
  EXPECT_EQ(g.value(only(g, "Resize").inputs[2]).type, DType::f32);
}

TEST(Precision, integers_indices_and_bodies_are_left_alone) {
  Graph g = import(parse(20, R"(g (int64[2] i, float[4, 4] t, bool c) => (float[2, 4] y) {
    r = Gather(t, i)
    y = If(c) <then_branch = a () => (float[2, 4] p) { p = Neg(r) }, else_branch = b () => (float[2, 4] q) { q = Relu(r) }> })"));
  convert_precision(g, "fp16");
  verify(g);
  EXPECT_EQ(type(g, "r"), DType::f16);
  const Node& branch = only(g, "If");
  EXPECT_EQ(g.value(branch.in(1)).type, DType::f32);
  EXPECT_EQ(type(g, "i"), DType::i64);
}

TEST(Precision, casts_to_fp32_cast_to_the_new_type) {
  for (const char* from : {"bool", "uint8", "double"}) {
    Graph g = import(
        parse(20, std::string("g (") + from + "[2] i, float[2] x) => (float[2] y) { f = Cast <to = 1> (i) y = Mul(f, x) }"));
    convert_precision(g, "bf16");
    verify(g);
    EXPECT_EQ(type(g, "f"), DType::bf16) << from;
  }
}

// 70001 is infinite in f16, and bf16 has 8 bits for it.
TEST(Precision, keeps_positions_and_what_becomes_of_them_up_to_their_angles) {
  Graph g = import(parse(20, R"(g (int64[B, S] ids, float[B, S, 4] x, float[4, 4] w) => (float[B, S, 4] y)
      <int64[1] last = {2}, float[1, 2] frequencies = {1, 0.01}>
      { u = Unsqueeze(ids, last) f = Cast <to = 1> (u) a = MatMul(f, frequencies) both = Concat <axis = -1> (a, a) c = Cos(both)
        m = MatMul(x, w) y = Mul(m, c) })"));
  convert_precision(g, "fp16");
  verify(g);
  for (const char* kept : {"f", "a", "both", "c"}) EXPECT_EQ(type(g, kept), DType::f32) << kept;
  EXPECT_EQ(type(g, "m"), DType::f16);
}

TEST(Precision, gives_operators_no_type_that_plans_cannot_spell) {
  Graph g = import(parse(20, R"(g (float[2, 3] x, float[3, 4] w, float[2, 3] one) => (float[2, 4] y)
      { m = Mul(x, one) y = Einsum <equation = "ij,jk->ik"> (m, w) })"));
  convert_precision(g, "bf16");
  verify(g);
  EXPECT_EQ(type(g, "m"), DType::bf16);
  const Node& einsum = g.node(g.value(g.find_value("y")).producer);
  EXPECT_EQ(g.value(einsum.in(0)).type, DType::f32);
}

TEST(Precision, tf32_changes_no_type) {
  Graph g = mlp();
  const std::string before = print(g);
  EXPECT_EQ(convert_precision(g, "").converted, 0);
  convert_precision(g, "tf32");
  EXPECT_EQ(print(g), before);
  EXPECT_EQ(g.model.metadata.at("smelt.precision"), "tf32");
  EXPECT_THROW(convert_precision(g, "fp8"), Error);
}

TEST(Precision, patterns_match_as_in_a_shell) {
  EXPECT_TRUE(matches("layer?.*.norm", "layer1.0.norm"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("a*b", "acbd"));
  EXPECT_FALSE(matches("", "a"));
}

}  // namespace
}  // namespace smelt::testing
