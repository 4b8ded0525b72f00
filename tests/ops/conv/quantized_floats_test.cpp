// Convolutions of 8-bit integers by the kernels of floats (src/ops/conv/cpu_int8_floats.cpp).
#include "expr/simd/isa.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

using Case = QuantizedCase;

bool computes_in_floats(const std::vector<std::string>& names) { return std::ranges::count(names, "in floats") > 0; }

/// Every candidate gives the reference's bytes; some compute in floats.
void expect_exact(const Case& c, Layout from) {
  for (const DType x : {DType::u8, DType::i8})
    for (const DType w : {DType::u8, DType::i8}) {
      Case typed = c;
      typed.x_type = x, typed.w_type = w, typed.y_type = x == w ? DType::i8 : DType::u8;
      typed.per_channel = x == DType::i8;
      Trial t = quantized_trial(typed, from);
      EXPECT_TRUE(computes_in_floats(check(t, 0))) << offer(t.bound, Machine{}).problem;
    }
}

TEST(QuantizedConvInFloats, gives_the_bytes_of_integers) {
  for (const Case& c : grouped_cases())
    for (const Layout from : {Layout::nhwc, Layout::plain}) expect_exact(c, from);
}

/// Images and results in either layout, with what is behind the convolution in its program.
TEST(QuantizedConvInFloats, takes_plain_images) {
  Case c{{1, 6, 9, 7}, {12, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 6};
  Trial t = quantized_trial(c, Layout::plain);
  t.bound.outputs[0].layout = Layout::plain;
  EXPECT_TRUE(computes_in_floats(check(t, 0)));
}

/// 2^24 = 16777216 is the first sum that may have been rounded on the way.
TEST(QuantizedConvInFloats, refuses_sums_that_floats_may_round) {
  // Two groups; the image's zero point is 117, so that a byte is at most 138 above or below it.
  const int64_t fitting = ((1 << 24) - 1) / 138 / 127;
  for (const int64_t channels : {fitting, fitting + 1}) {
    Case c{{1, 2 * channels, 2, 2}, {2, channels, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 2};
    c.bias = false;
    Trial t = quantized_trial(c);
    set_weights(t, Tensor::of<int8_t>({2, channels, 1, 1}, std::vector<int8_t>(static_cast<size_t>(2 * channels), 127)), 0);
    for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
    EXPECT_EQ(computes_in_floats(check(t, 0)), channels == fitting) << channels;
    const Offer o = offer(t.bound, Machine{});
    const bool said = std::ranges::any_of(o.refused, [](const RefusedTactic& r) {
      return r.why.text.find("floats are exact below 16777216") != std::string::npos;
    });
    EXPECT_EQ(said, channels != fitting);
  }
}

/// A bias counts too: it is in the sum.
TEST(QuantizedConvInFloats, counts_the_bias) {
  Case c{{1, 4, 3, 3}, {4, 1, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 4};
  Trial t = quantized_trial(c);
  t.inputs[8] = t.bound.inputs[8].constant = Tensor::of<int32_t>({4}, {1, -5, 1 << 24, 7});
  t.bound.node = &t.node;
  EXPECT_FALSE(computes_in_floats(check(t, 0)));
}

/// Deep sums of one group are left to bytes, sooner where a processor multiplies four of them at a time.
TEST(QuantizedConvInFloats, leaves_deep_sums_to_bytes) {
  for (const auto& [channels, fits] : {std::pair{7, true}, {16, !simd::has_dots()}, {64, false}}) {
    Trial t = quantized_trial({{1, channels, 5, 5}, {16, channels, 3, 3}, {1, 1, 1, 1}});
    EXPECT_EQ(computes_in_floats(check(t, 0)), fits) << channels;
  }
}

/// A plan that carries a choice finds it again, and looks for none where it chose bytes.
TEST(QuantizedConvInFloats, is_found_again_where_it_was_chosen) {
  Trial t = quantized_trial({{1, 8, 9, 9}, {8, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 8});
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 2;
  const auto in_floats = [](const Candidate& c) { return c.config.ends_with("in floats"); };
  int found = 0;
  for (const Candidate& c : offer(t.bound, machine).candidates) {
    const ChosenTactic chosen{c.tactic, c.config};
    const Offer alone = offer(t.bound, machine, {&chosen, false});
    const auto is_it = [&](const Candidate& x) { return x.tactic == c.tactic && x.config == c.config; };
    EXPECT_TRUE(std::ranges::any_of(alone.candidates, is_it)) << c.config;
    EXPECT_TRUE(in_floats(c) || std::ranges::none_of(alone.candidates, in_floats)) << c.config;
    found += in_floats(c);
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace smelt::ops
