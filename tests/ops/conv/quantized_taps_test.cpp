// Convolutions of 8-bit integers of few channels a group over plain images (src/ops/conv/cpu_int8_taps.cpp), byte for byte.
#include "ops/config_check.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops::test {
namespace {

using Case = QuantizedCase;

Trial plain_trial(const Case& c) {
  Trial t = quantized_trial(c, Layout::plain);
  t.bound.outputs[0].layout = Layout::plain;
  return t;
}

void agree(Trial& t) {
  const Tensor want = expected(t);
  for (const int threads : {1, 3}) config_agrees(t, "taps", threads, want, 0);
}

bool is_offered(Trial& t) {
  t.bound.node = &t.node;
  return std::ranges::any_of(offer(t.bound, Machine{}).candidates, [](const Candidate& c) { return c.config == "taps"; });
}

TEST(QuantizedTaps, give_the_references_bytes) {
  std::vector<Case> cases = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}},                                     // one of each
      {{1, 2, 4, 6}, {2, 1, 3, 3}, {7, 8, 7, 8}, {3, 5}, {1, 1}, 2},    // windows that lie outside
      {{1, 40, 300, 61}, {7, 40, 5, 3}, {2, 1, 2, 1}},                  // lines in chunks, of more than 512 results
      {{2, 4, 3, 700}, {4, 1, 1, 3}, {0, 1, 0, 1}, {1, 1}, {1, 1}, 4},  // lines of more than 512
      {{3, 4, 117}, {6, 2, 5}, {2, 2}, {2}, {1}, 2},                    // one axis
      {{1, 6, 5, 9, 13}, {12, 1, 3, 2, 3}, {1, 0, 1, 1, 1, 1}, {1, 2, 1}, {1, 1, 1}, 6},  // three
  };
  std::ranges::copy(grouped_cases(), std::back_inserter(cases));
  for (const Case& c : cases)
    for (const DType x : {DType::u8, DType::i8})
      for (const DType w : {DType::u8, DType::i8}) {
        SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(x)) + std::string(name(w)));
        Case typed = c;
        typed.x_type = x, typed.w_type = w, typed.y_type = x == w ? DType::i8 : DType::u8;
        typed.per_channel = x == DType::i8, typed.bias = w == DType::i8;
        Trial t = plain_trial(typed);
        agree(t);
      }
}

/// A fused_trial over plain images; `residual`: the type of in1, of the output's shape.
Trial plain_fused(const std::string& program, DType y, DType residual = DType::undefined) {
  Trial t = fused_trial(program);
  t.bound.inputs[0].layout = Layout::plain;
  if (residual != DType::undefined) t.add(random_bytes(residual, {2, 21, 9, 7}, 6), false);
  t.result(y, {2, 21, 9, 7});
  return t;
}

TEST(QuantizedTaps, end_in_programs_of_one_pass) {
  Trial bounds =
      plain_fused("(in0:f32) { %1 = relu(in0):f32; " + quantized("%1", "0.031", 88, 2, "u8") + "return %10 }", DType::u8);
  agree(bounds);
  Trial table = plain_fused("(in0:f32) { " + quantized("in0", "0.031", 88, 1, "u8") + dequantized("%9", "0.031", 88, 10) +
                                "%16 = hard_swish(%15):f32; " + quantized("%16", "0.02", 17, 17, "u8") + "return %25 }",
                            DType::u8);
  agree(table);
  for (const DType type : {DType::u8, DType::i8}) {
    const std::string head = "(in0:f32, in1:" + std::string(name(type)) + ") { ";
    Trial rounded = plain_fused(head + quantized("in0", "0.31", 88, 2, "u8") + dequantized("%10", "0.31", 88, 11) +
                                    dequantized("in1", "0.17", 5, 17) + "%23 = add(%16, %22):f32; " +
                                    quantized("%23", "0.4", 12, 24, "u8") + "return %32 }",
                                DType::u8, type);
    agree(rounded);
    Trial alone = plain_fused(head + dequantized("in1", "0.17", 5, 2) + "%8 = add(in0, %7):f32; " +
                                  quantized("%8", "0.4", 12, 9, "i8") + "return %17 }",
                              DType::i8, type);
    agree(alone);
  }
  Trial numbers =
      fused_trial("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; " + quantized("%2", "0.31", -3, 3, "i8") + "return %11 }");
  numbers.bound.inputs[0].layout = Layout::plain;
  numbers.add(random_tensor(DType::f32, {21, 1, 1}, 9, -5, 5), true);
  numbers.result(DType::i8, {2, 21, 9, 7});
  agree(numbers);
}

TEST(QuantizedTaps, take_a_zero_point_that_is_computed) {
  Trial t = plain_fused("(in0:f32) { " + quantized("in0", "0.31", 88, 1, "u8") + "return %9 }", DType::u8);
  t.inputs[4] = Tensor::scalar<uint8_t>(211);
  t.bound.inputs[4] = {DType::u8, {}};
  agree(t);
}

/// 2^24 = 16777216 is the first sum that may have been rounded on the way; the image's zero point is 117.
TEST(QuantizedTaps, refuse_sums_that_floats_may_round) {
  const int64_t fitting = ((1 << 24) - 1) / 138 / 127;
  for (const int64_t taps : {fitting, fitting + 1}) {
    Trial t = plain_trial({{1, 1, 1, taps}, {1, 1, 1, taps}});
    set_weights(t, Tensor::of<int8_t>({1, 1, 1, taps}, std::vector<int8_t>(static_cast<size_t>(taps), 127)), 0);
    for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
    EXPECT_EQ(is_offered(t), taps == fitting);
    if (taps == fitting) agree(t);
  }
}

TEST(QuantizedTaps, refuse_other_layouts_and_what_no_pass_ends) {
  Trial last = quantized_trial({{1, 8, 9, 9}, {8, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 8});
  EXPECT_FALSE(is_offered(last));
  Trial floats = fused_trial("(in0:f32) { %1 = tanh(in0):f32; return %1 }");
  floats.bound.inputs[0].layout = Layout::plain;
  floats.result(DType::f32, {2, 21, 9, 7});
  EXPECT_FALSE(is_offered(floats));
}

}  // namespace
}  // namespace smelt::ops::test
