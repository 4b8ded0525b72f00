// Every fused operator's reference against the standard operators it stands for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/core/expand.h"
#include "ops/core/operator.h"
#include "support/errors.h"
#include "support/random.h"

namespace smelt::ops {
namespace {

/// A graph of one fused node over inputs of these types and shapes.
struct Single {
  Graph g;
  NodeId node = NodeId::none;
  std::vector<Tensor> inputs;  // those that are present

  Single(const std::string& op, const std::vector<Tensor>& tensors, std::map<std::string, Attribute> attrs,
         const std::string& program = {}, size_t outputs = 1) {
    Node n{.domain = std::string(smelt_domain), .op = op, .name = "n", .attrs = std::move(attrs)};
    if (!program.empty()) n.program = expr::Program::parse(program);
    std::vector<TensorDesc> in;
    for (const Tensor& t : tensors) {
      if (!t.valid()) {
        n.inputs.push_back(ValueId::none);
        in.emplace_back();
        continue;
      }
      n.inputs.push_back(g.add_value("", t.type(), to_sym(t.shape())));
      g.add_input(n.inputs.back());
      inputs.push_back(t);
      in.push_back({t.type(), t.shape(), true, &t});
    }
    std::vector<TensorDesc> out(outputs);
    for (size_t i = 0; i < outputs; ++i) n.outputs.push_back(ValueId(1000));
    infer(n, in, out);
    for (size_t i = 0; i < outputs; ++i) g.add_output(n.outputs[i] = g.add_value("", out[i].type, to_sym(out[i].shape)));
    node = g.add_node(n);
    verify(g);
  }
};

/// Largest difference in units of `unit` times the larger of 1 and the value; infinity where types or shapes differ.
double difference(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return INFINITY;
  const auto x = a.to_doubles(), y = b.to_doubles();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    const double d = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? INFINITY : d;
  }
  return worst;
}

double unit(DType t) {
  switch (t) {
    case DType::f64: return 2.3e-16;
    case DType::f16: return 9.8e-4;
    case DType::bf16: return 7.9e-3;
    default: return 1.2e-7;
  }
}

void expect_same(const Single& s, double units = 40) {
  const std::vector<Tensor> reference = evaluate(s.g, s.inputs);
  const Graph body = expand(s.g, s.node);
  EXPECT_NO_THROW(verify(body)) << print(body);
  const std::vector<Tensor> expanded = evaluate(body, s.inputs);
  ASSERT_EQ(reference.size(), expanded.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_LE(difference(reference[i], expanded[i]), units * unit(reference[i].type())) << "output " << i << ' ' << print(body);
    double top = 0;
    for (double v : reference[i].to_doubles()) top = std::max(top, std::abs(v));
    EXPECT_GT(top, 0) << "all zero: the comparison would prove nothing";
  }
}

using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<int64_t>;
const Tensor none;

class FusedTypes : public testing::TestWithParam<DType> {
 protected:
  Tensor r(Shape shape, uint32_t seed) const { return random_tensor(GetParam(), shape, seed); }
  DType acc() const { return GetParam() == DType::f64 ? DType::f64 : DType::f32; }
  /// The program with $A for the accumulator's type and $T for the tested one.
  std::string program(std::string text) const {
    for (const auto& [key, t] : {std::pair("$A", acc()), std::pair("$T", GetParam())})
      for (size_t at; (at = text.find(key)) != text.npos;) text.replace(at, 2, name(t));
    return text;
  }
  /// "%i = cast(from):$T" for half precision, where a result must be rounded; the text of a result otherwise.
  std::string rounded(const std::string& head, const std::string& from, int next) const {
    if (acc() == GetParam()) return program(head + " return " + from + " }");
    return program(head + " %" + std::to_string(next) + " = cast(" + from + "):$T; return %" + std::to_string(next) + " }");
  }
  /// An operand widened to the accumulator's type: ("%2", statement) or the operand itself.
  bool half() const { return acc() != GetParam(); }
};

TEST_P(FusedTypes, conv_with_bias_and_without_a_program) {
  expect_same(
      Single("Conv", {r({2, 3, 7, 6}, 1), r({4, 3, 3, 3}, 2), r({4}, 3)}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 1}}}));
}

TEST_P(FusedTypes, conv_reads_its_segments_upsampled_and_adds_a_residual) {
  const std::string add = half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A; %4 = relu(%3):$A;"
                                 : "(in0:$A, in1:$T) { %2 = const(1):$A; %3 = add(in0, in1):$A; %4 = relu(%3):$A;";
  expect_same(Single("Conv", {r({1, 2, 4, 3}, 1), r({1, 3, 8, 6}, 2), r({5, 5, 3, 3}, 3), none, r({1, 5, 8, 6}, 4)},
                     {{"segments", int64_t{2}}, {"upsample", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}}, rounded(add, "%4", 5)));
}

TEST_P(FusedTypes, matmul_transposes_scales_and_applies_its_program) {
  const std::string head = half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A; %4 = silu(%3):$A;"
                                  : "(in0:$A, in1:$T) { %2 = const(1):$A; %3 = add(in0, in1):$A; %4 = silu(%3):$A;";
  for (int64_t ta : {0, 1})
    for (int64_t tb : {0, 1})
      expect_same(Single("MatMul", {r(ta ? Shape{2, 5, 3} : Shape{2, 3, 5}, 1), r(tb ? Shape{4, 5} : Shape{5, 4}, 2), r({4}, 3)},
                         {{"transA", ta}, {"transB", tb}, {"alpha", 0.5f}}, rounded(head, "%4", 5)));
}

TEST_P(FusedTypes, joined_products_have_weights_and_operands_each) {
  const std::string head = half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A; %4 = silu(%3):$A;"
                                  : "(in0:$A, in1:$T) { %2 = const(1):$A; %3 = add(in0, in1):$A; %4 = silu(%3):$A;";
  for (int64_t tb : {0, 1})
    expect_same(Single(
        "JoinedMatMul",
        {r({2, 3, 5}, 1), r(tb ? Shape{4, 5} : Shape{5, 4}, 2), r(tb ? Shape{6, 5} : Shape{5, 6}, 3), r({4}, 4), r({6}, 5)},
        {{"transB", tb}, {"alpha", 0.5f}}, rounded(head, "%4", 5), 2));
  expect_same(Single("JoinedMatMul", {r({3, 5}, 1), r({5, 4}, 2), r({5, 6}, 3), r({5, 2}, 4)}, {}, {}, 3));
}

TEST_P(FusedTypes, cached_attention_joins_the_past_and_what_is_new) {
  const Attributes attrs = {{"scale", 0.4f}};
  expect_same(Single("CachedAttention",
                     {r({2, 4, 1, 8}, 1), r({2, 2, 5, 8}, 2), r({2, 2, 5, 6}, 3), r({2, 2, 1, 8}, 4), r({2, 2, 1, 6}, 5)}, attrs,
                     {}, 3));
  const std::string head = half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A; return %3 }"
                                  : "(in0:$A, in1:$T) { %2 = add(in0, in1):$A; return %2 }";
  expect_same(Single(
      "CachedAttention",
      {r({1, 3, 4, 8}, 1), r({1, 3, 7, 8}, 2), r({1, 3, 7, 8}, 3), r({1, 3, 4, 8}, 4), r({1, 3, 4, 8}, 5), r({1, 1, 4, 11}, 6)},
      attrs, program(head), 3));
}

TEST_P(FusedTypes, joined_rotary_turns_both_by_the_same_tables) {
  for (int64_t interleaved : {0, 1})
    for (int64_t columns : {8, 4})
      expect_same(Single("JoinedRotary", {r({2, 4, 3, 8}, 1), r({2, 2, 3, 8}, 2), r({3, columns}, 3), r({3, columns}, 4)},
                         {{"interleaved", interleaved}}, {}, 2));
}

TEST_P(FusedTypes, norm_of_both_kinds_with_and_without_residual_gamma_and_beta) {
  for (const char* kind : {"rms", "layer"}) {
    const Attributes attrs = {{"kind", std::string(kind)}, {"epsilon", 1e-5f}, {"axis", int64_t{-1}}};
    expect_same(Single("Norm", {r({3, 4, 32}, 1)}, attrs));
    expect_same(Single("Norm", {r({3, 4, 32}, 1), r({3, 4, 32}, 2), r({32}, 3), r({32}, 4)}, attrs, {}, 2));
  }
  expect_same(Single("Norm", {r({2, 3, 4, 5}, 1), none, r({3, 1, 1}, 2), r({3, 1, 1}, 3)},
                     {{"kind", std::string("layer")}, {"axis", int64_t{2}}}));
}

TEST_P(FusedTypes, norm_modulates_its_result) {
  const std::string head = half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = mul(in0, %2):$A;"
                                  : "(in0:$A, in1:$T) { %2 = const(1):$A; %3 = mul(in0, in1):$A;";
  expect_same(Single("Norm", {r({3, 4, 32}, 1), none, none, none, r({3, 1, 32}, 2)},
                     {{"kind", std::string("layer")}, {"axis", int64_t{-1}}}, rounded(head, "%3", 4)));
}

TEST_P(FusedTypes, attention_with_grouped_heads_a_mask_and_either_order_of_keys) {
  const std::string mask = program(half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A; return %3 }"
                                          : "(in0:$A, in1:$T) { %2 = add(in0, in1):$A; return %2 }");
  for (int64_t transposed : {0, 1}) {
    const Attributes attrs = {{"scale", 0.25f}, {"k_transposed", transposed}};
    const Tensor k = r(transposed ? Shape{2, 2, 8, 7} : Shape{2, 2, 7, 8}, 2);
    expect_same(Single("Attention", {r({2, 4, 5, 8}, 1), k, r({2, 2, 7, 6}, 3)}, attrs));
    expect_same(Single("Attention", {r({2, 4, 5, 8}, 1), k, r({2, 2, 7, 6}, 3), r({2, 1, 1, 7}, 4)}, attrs, mask));
  }
}

TEST_P(FusedTypes, rotary_embedding_of_halves_and_pairs_with_full_and_half_tables) {
  for (int64_t interleaved : {0, 1})
    for (int64_t width : {8, 4})
      expect_same(
          Single("RotaryEmbedding", {r({2, 3, 5, 8}, 1), r({5, width}, 2), r({5, width}, 3)}, {{"interleaved", interleaved}}));
}

TEST_P(FusedTypes, pointwise_broadcasts_every_output_to_all_operands) {
  const std::string p = program(half() ? "(in0:$T, in1:$T, in2:$T) { %3 = cast(in0):$A; %4 = cast(in1):$A; %5 = add(%3, %4):$A; "
                                         "%6 = cast(%5):$T; %7 = neg(%4):$A; %8 = cast(%7):$T; return %6, %8 }"
                                       : "(in0:$T, in1:$T, in2:$T) { %3 = add(in0, in1):$A; %4 = neg(in1):$A; return %3, %4 }");
  expect_same(Single("Pointwise", {r({3, 1}, 1), r({4}, 2), r({2, 1, 1}, 3)}, {}, p, 2));
}

TEST_P(FusedTypes, reduce_of_every_kind_between_two_programs) {
  const std::string before =
      program(half() ? "(in0:$T, in1:$T) { %2 = cast(in0):$A; %3 = cast(in1):$A; %4 = mul(%2, %3):$A; return %4 }"
                     : "(in0:$T, in1:$T) { %2 = mul(in0, in1):$A; return %2 }");
  const std::string post = rounded(half() ? "(in0:$A, in1:$T) { %2 = cast(in1):$A; %3 = add(in0, %2):$A;"
                                          : "(in0:$A, in1:$T) { %2 = const(1):$A; %3 = add(in0, in1):$A;",
                                   "%3", 4);
  for (const char* kind : {"sum", "mean", "max", "min", "prod", "sum_square", "l2"})
    for (int64_t keep : {0, 1})
      expect_same(Single(
          "Reduce", {r({3, 4, 5}, 1), r({5}, 2), r({1}, 3)},
          {{"kind", std::string(kind)}, {"axes", Ints{0, -1}}, {"keepdims", keep}, {"inputs_before", int64_t{2}}, {"post", post}},
          before));
}

INSTANTIATE_TEST_SUITE_P(Fused, FusedTypes, testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

TEST(Fused, attention_guards_rows_without_a_number) {
  const float inf = INFINITY;
  const Tensor mask = Tensor::of<float>({1, 1, 2, 3}, {0, -inf, 0, -inf, -inf, -inf});
  const Single s("Attention",
                 {random_tensor(DType::f32, {1, 2, 2, 4}, 1), random_tensor(DType::f32, {1, 2, 3, 4}, 2),
                  random_tensor(DType::f32, {1, 2, 3, 4}, 3), mask},
                 {{"scale", 0.5f}, {"nan_guard", int64_t{1}}}, "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
  expect_same(s);
  EXPECT_EQ(evaluate(s.g, s.inputs)[0].to_doubles()[5], 0);
}

TEST(Fused, quantised_conv_is_exact_for_signed_and_unsigned_activations) {
  for (DType t : {DType::u8, DType::i8}) {
    const Tensor x = random_tensor(t, {2, 3, 6, 5}, 1, t == DType::u8 ? 0 : -128, t == DType::u8 ? 255 : 127),
                 w = random_tensor(DType::i8, {4, 3, 3, 3}, 2, -127, 127);
    expect_same(Single("QLinearConv",
                       {x, w, random_tensor(DType::i32, {4}, 3, -900, 900), Tensor::scalar(0.02f),
                        Tensor::scalar<int64_t>(5).cast(t), random_tensor(DType::f32, {4}, 4, 0.001, 0.01), none},
                       {{"pads", Ints{1, 1, 1, 1}}}, "(in0:f32) { %1 = relu(in0):f32; return %1 }"),
                2);
  }
}

TEST(Fused, quantised_conv_of_several_images_scales_each_by_its_own_number) {
  for (const DType t : {DType::u8, DType::i8})
    for (const bool zeros : {false, true}) {
      const double low = t == DType::u8 ? 0 : -128, high = t == DType::u8 ? 255 : 127;
      expect_same(
          Single("QLinearConv",
                 {random_tensor(t, {2, 3, 6, 5}, 1, low, high), random_tensor(t, {2, 5, 6, 5}, 2, low, high),
                  random_tensor(t, {2, 1, 6, 5}, 3, low, high), random_tensor(DType::i8, {4, 9, 3, 3}, 4, -127, 127), none,
                  Tensor::of<float>({3}, {0.02f, 0.3f, 0.007f}), zeros ? Tensor::of<int64_t>({3}, {5, 0, 117}).cast(t) : none,
                  random_tensor(DType::f32, {4}, 5, 0.001, 0.01), none, random_tensor(DType::f32, {4, 1, 1}, 6)},
                 {{"pads", Ints{1, 1, 1, 1}}, {"segments", int64_t{3}}},
                 "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }"),
          2);
    }
}

TEST(Fused, quantised_conv_of_blocks_of_channels_gives_such_blocks) {
  for (const DType t : {DType::u8, DType::i8}) {
    const double low = t == DType::u8 ? 0 : -128, high = t == DType::u8 ? 255 : 127;
    expect_same(Single("QLinearConv",
                       {random_tensor(t, {2, 2, 6, 5, 32}, 1, low, high), random_tensor(DType::i8, {96, 64, 3, 3}, 2, -127, 127),
                        random_tensor(DType::i32, {96}, 3, -900, 900), Tensor::scalar(0.02f), Tensor::scalar<int64_t>(5).cast(t),
                        random_tensor(DType::f32, {96}, 4, 0.001, 0.01), none, random_tensor(DType::f32, {2, 3, 3, 2, 32}, 5)},
                       {{"pads", Ints{1, 1, 1, 0}}, {"strides", Ints{2, 2}}, {"blocked", int64_t{1}}},
                       "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }"),
                2);
  }
}

TEST(Fused, transposed_conv_ends_with_its_program) {
  const std::string program = "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }";
  const Tensor x = random_tensor(DType::f32, {2, 6, 5, 4}, 1), w = random_tensor(DType::f32, {6, 2, 3, 4}, 2);
  for (const int64_t group : {1, 3}) {
    const Tensor b = random_tensor(DType::f32, {2 * group}, 3);
    for (const Tensor& operand :
         {random_tensor(DType::f32, {2, 2 * group, 10, 8}, 4), random_tensor(DType::f32, {2 * group, 1, 1}, 5)})
      for (const Tensor& bias : {b, none})
        expect_same(
            Single("ConvTranspose", {x, w, bias, operand},
                   {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 0}}, {"group", group}},
                   program),
            2);
  }
}

TEST(Fused, first_layers_convert_their_image_and_pool_what_they_give) {
  const Ints two{2, 2}, around{1, 1, 1, 1}, kernel{3, 3};
  const Tensor bytes = random_tensor(DType::u8, {2, 3, 9, 8}, 1, 0, 255), w = random_tensor(DType::f16, {4, 3, 3, 3}, 2),
               b = random_tensor(DType::f16, {4}, 3), scale = random_tensor(DType::f32, {4, 1, 1}, 4);
  const std::string image =
      "(in0:u8) { %1 = cast(in0):f32; %2 = const(0.0078125):f32; %3 = mul(%1, %2):f32; %4 = cast(%3):f16; return %4 }";
  const std::string program = "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = relu(%2):f32; %4 = cast(%3):f16; return %4 }";
  const std::map<std::string, Attribute> conv{{"pads", around}, {"strides", two}},
      pool{{"pool_kernel", kernel}, {"pool_strides", two}, {"pool_pads", around}};
  for (const bool converts : {false, true})
    for (const bool pools : {false, true}) {
      std::map<std::string, Attribute> attrs = conv;
      if (converts) attrs["image"] = image;
      if (pools) attrs.insert(pool.begin(), pool.end());
      const Tensor x = converts ? bytes : random_tensor(DType::f16, {2, 3, 9, 8}, 5);
      expect_same(Single("StemConv", {x, w, b, scale}, attrs, program), 2);
      const std::string quantizes =
          "(in0:f32) { %1 = const(0.02):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const(0):f32; "
          "%5 = const(255):f32; %6 = clip(%3, %4, %5):f32; %7 = cast(%6):u8; return %7 }";
      if (converts) attrs["image"] = quantizes;
      expect_same(
          Single("StemQLinearConv",
                 {converts ? random_tensor(DType::f32, {2, 3, 9, 8}, 6, 0, 5) : bytes,
                  random_tensor(DType::i8, {4, 3, 3, 3}, 2, -127, 127), random_tensor(DType::i32, {4}, 3, -900, 900),
                  Tensor::scalar(0.02f), Tensor::scalar<uint8_t>(5), random_tensor(DType::f32, {4}, 4, 0.001, 0.01), none},
                 attrs, "(in0:f32) { %1 = relu(in0):f32; return %1 }"),
          2);
    }
}

TEST(Fused, quantised_matmul_is_exact_with_zero_points_on_both_sides) {
  for (DType t : {DType::u8, DType::i8})
    for (int64_t tb : {0, 1}) {
      const Tensor a = random_tensor(t, {2, 3, 16}, 1, t == DType::u8 ? 0 : -128, t == DType::u8 ? 255 : 127);
      const Tensor b = random_tensor(DType::u8, tb ? Shape{4, 16} : Shape{16, 4}, 2, 0, 255);
      expect_same(Single("QLinearMatMul",
                         {a, b, Tensor::scalar(0.02f), Tensor::scalar<int64_t>(3).cast(t),
                          random_tensor(DType::f32, {4}, 4, 0.001, 0.01), Tensor::scalar<uint8_t>(128)},
                         {{"transB", tb}}),
                  2);
    }
}

TEST(Fused, shapes_that_do_not_fit_are_errors_with_the_numbers) {
  auto f = [](Shape s) { return random_tensor(DType::f32, std::move(s), 1); };
  EXPECT_THAT(error_of([&] {
                Single("Attention", {f({1, 3, 2, 4}), f({1, 2, 5, 4}), f({1, 2, 5, 4})}, {});
              }),
              testing::HasSubstr("3 query heads over 2 key"));
  EXPECT_THAT(error_of([&] {
                Single("Attention", {f({1, 2, 2, 4}), f({1, 2, 5, 3}), f({1, 2, 5, 4})}, {});
              }),
              testing::HasSubstr("keys of depth 3 for queries of depth 4"));
  EXPECT_THAT(error_of([&] {
                Single("RotaryEmbedding", {f({2, 7}), f({7}), f({7})}, {});
              }),
              testing::HasSubstr("even last extent"));
  EXPECT_THAT(error_of([&] {
                Single("Norm", {f({2, 8}), none, f({3})}, {{"kind", std::string("rms")}});
              }),
              testing::HasSubstr("does not broadcast to x's [2, 8]"));
  EXPECT_THAT(error_of([&] {
                Single("Norm", {f({2, 8})}, {{"kind", std::string("batch")}});
              }),
              testing::HasSubstr("expected 'rms' or 'layer'"));
  EXPECT_THAT(error_of([&] {
                Single("MatMul", {f({2, 3}), f({3, 4}), f({5})}, {}, "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
              }),
              testing::HasSubstr("does not broadcast to the result's [2, 4]"));
  EXPECT_THAT(error_of([&] {
                Single("Reduce", {f({2, 3})}, {{"kind", std::string("median")}}, "(in0:f32) { return in0 }");
              }),
              testing::HasSubstr("kind = 'median'"));
  EXPECT_THAT(error_of([&] {
                Single("Pointwise", {f({2, 3}), f({4})}, {}, "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
              }),
              testing::HasSubstr("do not broadcast"));
}

}  // namespace
}  // namespace smelt::ops
