// Convolutions of 8-bit integers whose image's zero point the run computes, and ConvInteger, against the processor's reference, to the bit.
#include <map>

#include "gpu_trial.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct Case {
  Shape x, w;
  std::vector<int64_t> pads = {0, 0, 0, 0}, strides = {1, 1}, dilations = {1, 1};
  int64_t group = 1;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1, 64, 14, 14}, {64, 64, 3, 3}, {1, 1, 1, 1}},
      {{2, 16, 9, 7}, {24, 16, 1, 1}},
      {{1, 32, 12, 12}, {48, 32, 3, 3}, {2, 2, 2, 2}, {2, 1}, {2, 2}},
      {{1, 3, 21, 20}, {16, 3, 7, 7}, {3, 3, 3, 3}, {2, 2}},
      {{1, 64, 4, 4}, {33, 64, 2, 3}, {1, 0, 0, 2}, {1, 2}},
      {{2, 24, 15, 13}, {24, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 24},
      {{1, 24, 9, 8}, {36, 8, 3, 3}, {1, 0, 1, 2}, {1, 1}, {1, 1}, 3},
      {{1, 1, 16, 20}, {8, 1, 5, 5}, {2, 2, 2, 2}},
      {{2, 10, 33}, {12, 10, 5}, {2, 2}, {2}, {2}},
  };
  return all;
}

void set_geometry(Node& n, const Case& c) {
  n.attrs["pads"] = c.pads;
  n.attrs["strides"] = c.strides;
  n.attrs["dilations"] = c.dilations;
  n.attrs["group"] = c.group;
}

/// ConvInteger with a zero point of the image that is computed, or constant.
Trial integer_trial(const Case& c, DType x, DType w, bool computed, Layout from) {
  Trial t;
  t.node.op = "ConvInteger";
  set_geometry(t.node, c);
  t.add(random_bytes(x, c.x, 1), false, from);
  t.add(random_bytes(w, c.w, 2), true);
  t.add(Tensor::scalar<int64_t>(x == DType::u8 ? 117 : -9).cast(x), !computed);
  t.add(Tensor::scalar<int64_t>(w == DType::u8 ? 128 : 0).cast(w), true);
  t.result(DType::i32, expected(t).shape(), from);
  return t;
}

/// Two candidates of each tactic: GpuQuantizedConv runs every tile.
std::vector<std::string> check_some(Trial& t) {
  return check_on_gpu(t, 0,
                      [counts = std::map<std::string, int>()](const Candidate& c) mutable { return ++counts[c.tactic] <= 2; });
}

TEST(GpuIntegerConv, conv_integer_equals_the_reference) {
  for (const Case& c : cases())
    for (const DType x : {DType::u8, DType::i8})
      for (const DType w : {DType::u8, DType::i8})
        for (const bool computed : {true, false})
          for (const Layout from : {Layout::plain, Layout::nhwc}) {
            // Types in all ways for the first, for the others those that quantised models have.
            if (&c != &cases()[0] && (x == w || (x == DType::i8 && (computed || from == Layout::nhwc)))) continue;
            SCOPED_TRACE(fmt::format("{} by {} {} {} {}{}", to_string(c.x), to_string(c.w), name(x), name(w), name(from),
                                     computed ? " computed" : ""));
            Trial t = integer_trial(c, x, w, computed, from);
            const std::vector<std::string> names = check_some(t);
            EXPECT_FALSE(names.empty());
            if (computed && c.group == 1 && c.x[1] >= 16) {
              EXPECT_THAT(names, Contains(HasSubstr("walked")));
            }
          }
}

TEST(GpuIntegerConv, weights_of_more_than_8_bits_and_of_zero_points_by_channel) {
  const Case c = cases()[0];
  for (const Layout from : {Layout::plain, Layout::nhwc}) {
    Trial t = integer_trial(c, DType::u8, DType::u8, true, from);
    t.inputs[3] = t.bound.inputs[3].constant = Tensor::scalar<uint8_t>(3);
    EXPECT_FALSE(check_some(t).empty());
    t = integer_trial(c, DType::u8, DType::i8, true, from);
    t.inputs[3] = t.bound.inputs[3].constant = random_bytes(DType::i8, {c.w[0]}, 5);
    t.bound.inputs[3].shape = {c.w[0]};
    EXPECT_FALSE(check_some(t).empty());
  }
}

/// Weights that the run computes: rows of all places' taps, or the image where it lies.
TEST(GpuIntegerConv, by_computed_weights) {
  for (const Case& c : cases())
    for (const DType x : {DType::u8, DType::i8})
      for (const bool zeros_computed : {true, false})
        for (const Layout from : {Layout::plain, Layout::nhwc}) {
          SCOPED_TRACE(fmt::format("{} by {} {} {}", to_string(c.x), to_string(c.w), name(x), name(from)));
          Trial t = integer_trial(c, x, x == DType::u8 ? DType::i8 : DType::u8, zeros_computed, from);
          t.bound.inputs[1].constant = {};
          if (zeros_computed) t.bound.inputs[3].constant = {};
          t.bound.outputs[0].layout = Layout::plain;
          EXPECT_FALSE(check_some(t).empty());
        }
  Trial t = integer_trial(cases()[0], DType::u8, DType::i8, true, Layout::plain);  // a zero point for each channel
  t.bound.inputs[1].constant = {};
  t.inputs[3] = t.bound.inputs[3].constant = random_bytes(DType::i8, {cases()[0].w[0]}, 5);
  t.bound.inputs[3].shape = {cases()[0].w[0]};
  EXPECT_FALSE(check_some(t).empty());
}

/// As DynamicQuantizeLinear, ConvInteger, Cast, Mul by a computed scale and a bias become one node.
TEST(GpuIntegerConv, fused_with_a_computed_scale) {
  for (const Case& c : cases())
    for (const DType x : {DType::u8, DType::i8}) {
      if (c.x.size() == 3) continue;
      Trial t;
      t.node.op = "QLinearConv";
      t.node.domain = smelt_domain;
      set_geometry(t.node, c);
      t.node.program = expr::Program::parse(
          "(in0:f32, in1:f32, in2:f32) { %3 = mul(in0, in1):f32; %4 = add(%3, in2):f32; %5 = relu(%4):f32; return %5 }");
      t.add(random_bytes(x, c.x, 1), false, Layout::nhwc);
      t.add(random_bytes(DType::i8, c.w, 2), true);
      t.add({}, false);
      t.add(Tensor::scalar(1.f), true);
      t.add(Tensor::scalar<int64_t>(x == DType::u8 ? 93 : 17).cast(x), false);
      t.add(Tensor::scalar(1.f), true);
      t.add({}, false);
      t.add(Tensor::scalar(0.0125f), false);
      t.add(random_tensor(DType::f32, {c.w[0], 1, 1}, 6), true);
      t.result(DType::f32, expected(t).shape(), Layout::nhwc);
      SCOPED_TRACE(fmt::format("{} by {} {}", to_string(c.x), to_string(c.w), name(x)));
      EXPECT_FALSE(check_some(t).empty());
    }
}

}  // namespace
}  // namespace smelt::ops
