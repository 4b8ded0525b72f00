// The "cpu" tactics of pointwise operators, attention and the row operators against their references, on fresh inputs with
// outputs poisoned before the run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/tactic.h"
#include "support/random.h"

namespace smelt::ops {
namespace {

Tensor random(DType t, const Shape& shape, uint32_t seed, double low = -2, double high = 2) {
  return random_tensor(t, shape, seed, low, high);
}

using Attributes = std::map<std::string, Attribute>;

struct Problem {
  Node node;
  std::vector<Tensor> inputs;

  Problem(std::string op, std::string_view domain, std::vector<Tensor> in, Attributes attrs = {}, const std::string& program = {},
          size_t outputs = 1)
      : inputs(std::move(in)) {
    node.op = std::move(op);
    node.domain = domain;
    node.attrs = std::move(attrs);
    if (!program.empty()) node.program = expr::Program::parse(program);
    for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(inputs[i].valid() ? ValueId(i) : ValueId::none);
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(ValueId(100 + i));
  }
};

BoundTensor bound(const Tensor& t) {
  BoundTensor b;
  b.type = t.type();
  b.shape = t.shape();
  return b;
}

/// Runs one tactic of the offer; a failed expectation and nothing when it is not among the candidates.
std::vector<Tensor> run_tactic(const Problem& p, std::string_view tactic, int threads, bool in_place = false) {
  std::vector<Tensor> outputs = evaluate(p.node, p.inputs);
  BoundNode node;
  node.node = &p.node;
  for (const Tensor& t : p.inputs) node.inputs.push_back(t.valid() ? bound(t) : BoundTensor{});
  for (const Tensor& t : outputs) node.outputs.push_back(bound(t));
  const Offer o = offer(node, {.threads = threads, .cpu = "test", .isa = "avx2"});
  for (const Candidate& c : o.candidates) {
    if (c.tactic != tactic) continue;
    const auto kernel = c.prepare();
    std::vector<Tensor> inputs;
    for (const Tensor& t : p.inputs) inputs.push_back(t.clone());
    std::vector<Tensor> results;
    for (const Tensor& t : outputs) {
      results.push_back(Tensor::empty(t.type(), t.shape()));
      if (t.nbytes()) std::memset(results.back().raw(), 0xff, static_cast<size_t>(t.nbytes()));  // NaN in every float type
    }
    if (in_place) {
      EXPECT_TRUE(kernel->in_place(0));
      results[0] = inputs[0];
    }
    Tensor workspace = Tensor::empty(DType::u8, {kernel->workspace() + 64});
    if (workspace.nbytes()) std::memset(workspace.raw(), 0xff, static_cast<size_t>(workspace.nbytes()));
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& t : inputs) in.push_back(t.valid() ? t.raw() : nullptr);
    for (Tensor& t : results) out.push_back(t.raw());
    for (int repeat = 0; repeat < (in_place ? 1 : 2); ++repeat) kernel->run({in, out, workspace.raw()});
    return results;
  }
  std::string reasons;
  for (const RefusedTactic& r : o.refused) reasons += r.tactic + ": " + r.why.text + "; ";
  ADD_FAILURE() << p.node.op << " has no tactic " << tactic << " (" << reasons << ')';
  return {};
}

double unit(DType t) {
  return t == DType::f16 ? 9.8e-4 : t == DType::bf16 ? 7.9e-3 : t == DType::f32 ? 1.2e-7 : t == DType::f64 ? 2.3e-16 : 0;
}

void expect_as_reference(const Problem& p, double units = 20, bool in_place = false) {
  const std::vector<Tensor> expected = evaluate(p.node, p.inputs);
  for (int threads : {1, 3}) {
    const std::vector<Tensor> got = run_tactic(p, "cpu", threads, in_place);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t o = 0; o < got.size(); ++o) {
      const auto x = got[o].to_doubles(), y = expected[o].to_doubles();
      for (size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(y[i])) {
          ASSERT_TRUE(std::isnan(x[i])) << p.node.op << " output " << o << " element " << i;
        } else if (x[i] != y[i]) {
          ASSERT_LE(std::abs(x[i] - y[i]), units * unit(got[o].type()) * std::max(1.0, std::abs(y[i])))
              << p.node.op << " output " << o << " element " << i;
        }
      }
    }
  }
}

const Tensor none;

TEST(CpuPointwise, every_arrangement_of_broadcast_operands) {
  const std::string program =
      "(in0:f32, in1:f32, in2:f32) { %3 = mul(in0, in1):f32; %4 = add(%3, in2):f32; %5 = tanh(%4):f32; return %5 }";
  const Shape shapes[][3] = {{{}, {}, {}},
                             {{7}, {1}, {}},
                             {{2, 3, 40, 50}, {3, 1, 1}, {1}},
                             {{2, 3, 40, 50}, {2, 3, 40, 50}, {50}},
                             {{2, 3, 5, 4}, {2, 3, 5, 1}, {4}},
                             {{1, 3, 1, 4}, {5, 1, 6, 1}, {4}},
                             {{64, 1}, {1, 65}, {1, 1}},
                             {{3000}, {3000}, {3000}},
                             {{2, 0, 3}, {3}, {1}},
                             {{3, 700, 2}, {700, 1}, {3, 1, 1}},
                             {{30000}, {1}, {30000}}};
  uint32_t seed = 0;
  for (const auto& s : shapes) {
    const Problem p("Pointwise", smelt_domain,
                    {random(DType::f32, s[0], ++seed), random(DType::f32, s[1], ++seed), random(DType::f32, s[2], ++seed)}, {},
                    program);
    expect_as_reference(p);
  }
}

TEST(CpuPointwise, several_outputs_of_several_types) {
  expect_as_reference(Problem("Pointwise", smelt_domain, {random(DType::f16, {5, 33}, 1), random(DType::i32, {33}, 2, -50, 50)},
                              {},
                              "(in0:f16, in1:i32) { %2 = cast(in0):f32; %3 = cast(in1):f32; %4 = add(%2, %3):f32; %5 = "
                              "cast(%4):f16; %6 = less(%2, %3):bool; return %5, %6 }",
                              2));
}

TEST(CpuPointwise, writes_over_its_input_where_it_says_so) {
  expect_as_reference(
      Problem("Pointwise", smelt_domain, {random(DType::f32, {40, 50}, 1), random(DType::f32, {50}, 2)}, {},
              "(in0:f32, in1:f32) { %2 = mul(in0, in0):f32; %3 = add(%2, in1):f32; %4 = sub(%3, in0):f32; return %4 }"),
      20, true);
}

TEST(CpuPointwise, onnx_operators_one_by_one) {
  auto f = [](uint32_t seed, Shape s = {6, 77}, double low = -2, double high = 2) {
    return random(DType::f32, std::move(s), seed, low, high);
  };
  for (const char* op : {"Abs",       "Neg",  "Exp",   "Sigmoid", "Tanh",      "Erf",         "Relu",
                         "Floor",     "Ceil", "Round", "Sin",     "Cos",       "Softplus",    "Softsign",
                         "HardSwish", "Elu",  "Celu",  "Selu",    "LeakyRelu", "HardSigmoid", "ThresholdedRelu",
                         "Sign",      "Atan", "Sinh",  "Gelu",    "Mish",      "Reciprocal"})
    for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) expect_as_reference(Problem(op, "", {f(1).cast(t)}), 30);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max", "Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"})
    for (DType t : {DType::f32, DType::i32, DType::i64})
      expect_as_reference(Problem(op, "", {f(1, {6, 77}, 1, 90).cast(t), f(2, {77}, 1, 90).cast(t)}), 4);
  expect_as_reference(Problem("Sqrt", "", {f(1, {99}, 0, 9)}));
  expect_as_reference(Problem("Log", "", {f(1, {99}, 0.1, 9)}));
  expect_as_reference(Problem("Pow", "", {f(1, {99}, 0.1, 9), f(2, {99})}));
  for (DType t : {DType::i32, DType::i64, DType::u8})
    for (DType power : {DType::f32, DType::f64, DType::f16})
      expect_as_reference(Problem("Pow", "", {f(1, {99}, 0, 9).cast(t), f(2, {99}, 0.5, 2).cast(power)}));
  const Problem root("Pow", "", {Tensor::of<int32_t>({3}, {4, 9, 2}), Tensor::scalar(0.5f)});
  EXPECT_EQ(run_tactic(root, "cpu", 1)[0].to_ints(), (std::vector<int64_t>{2, 3, 1}));
  expect_as_reference(Problem("PRelu", "", {f(1, {3, 4, 5}), f(2, {4, 1})}));
  expect_as_reference(Problem("Clip", "", {f(1), Tensor::scalar(-0.5f), none}));
  expect_as_reference(Problem("Clip", "", {f(1), none, Tensor::scalar(0.5f)}));
  expect_as_reference(Problem("Where", "", {f(1).cast(DType::boolean), f(2), f(3, {1, 77})}));
  expect_as_reference(Problem("Mod", "", {f(1, {99}, -50, 50).cast(DType::i32), f(2, {99}, 1, 9).cast(DType::i32)}));
  expect_as_reference(Problem("Mod", "", {f(1, {99}, -50, 50), f(2, {99}, 1, 9)}, {{"fmod", int64_t{1}}}));
  expect_as_reference(Problem("Mod", "", {f(1, {99}, -50, 50), f(2, {99}, -9, 9)}));
  expect_as_reference(Problem("Mean", "", {f(1), f(2), f(3)}));
  expect_as_reference(Problem("Shrink", "", {f(1)}, {{"lambd", 0.7f}, {"bias", 0.2f}}));
  expect_as_reference(Problem("CastLike", "", {f(1), Tensor::zeros(DType::f16, {3})}));
  expect_as_reference(Problem("Neg", "", {f(1, {99}, -100, 100).cast(DType::i64)}));
  expect_as_reference(Problem("Dropout", "", {f(1)}, {}, "", 2));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t negative : {0, 1})
    expect_as_reference(Problem("IsInf", "", {Tensor::of<float>({3}, {infinity, -infinity, 1})},
                                {{"detect_negative", negative}, {"detect_positive", 1 - negative}}));
  for (const char* direction : {"LEFT", "RIGHT"})
    for (const DType t : {DType::i8, DType::i32, DType::i64})
      expect_as_reference(Problem("BitShift", "", {f(1, {99}, -100, 100).cast(t), f(2, {99}, -3, 70).cast(t)},
                                  {{"direction", std::string(direction)}}));
  expect_as_reference(Problem("And", "", {f(1).cast(DType::boolean), f(2).cast(DType::boolean)}));
  expect_as_reference(Problem("Sum", "", {f(1), f(2), f(3)}));
  expect_as_reference(Problem("Cast", "", {f(1)}, {{"to", static_cast<int64_t>(DType::f16)}}));
  expect_as_reference(Problem("Cast", "", {f(1, {99}, -100, 100)}, {{"to", static_cast<int64_t>(DType::i8)}}));
}

class Floats : public testing::TestWithParam<DType> {
 protected:
  Tensor r(Shape s, uint32_t seed) const { return random(GetParam(), std::move(s), seed); }
  /// "(in0:f32, in1:T) { …add… }", rounded to T when `round`.
  std::string add(bool round) const {
    const std::string t(name(GetParam()));
    if (GetParam() == DType::f32) return "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }";
    return "(in0:f32, in1:" + t + ") { %2 = cast(in1):f32; %3 = add(in0, %2):f32; " +
           (round ? "%4 = cast(%3):" + t + "; return %4 }" : "return %3 }");
  }
};

TEST_P(Floats, attention_over_tails_of_rows_columns_and_depth) {
  // batch, heads, kv heads, queries, keys, depth, value depth
  const int64_t sizes[][7] = {{1, 1, 1, 1, 1, 1, 1},     {2, 4, 2, 7, 13, 8, 8},
                              {1, 2, 2, 61, 50, 20, 36}, {2, 3, 1, 97, 300, 64, 64},
                              {1, 1, 1, 5, 700, 16, 3},  {2, 4, 2, 1, 37, 40, 72},  // few queries: unpacked
                              {1, 2, 1, 3, 300, 64, 33}, {1, 1, 1, 2, 5, 3, 2}};
  for (const auto& z : sizes)
    for (int64_t transposed : {0, 1}) {
      const Shape k = transposed ? Shape{z[0], z[2], z[5], z[4]} : Shape{z[0], z[2], z[4], z[5]};
      const std::vector<Tensor> qkv = {r({z[0], z[1], z[3], z[5]}, 1), r(k, 2), r({z[0], z[2], z[4], z[6]}, 3)};
      const Attributes attrs = {{"scale", 0.3f}, {"k_transposed", transposed}};
      expect_as_reference(Problem("Attention", smelt_domain, qkv, attrs), 40);
      std::vector<Tensor> masked = qkv;
      masked.push_back(r({z[0], 1, 1, z[4]}, 4));
      expect_as_reference(Problem("Attention", smelt_domain, masked, attrs, add(false)), 40);
      masked.back() = r({z[3], z[4]}, 5);
      expect_as_reference(Problem("Attention", smelt_domain, masked, attrs, add(false)), 40);
    }
}

TEST_P(Floats, norm_with_everything_and_with_nothing) {
  for (const char* kind : {"rms", "layer"})
    for (int64_t width : {1, 5, 64, 771}) {
      const Attributes attrs = {{"kind", std::string(kind)}, {"axis", int64_t{-1}}, {"epsilon", 1e-3f}};
      // bf16 results differ by an ulp where the f32 sums' order moves a value over a rounding boundary.
      expect_as_reference(Problem("Norm", smelt_domain, {r({3, 7, width}, 1)}, attrs), 40);
      expect_as_reference(
          Problem("Norm", smelt_domain, {r({3, 7, width}, 1), r({3, 7, width}, 2), r({width}, 3), r({width}, 4)}, attrs, {}, 2),
          40);
      expect_as_reference(
          Problem("Norm", smelt_domain, {r({3, 7, width}, 1), none, r({width}, 3), none, r({3, 1, width}, 4)}, attrs, add(true)),
          40);
    }
  const Attributes axis2 = {{"kind", std::string("layer")}, {"axis", int64_t{-2}}};
  expect_as_reference(Problem("Norm", smelt_domain, {r({2, 3, 4, 9}, 1), none, r({3, 1, 1}, 2), r({3, 1, 1}, 3)}, axis2), 40);
  expect_as_reference(Problem("Norm", smelt_domain, {r({2, 3, 4, 9}, 1), none, r({3, 1, 1}, 2), r({3, 1, 1}, 3), r({3, 4, 1}, 4)},
                              axis2, add(true)),
                      40);
  expect_as_reference(Problem("LayerNormalization", "", {r({5, 33}, 1), r({33}, 2), r({33}, 3)}), 40);
}

TEST_P(Floats, rotary_embedding_of_both_kinds_with_both_tables) {
  for (int64_t interleaved : {0, 1})
    for (int64_t depth : {4, 10, 64})
      for (int64_t width : {depth, depth / 2})
        expect_as_reference(Problem("RotaryEmbedding", smelt_domain, {r({2, 3, 5, depth}, 1), r({5, width}, 2), r({5, width}, 3)},
                                    {{"interleaved", interleaved}}),
                            8);
}

TEST_P(Floats, softmax_and_its_logarithm) {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (int64_t width : {1, 3, 8, 100, 1031})
      expect_as_reference(Problem(op, "", {r({3, 5, width}, 1)}, {{"axis", int64_t{-1}}}), 20);
}

TEST_P(Floats, reductions_over_any_axes) {
  using Ints = std::vector<int64_t>;
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL2"})
    for (const Ints& axes : {Ints{}, Ints{-1}, Ints{0}, Ints{1}, Ints{0, 2}, Ints{1, 2}})
      expect_as_reference(
          Problem(op, "", {random(GetParam(), {3, 5, 37}, 1, 0.9, 1.1)}, {{"axes", axes}, {"keepdims", int64_t{0}}}), 60);
  const std::string t(name(GetParam())), cast = GetParam() == DType::f32 ? "mul(in0, in0)" : "cast(in0)";
  const std::string post =
      GetParam() == DType::f32
          ? "(in0:f32, in1:f32) { %2 = div(in1, in0):f32; return %2 }"
          : "(in0:f32, in1:" + t + ") { %2 = cast(in1):f32; %3 = div(%2, in0):f32; %4 = cast(%3):" + t + "; return %4 }";
  expect_as_reference(Problem("Reduce", smelt_domain, {r({4, 700, 3}, 1), r({4, 1, 3}, 2)},
                              {{"kind", std::string("l2")}, {"axes", Ints{1}}, {"inputs_before", int64_t{1}}, {"post", post}},
                              "(in0:" + t + ") { %1 = " + cast + ":f32; return %1 }"),
                      60);
}

TEST(CpuReduce, long_rows_broadcast_operands_integers_and_nothing_at_all) {
  using Ints = std::vector<int64_t>;
  expect_as_reference(Problem("ReduceMean", "", {random(DType::f32, {2, 100000}, 1)}, {{"axes", Ints{1}}}), 60);
  expect_as_reference(Problem("ReduceSum", "", {random(DType::i64, {3, 50, 7}, 1, -1e6, 1e6)}, {{"axes", Ints{1}}}), 0);
  expect_as_reference(Problem("ReduceSum", "", {random(DType::f32, {3, 0, 7}, 1)}, {{"axes", Ints{1}}}));
  expect_as_reference(Problem("Reduce", smelt_domain, {random(DType::f32, {6, 1, 9}, 1), random(DType::f32, {5, 1}, 2)},
                              {{"kind", std::string("sum")}, {"axes", Ints{0, 2}}, {"inputs_before", int64_t{2}}},
                              "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; return %2 }"));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Floats, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

TEST(CpuAttention, guards_rows_without_a_number_and_ignores_masked_keys) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> mask(2 * 40, 0);
  for (size_t i = 0; i < 40; ++i) mask[i] = i % 3 ? 0 : -inf, mask[40 + i] = -inf;
  const Problem p("Attention", smelt_domain,
                  {random(DType::f32, {1, 2, 2, 8}, 1), random(DType::f32, {1, 2, 40, 8}, 2),
                   random(DType::f32, {1, 2, 40, 8}, 3), Tensor::of<float>({2, 40}, mask)},
                  {{"nan_guard", int64_t{1}}}, "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
  expect_as_reference(p);
  EXPECT_EQ(run_tactic(p, "cpu", 1)[0].to_doubles()[8], 0);
}

}  // namespace
}  // namespace smelt::ops
