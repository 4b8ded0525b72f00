#include "ops/conv/int8_problem.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

using Case = QuantizedCase;

/// Runs the case with all types of image, weight and result; names the tactics that ran.
void expect_exact(Case c, const std::vector<std::string>& tactics) {
  for (DType x : {DType::u8, DType::i8}) {
    for (DType w : {DType::u8, DType::i8}) {
      c.x_type = x;
      c.w_type = w;
      c.y_type = x == w ? DType::i8 : DType::u8;
      c.per_channel = x == DType::u8;  // and zero points of 0
      Trial t = quantized_trial(c);
      EXPECT_EQ(own(check(t, 0)), tactics);
    }
  }
}

const std::vector<std::string> direct_and_winograd{"avx2", "winograd"};

TEST(QuantizedConv, equals_the_reference_bit_for_bit) {
  const std::vector<Case> cases = {
      {{2, 7, 6, 5}, {9, 7, 1, 1}},
      {{1, 3, 21, 20}, {16, 3, 7, 7}, {3, 3, 3, 3}, {2, 2}},
      {{1, 900, 3, 3}, {17, 900, 1, 1}},
      {{1, 64, 4, 4}, {33, 64, 2, 3}, {1, 0, 0, 2}, {1, 2}},
      {{2, 5, 7, 9}, {11, 5, 1, 1}, {0, 0, 0, 0}, {2, 3}},
      {{1, 6, 9, 11}, {5, 6, 3, 3}, {2, 2, 2, 2}, {1, 1}, {2, 2}},
      {{1, 6, 9, 11}, {4, 6, 3, 2}, {2, 1, 0, 1}, {2, 1}, {3, 1}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Case c = cases[i];
    c.bias = i != 3;
    expect_exact(c, {"avx2"});
  }
}

TEST(QuantizedConv, equals_the_reference_in_winograd_s_form) {
  expect_exact({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}}, direct_and_winograd);
  expect_exact({{2, 9, 4, 3}, {7, 9, 3, 3}}, direct_and_winograd);
  expect_exact({{1, 37, 13, 11}, {70, 37, 3, 3}, {2, 0, 1, 2}}, direct_and_winograd);
  expect_exact({{1, 700, 5, 6}, {18, 700, 3, 3}, {1, 1, 1, 1}}, direct_and_winograd);
  expect_exact({{1, 24, 40, 44}, {33, 24, 3, 3}, {1, 1, 1, 1}}, direct_and_winograd);
}

TEST(QuantizedConv, in_winograd_s_form_wraps_between_and_fits_at_the_end) {
  // Every sum of the transform but the last may leave 32 bits: 917 channels of the largest products, and signs that cancel.
  Trial t = quantized_trial({{1, 910, 4, 4}, {9, 910, 3, 3}, {1, 1, 1, 1}});
  uint8_t* x = t.inputs[0].data<uint8_t>();
  for (int64_t i = 0; i < t.inputs[0].size(); ++i) x[i] = i % 2 ? 255 : 0;
  int8_t* w = t.inputs[3].data<int8_t>();
  for (int64_t i = 0; i < t.inputs[3].size(); ++i) w[i] = i / 9 % 3 == 0 ? 127 : -128;
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, is_not_in_winograd_s_form_when_a_result_might_not_fit) {
  Trial t = quantized_trial({{1, 2000, 3, 3}, {1, 2000, 3, 3}, {1, 1, 1, 1}});
  for (int8_t& v : t.inputs[3].span<int8_t>()) v = 127;
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  const auto rejected = std::ranges::find(o.refused, "winograd", &RefusedTactic::tactic);
  ASSERT_NE(rejected, o.refused.end());
  EXPECT_THAT(rejected->why.text, testing::HasSubstr("magnitudes add up to 2232000; at most 2105376"));
}

TEST(QuantizedConv, sums_wrap_however_many_products_they_have) {
  Trial t = quantized_trial({{1, 20000, 3, 4}, {3, 20000, 3, 3}});
  for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
  for (int8_t& v : t.inputs[3].span<int8_t>()) v = 127;
  const double zero = t.inputs[2].to_doubles()[0];
  ASSERT_GT((255 - zero) * 127 * 9 * 20000, 0x1p31);
  EXPECT_EQ(own(check(t, 0)), std::vector<std::string>{"avx2"});
}

TEST(QuantizedConv, equals_the_reference_at_every_stride) {
  for (const auto& [channels, size] : {std::pair<int64_t, int64_t>{16, 64}, {32, 32}, {160, 16}})
    for (const int64_t stride : {2, 3, 4, 8})
      for (const int64_t window : {1, 2, 3, 4, 8})
        expect_exact({.x = {1, channels, size, size}, .w = {32, channels, window, window}, .strides = {stride, stride}},
                     {"avx2"});
}

TEST(QuantizedConv, takes_groups) {
  expect_exact({{1, 12, 7, 6}, {8, 3, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 4}, {"avx2"});
  expect_exact({{2, 9, 5, 6}, {51, 3, 1, 2}, {0, 0, 0, 1}, {2, 1}, {1, 1}, 3}, {"avx2"});
  expect_exact({{1, 4, 6, 6}, {8, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 4}, {"avx2"});  // two results a channel
}

TEST(QuantizedConv, takes_one_channel_a_group) {
  expect_exact({{1, 16, 9, 8}, {16, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 16}, {"avx2", "avx2"});
  expect_exact({{2, 37, 8, 9}, {37, 1, 5, 5}, {2, 2, 2, 2}, {2, 2}, {1, 1}, 37}, {"avx2", "avx2"});
  expect_exact({{1, 17, 8, 9}, {17, 1, 2, 3}, {0, 1, 1, 2}, {1, 2}, {2, 1}, 17}, {"avx2", "avx2"});
  expect_exact({{1, 5, 8, 9}, {5, 1, 2, 3}, {0, 1, 1, 2}, {1, 2}, {2, 1}, 5}, {"avx2"});  // too few channels for its vectors
  expect_exact({{1, 48, 40, 40}, {48, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 48}, {"avx2", "avx2"});
  expect_exact({{2, 87, 9, 8}, {87, 1, 3, 3}, {1, 1, 1, 1}, {2, 1}, {1, 1}, 87}, {"avx2", "avx2"});  // 32 at a time, 16, and 7
  expect_exact({{1, 64, 9, 8}, {64, 1, 5, 5}, {2, 2, 2, 2}, {1, 1}, {1, 1}, 64}, {"avx2", "avx2"});
}

TEST(QuantizedConv, makes_several_results_of_one_channel_a_group) {
  expect_exact({{1, 16, 9, 8}, {32, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 16}, {"avx2", "avx2"});
  expect_exact({{2, 37, 8, 9}, {111, 1, 5, 5}, {2, 2, 2, 2}, {2, 2}, {1, 1}, 37}, {"avx2", "avx2"});
  expect_exact({{1, 87, 7, 9}, {174, 1, 2, 3}, {0, 1, 1, 2}, {1, 2}, {2, 1}, 87}, {"avx2", "avx2"});
}

/// The case with weights of 7 bits, which oneDNN multiplies exactly on every CPU.
Trial small_weights(const Case& c, Layout from = Layout::nhwc) {
  Trial t = quantized_trial(c, from);
  set_weights(t, seven_bits(c.w_type, c.w, 2), c.w_type == DType::u8 ? 128 : 0);
  return t;
}

TEST(QuantizedConv, by_onednn_is_exact_with_weights_of_seven_bits) {
  const Case cases[] = {
      {{2, 7, 6, 5}, {9, 7, 1, 1}},
      {{1, 3, 21, 20}, {16, 3, 7, 7}, {3, 3, 3, 3}, {2, 2}},
      {{1, 64, 4, 4}, {33, 64, 2, 3}, {1, 0, 0, 2}, {1, 2}},
      {{2, 5, 7, 9}, {11, 5, 1, 1}, {0, 0, 0, 0}, {2, 3}},
      {{1, 6, 9, 11}, {5, 6, 3, 3}, {2, 2, 2, 2}, {1, 1}, {2, 2}},
      {{1, 32, 7, 6}, {32, 8, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 4},
      {{2, 37, 8, 9}, {37, 1, 5, 5}, {2, 2, 2, 2}, {2, 2}, {1, 1}, 37},
      {{1, 8, 81, 80}, {64, 8, 3, 3}, {1, 1, 1, 1}},  // some lines at a time, padded in a copy
      {{1, 8, 80, 80}, {64, 8, 1, 1}},                // some lines at a time, where they lie
      {{1, 8, 161, 80}, {64, 8, 3, 3}, {0, 1, 0, 1}, {2, 1}},
      {{6, 8, 40, 40}, {64, 8, 1, 1}},  // some images at a time
  };
  for (Case c : cases) {
    for (DType x : {DType::u8, DType::i8}) {
      for (DType w : {DType::u8, DType::i8}) {
        c.x_type = c.y_type = x;
        c.w_type = w;
        Trial t = small_weights(c);
        EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
      }
    }
  }
}

TEST(QuantizedConv, by_onednn_is_exact_behind_signed_bytes_of_any_depth_and_columns) {
  for (const int64_t channels : {16, 17, 32, 33})
    for (const int64_t columns : {1, 4, 17}) {
      Case c{{1, channels, 6, 6}, {columns, channels, 4, 4}};
      c.x_type = c.y_type = DType::i8;
      Trial t = small_weights(c);
      EXPECT_FALSE(check(t, 0).empty());
    }
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{8, 1}, {1, 8}, {2, 4}, {3, 3}}) {  // of one channel
    Case c{{1, 16, 9, 9}, {16, 1, height, width}};
    c.group = 16;
    c.x_type = c.y_type = DType::i8;
    Trial t = small_weights(c);
    EXPECT_FALSE(check(t, 0).empty());
  }
}

TEST(QuantizedConv, by_onednn_pads_without_a_copy_when_the_zero_point_is_0) {
  for (const Case& c : {Case{{1, 8, 80, 80}, {64, 8, 3, 3}, {1, 1, 1, 1}}, Case{{1, 8, 80, 80}, {64, 8, 1, 3}, {0, 1, 0, 1}}}) {
    Trial t = small_weights(c);
    t.inputs[2] = t.bound.inputs[2].constant = Tensor::scalar<uint8_t>(0);
    EXPECT_THAT(check(t, 0), testing::Contains("onednn"));
  }
}

TEST(QuantizedConv, by_onednn_reads_a_plain_image_and_writes_a_slice) {
  Trial t = small_weights({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}}, Layout::plain);
  t.bound.outputs[0].strides = {9 * 8 * 40, 1, 8 * 40, 40};
  EXPECT_THAT(check(t, 0), testing::Contains("onednn"));
}

TEST(QuantizedConv, by_onednn_wants_dot_products_or_weights_of_seven_bits) {
  Trial t = quantized_trial({{1, 16, 9, 8}, {24, 16, 1, 1}});
  t.inputs[5] = t.bound.inputs[5].constant = Tensor::scalar<int8_t>(0);
  if (has_dot_products()) {
    EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
  } else {
    EXPECT_THAT(onednn_reason(t),
                testing::AllOf(testing::HasSubstr("no 8-bit dot products"), testing::HasSubstr("saturates at 32767"),
                               testing::HasSubstr("at most 64 is safe")));
  }
}

// ONNX Runtime's quantizer writes weights of u8 whose zero point is anywhere: less it they have nine bits.
TEST(QuantizedConv, by_onednn_takes_weights_of_nine_bits_without_their_zero_point) {
  if (!has_dot_products()) GTEST_SKIP() << "needs 8-bit dot products";
  const std::vector<Case> cases = {{{1, 16, 9, 8}, {24, 16, 1, 1}},
                                   {{2, 7, 6, 5}, {9, 7, 1, 1}},
                                   {{1, 3, 21, 20}, {16, 3, 7, 7}, {3, 3, 3, 3}, {2, 2}},
                                   {{1, 64, 4, 4}, {33, 64, 2, 3}, {1, 0, 0, 2}, {1, 2}},
                                   {{3, 40, 11, 13}, {70, 40, 3, 3}, {1, 1, 1, 1}},
                                   {{1, 1, 9, 9}, {1, 1, 3, 3}, {1, 1, 1, 1}}};
  for (const Case& shape : cases) {
    for (const DType x : {DType::u8, DType::i8}) {
      for (const DType w : {DType::u8, DType::i8}) {
        for (const int64_t zero : {1, 90, 127}) {
          Case c = shape;
          c.x_type = x;
          c.w_type = w;
          Trial t = quantized_trial(c);
          set_weights(t, random_bytes(w, c.w, 5), w == DType::u8 ? zero : -zero);
          EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
        }
      }
    }
  }
}

TEST(QuantizedConv, by_onednn_takes_from_each_channel_s_weights_what_they_are_beyond_8_bits) {
  if (!has_dot_products()) GTEST_SKIP() << "needs 8-bit dot products";
  Case c{{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}};
  c.w_type = DType::u8;
  c.per_channel = true;
  Trial t = quantized_trial(c);
  t.inputs[5] = t.bound.inputs[5].constant = random_bytes(DType::u8, {24}, 6);
  EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
}

TEST(QuantizedConv, by_onednn_wants_weights_of_groups_that_fit_8_bits_without_their_zero_point) {
  Case c{{1, 16, 9, 8}, {24, 8, 1, 1}};
  c.group = 2;
  Trial t = quantized_trial(c);
  EXPECT_THAT(onednn_reason(t), testing::HasSubstr("beyond 8 bits"));
}

TEST(QuantizedConv, does_not_saturate_on_the_largest_products) {
  for (int64_t group : {int64_t{1}, int64_t{64}}) {
    Case c{{1, 64, 5, 5}, {64, 64 / group, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, group};
    Trial t = quantized_trial(c);
    for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
    for (int8_t& v : t.inputs[3].span<int8_t>()) v = 127;
    EXPECT_FALSE(check(t, 0).empty());
  }
}

TEST(QuantizedConv, reads_a_plain_image) {
  Trial t = quantized_trial({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}}, Layout::plain);
  EXPECT_EQ(own(check(t, 0)), std::vector<std::string>{"avx2"});
}

TEST(QuantizedConv, writes_a_slice) {
  Trial t = quantized_trial({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}});
  t.bound.outputs[0].strides = {9 * 8 * 40, 1, 8 * 40, 40};
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

// ai.smelt.QLinearConv with what models put behind a convolution.

TEST(QuantizedConv, quantizes_as_its_program_says) {
  Trial t = fused_trial("(in0:f32) { " + quantized("in0", "0.31", 88, 1, "u8") + "return %9 }");
  t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, clips_before_it_quantizes) {
  for (const char* act : {"%1 = relu(in0):f32; ", "%1 = const(-1.7):f32; %2 = const(6):f32; %3 = clip(in0, %1, %2):f32; "}) {
    const bool relu = std::string_view(act).find("relu") != std::string_view::npos;
    const int last = relu ? 1 : 3;
    Trial t = fused_trial(std::string("(in0:f32) { ") + act + quantized("%" + std::to_string(last), "0.031", 88, last + 1, "u8") +
                          "return %" + std::to_string(last + 9) + " }");
    t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
    EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
  }
}

TEST(QuantizedConv, adds_numbers_before_it_quantizes) {
  Trial t = fused_trial("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; " + quantized("%2", "0.31", -3, 3, "i8") + "return %11 }");
  t.add(random_tensor(DType::f32, {21, 1, 1}, 9, -5, 5), true);
  t.result(DType::i8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, adds_a_quantized_residual) {
  for (const char* type : {"u8", "i8"}) {
    const std::string head = std::string("(in0:f32, in1:") + type + ") { ";
    Trial t = fused_trial(head + quantized("in0", "0.31", 88, 2, "u8") + dequantized("%10", "0.31", 88, 11) +
                          dequantized("in1", "0.17", 5, 17) + "%23 = add(%16, %22):f32; " +
                          quantized("%23", "0.4", 12, 24, "u8") + "return %32 }");
    t.add(random_bytes(*parse_dtype(type), {2, 21, 9, 7}, 6), false, Layout::nhwc);
    t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
    EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
  }
}

/// Every second sum of two bytes is a half: guesses are in doubt, where results may lie in the residual's memory.
TEST(QuantizedConv, rounds_halves_that_a_residual_makes) {
  Trial t = fused_trial("(in0:f32, in1:u8) { " + quantized("in0", "0.5", 88, 2, "u8") + dequantized("%10", "0.5", 88, 11) +
                        dequantized("in1", "0.5", 5, 17) + "%23 = add(%16, %22):f32; " + quantized("%23", "1", 12, 24, "u8") +
                        "return %32 }");
  t.add(random_bytes(DType::u8, {2, 21, 9, 7}, 6), false, Layout::nhwc);
  t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, adds_a_quantized_residual_to_what_is_not_rounded_before) {
  for (const char* type : {"u8", "i8"})
    for (const bool first : {true, false})
      for (const bool adds : {true, false}) {
        const std::string head = std::string("(in0:f32, in1:") + type + ", in2:f32) { %3 = add(in0, in2):f32; ";
        const std::string own_part = adds ? "%3" : "in0", sum = first ? own_part + ", %9" : "%9, " + own_part;
        Trial t = fused_trial(head + dequantized("in1", "0.17", 5, 4) + "%10 = add(" + sum + "):f32; %11 = relu(%10):f32; " +
                              quantized(adds ? "%11" : "%10", "0.4", 12, 12, first ? "u8" : "i8") + "return %20 }");
        t.add(random_bytes(*parse_dtype(type), {2, 21, 9, 7}, 6), false, Layout::nhwc);
        t.add(random_tensor(DType::f32, {21, 1, 1}, 9, -5, 5), true);
        t.result(first ? DType::u8 : DType::i8, {2, 21, 9, 7}, Layout::nhwc);
        EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
      }
}

TEST(QuantizedConv, adds_a_quantized_residual_before_a_relu) {
  Trial t = fused_trial("(in0:f32, in1:i8) { " + quantized("in0", "0.31", 88, 2, "u8") + dequantized("%10", "0.31", 88, 11) +
                        dequantized("in1", "0.17", 5, 17) + "%23 = add(%16, %22):f32; %24 = relu(%23):f32; " +
                        quantized("%24", "0.4", 12, 25, "u8") + "return %33 }");
  t.add(random_bytes(DType::i8, {2, 21, 9, 7}, 6), false, Layout::nhwc);
  t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, by_onednn_ends_in_any_program) {
  for (const bool direct : {true, false}) {
    Trial t = fused_trial(direct ? "(in0:f32, in1:u8) { " + quantized("in0", "0.31", 88, 2, "u8") +
                                       dequantized("%10", "0.31", 88, 11) + dequantized("in1", "0.17", 5, 17) +
                                       "%23 = add(%16, %22):f32; " + quantized("%23", "0.4", 12, 24, "u8") + "return %32 }"
                                 : "(in0:f32, in1:f32) { %2 = tanh(in0):f32; %3 = mul(%2, in1):f32; return %3 }");
    t.inputs[1] = t.bound.inputs[1].constant = seven_bits(DType::i8, {21, 16, 3, 3}, 2);
    if (direct)
      t.add(random_bytes(DType::u8, {2, 21, 9, 7}, 6), false, Layout::nhwc);
    else
      t.add(random_tensor(DType::f32, {1, 21, 9, 7}, 9, -5, 5), false, Layout::nhwc);
    t.result(direct ? DType::u8 : DType::f32, {2, 21, 9, 7}, Layout::nhwc);
    EXPECT_THAT(check(t, direct ? 0 : 1e-6), testing::Contains("onednn"));
  }
}

TEST(QuantizedConv, looks_an_activation_up) {
  Trial t = fused_trial("(in0:f32) { " + quantized("in0", "0.031", 88, 1, "u8") + dequantized("%9", "0.031", 88, 10) +
                        "%16 = hard_swish(%15):f32; " + quantized("%16", "0.02", 17, 17, "u8") + "return %25 }");
  t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 0)), direct_and_winograd);
}

TEST(QuantizedConv, runs_any_other_program) {
  Trial t = fused_trial("(in0:f32, in1:f32) { %2 = tanh(in0):f32; %3 = mul(%2, in1):f32; return %3 }");
  t.add(random_tensor(DType::f32, {1, 21, 9, 7}, 9, -5, 5), false, Layout::nhwc);
  t.result(DType::f32, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_EQ(own(check(t, 1e-6)), direct_and_winograd);
}

TEST(QuantizedConv, takes_a_zero_point_that_is_computed) {
  for (const bool depthwise : {false, true}) {
    for (const DType type : {DType::u8, DType::i8}) {
      Trial t = fused_trial("(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; return %2 }");
      t.inputs[0] = random_bytes(type, {2, 16, 9, 7}, 1);
      t.bound.inputs[0].type = type;
      if (depthwise) {
        t.node.attrs["group"] = int64_t{16};
        const auto constant = [&](size_t i, Tensor value) {
          t.inputs[i] = t.bound.inputs[i].constant = std::move(value);
          t.bound.inputs[i].shape = t.inputs[i].shape();
        };
        constant(1, random_bytes(DType::i8, {16, 1, 3, 3}, 2));
        constant(2, random_tensor(DType::i32, {16}, 4, -9000, 9000));
        constant(5, Tensor::scalar(0.002f));
        constant(6, Tensor::scalar<int8_t>(0));
      }
      t.inputs[4] = Tensor::scalar<int64_t>(type == DType::u8 ? 117 : -9).cast(type);
      t.bound.inputs[4] = {type, {}};
      t.add(Tensor::scalar(0.37f), false);
      t.result(DType::f32, {2, depthwise ? 16 : 21, 9, 7}, Layout::nhwc);
      EXPECT_EQ(own(check(t, 1e-6)), depthwise ? std::vector<std::string>({"avx2", "avx2"}) : direct_and_winograd);
    }
  }
}

TEST(QuantizedConv, has_its_weights_in_order_along_any_number_of_axes) {
  for (const QuantizedCase& c : {QuantizedCase{{1, 3, 9}, {4, 3, 5}, {2, 2}, {1}, {1}}, QuantizedCase{{1, 3, 9, 8}, {4, 3, 2, 5}},
                                 QuantizedCase{{1, 3, 5, 6, 7}, {4, 3, 2, 1, 3}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, {1, 1, 1}}}) {
    Trial t = quantized_trial(c);
    const auto q = conv::int8_request(t.bound, 1);
    ASSERT_TRUE(q) << q.refusal().text;
    const int8_t* w = t.inputs[3].data<int8_t>();
    const int64_t taps = elements(c.w) / 12;
    for (int64_t i = 0; i < elements(c.w); ++i)
      EXPECT_EQ(conv::int8_weight(*q, i / taps / 3, i / taps % 3, i % taps), w[i] - 3) << to_string(c.w) << " at " << i;
  }
}

TEST(QuantizedConv, over_three_axes_has_the_kernels_of_integers) {
  const std::vector<Case> cases = {
      {{2, 17, 5, 6, 7}, {17, 1, 3, 3, 3}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 17},
      {{1, 6, 7, 9, 8}, {8, 3, 2, 3, 1}, {0, 1, 0, 1, 0, 0}, {2, 1, 3}, {1, 2, 1}, 2},
      {{1, 5, 3, 4, 4}, {9, 5, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 1},
      {{1, 3, 6, 10, 11}, {4, 3, 3, 3, 3}, {1, 1, 1, 1, 1, 1}, {2, 2, 2}, {1, 1, 1}, 1},
  };
  for (size_t i = 0; i < cases.size(); ++i)
    for (const DType type : {DType::u8, DType::i8})
      for (const bool bias : {false, true}) {
        Case c = cases[i];
        c.x_type = c.y_type = type, c.bias = bias, c.per_channel = bias;
        Trial t = quantized_trial(c, Layout::plain);
        t.bound.outputs[0].layout = Layout::plain;
        EXPECT_THAT(check(t, 0, 3), testing::Not(testing::IsEmpty())) << i << " is left to loops of one pixel after the other";
      }
  // A program with a residual behind the sums.
  Trial t;
  t.node.op = "QLinearConv";
  t.node.domain = smelt_domain;
  t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1, 1, 1};
  t.node.attrs["group"] = int64_t{8};
  t.node.program = expr::Program::parse("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }");
  t.add(random_bytes(DType::u8, {2, 8, 5, 6, 7}, 1), false);
  t.add(random_bytes(DType::i8, {8, 1, 3, 3, 3}, 2), true);
  t.add(random_tensor(DType::i32, {8}, 4, -9000, 9000), true);
  t.add(Tensor::scalar(0.02f), true);
  t.add(Tensor::scalar<uint8_t>(99), true);
  t.add(random_tensor(DType::f32, {8}, 3, 0.001, 0.003), true);
  t.add(Tensor::zeros(DType::i8, {8}), true);
  t.add(random_tensor(DType::f32, {2, 8, 5, 6, 7}, 5), false);
  t.result(DType::f32, {2, 8, 5, 6, 7});
  EXPECT_THAT(check(t, 1e-6), testing::Not(testing::IsEmpty()));
}

TEST(QuantizedConv, is_left_to_the_reference_when_a_scale_is_computed) {
  Trial t = quantized_trial({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}}, Layout::plain);
  t.bound.outputs[0].layout = Layout::plain;
  t.bound.inputs[1].constant = {};
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  ASSERT_EQ(o.candidates.size(), 1u);
  EXPECT_EQ(o.candidates[0].tactic, "reference");
  ASSERT_FALSE(o.refused.empty());
  EXPECT_EQ(o.refused[0].why.text, "the weight or a scale is not constant");
}

}  // namespace
}  // namespace smelt::ops
