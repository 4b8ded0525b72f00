// Convolutions in groups of few channels on a GPU against the processor's reference: depthwise ones of any window, several filters a channel,
// groups side by side on tensor cores, transposed ones, and what follows a transposed one.
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "conv_trial.h"

namespace smelt::ops {
namespace {

using testing::Contains;
using testing::HasSubstr;

bool is_grouped(const Candidate& c) { return c.config.starts_with("grouped"); }
bool is_joined(const Candidate& c) { return c.config.starts_with("implicit j"); }
bool of_its_own(const Candidate& c) { return c.config.find("direct") == std::string::npos && c.tactic != "cudnn"; }

ConvCase grouped_case(Shape x, Shape w, int64_t group, Ints stride = {}, Ints pads = {}, Ints dilation = {}) {
  ConvCase c = conv_case(std::move(x), std::move(w), std::move(stride), std::move(pads));
  c.group = group;
  c.dilation = std::move(dilation);
  return c;
}

constexpr DType all_types[] = {DType::f16, DType::bf16, DType::f32};

TEST(GpuConv, depthwise_of_any_window) {
  for (const int64_t channels : {24, 5, 130})
    for (const DType type : all_types)
      for (const Layout layout : {Layout::nhwc, Layout::plain}) {
        const auto check = [&](Shape x, Shape taps, Ints stride, Ints pads, Ints dilation, int64_t filters = 1) {
          x.insert(x.begin() + 1, channels);
          Shape w{channels * filters, 1};
          w.insert(w.end(), taps.begin(), taps.end());
          const ConvCase c =
              grouped_case(std::move(x), std::move(w), channels, std::move(stride), std::move(pads), std::move(dilation));
          SCOPED_TRACE(::testing::Message() << to_string(c.x[0]) << " by " << to_string(c.w));
          EXPECT_FALSE(check_conv(c, type, layout, of_its_own).empty());
        };
        check({2, 17, 19}, {13, 13}, {1, 1}, {6, 6, 6, 6}, {1, 1});
        check({1, 23, 21}, {3, 3}, {5, 6}, {1, 2, 0, 1}, {1, 1});
        check({1, 23, 21}, {3, 3}, {1, 1}, {6, 7, 6, 5}, {6, 7});
        check({2, 9, 11}, {3, 5}, {2, 1}, {1, 2, 1, 2}, {1, 1}, 3);
        check({2, 9, 11}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8);
        check({2, 133}, {31}, {1}, {15, 15}, {1});
        check({2, 133}, {4}, {1}, {3, 0}, {1});
        check({2, 133}, {5}, {6}, {0, 3}, {2}, 2);
        check({1, 6, 7, 9}, {3, 3, 3}, {1, 2, 6}, {1, 1, 1, 1, 1, 1}, {1, 1, 1});
        check({1, 6, 7, 9}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, 2);
      }
}

/// (channels, outputs) of a group; 1 x 1 windows among them, and groups that threads share or have several of.
TEST(GpuConv, of_groups_of_few_channels) {
  struct Count {
    int64_t groups, channels, outputs;
  };
  for (const Count& n : {Count{32, 4, 4}, Count{3, 8, 20}, Count{8, 30, 15}, Count{7, 3, 5}, Count{6, 16, 16}, Count{4, 24, 24},
                         Count{17, 2, 1}, Count{5, 13, 11}, Count{12, 2, 3}, Count{2, 40, 1}, Count{16, 1, 4}})
    for (const DType type : all_types)
      for (const Layout layout : {Layout::nhwc, Layout::plain}) {
        SCOPED_TRACE(::testing::Message() << n.groups << " of " << n.channels << " to " << n.outputs);
        const int64_t c = n.groups * n.channels, m = n.groups * n.outputs;
        const auto grouped = Contains(HasSubstr("grouped"));
        EXPECT_THAT(check_conv(grouped_case({2, c, 9, 11}, {m, n.channels, 3, 3}, n.groups, {1, 2}, {1, 1, 1, 0}), type, layout,
                               is_grouped),
                    grouped);
        EXPECT_THAT(check_conv(grouped_case({2, c, 8, 9}, {m, n.channels, 1, 1}, n.groups), type, layout, is_grouped), grouped);
        EXPECT_THAT(
            check_conv(grouped_case({2, c, 37}, {m, n.channels, 5}, n.groups, {2}, {4, 3}, {2}), type, layout, is_grouped),
            grouped);
        EXPECT_THAT(check_conv(grouped_case({1, c, 4, 6, 5}, {m, n.channels, 3, 2, 3}, n.groups, {1, 2, 1}, {1, 0, 1, 1, 1, 1}),
                               type, layout, is_grouped),
                    grouped);
      }
}

TEST(GpuConv, of_groups_side_by_side) {
  struct Count {
    int64_t groups, channels, outputs;
  };
  for (const Count& n : {Count{32, 4, 4}, Count{8, 8, 8}, Count{8, 3, 5}, Count{12, 2, 3}, Count{6, 16, 16}, Count{8, 12, 24}})
    for (const DType type : {DType::f16, DType::bf16}) {
      SCOPED_TRACE(::testing::Message() << n.groups << " of " << n.channels << " to " << n.outputs);
      const int64_t c = n.groups * n.channels, m = n.groups * n.outputs;
      const auto joined = Contains(HasSubstr("implicit j"));
      EXPECT_THAT(check_conv(grouped_case({2, c, 9, 11}, {m, n.channels, 3, 3}, n.groups, {1, 2}, {1, 1, 1, 0}), type,
                             Layout::nhwc, is_joined),
                  joined);
      EXPECT_THAT(
          check_conv(grouped_case({2, c, 37}, {m, n.channels, 5}, n.groups, {2}, {4, 3}, {2}), type, Layout::nhwc, is_joined),
          joined);
      EXPECT_THAT(check_conv(grouped_case({1, c, 4, 6, 5}, {m, n.channels, 3, 2, 3}, n.groups, {1, 2, 1}, {1, 0, 1, 1, 1, 1}),
                             type, Layout::nhwc, is_joined),
                  joined);
    }
  ConvCase c = grouped_case({2, 64, 9, 9}, {64, 4, 3, 3}, 16, {1, 1}, {1, 1, 1, 1});
  c.program =
      "(in0:f32, in1:bf16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):bf16; return %5 }";
  for (const Shape& operand : {Shape{2, 64, 9, 9}, Shape{2, 64, 1, 1}, Shape{1, 1, 9, 9}}) {
    c.operands = {operand};
    EXPECT_THAT(check_conv(c, DType::bf16, Layout::nhwc, is_joined), Contains(HasSubstr("implicit j")));
  }
}

/// The infinities as zeros.
Tensor finite(const Tensor& t) {
  Tensor f = t.cast(DType::f32);
  for (float& v : f.span<float>())
    if (std::isinf(v)) v = 0;
  return f;
}
/// Where they are, and which.
std::map<size_t, bool> infinities(const Tensor& t) {
  std::map<size_t, bool> found;
  const std::vector<double> all = t.to_doubles();
  for (size_t i = 0; i < all.size(); ++i)
    if (std::isinf(all[i])) found[i] = all[i] > 0;
  return found;
}

/// An infinity, and what is no number, in one group's channels reach the outputs of that group alone.
TEST(GpuConv, of_groups_side_by_side_whose_neighbours_are_no_numbers) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const bool volume : {false, true}) {
      const ConvCase c = volume ? grouped_case({1, 64, 3, 7, 6}, {96, 4, 3, 3, 3}, 16, {1, 1, 2}, {1, 1, 1, 1, 1, 1})
                                : grouped_case({2, 64, 9, 10}, {96, 4, 3, 3}, 16, {1, 2}, {1, 1, 1, 1});
      Trial t = conv_trial(c, DType::f16, Layout::nhwc);
      const Tensor want = result_with(t, 3, value);
      int held = 0;
      for (const Candidate& candidate : offer(t.bound, gpu_machine()).candidates) {
        if (!is_joined(candidate)) continue;
        SCOPED_TRACE(candidate.config);
        const Tensor got = run_on_gpu(t, candidate)[0];
        EXPECT_LE(error(finite(got), finite(want)), 1e-3);
        EXPECT_EQ(infinities(got), infinities(want));
        ++held;
      }
      EXPECT_GT(held, 0);
    }
}

TEST(GpuConv, transposed_in_groups_of_any_stride_and_dilation) {
  struct Windows {
    Shape taps;
    Ints stride, pads, more, dilation;
  };
  const Windows all[] = {
      {{16, 16}, {8, 8}, {4, 4, 4, 4}, {}, {}},  // bilinear, 8 times
      {{4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}},
      {{3, 5}, {2, 3}, {0, 1, 1, 0}, {1, 2}, {2, 3}},
      {{3, 3}, {4, 6}, {2, 1, 2, 1}, {}, {6, 4}},
      {{2, 3}, {3, 5}, {0, 0, 0, 0}, {}, {}},  // gaps
      {{3, 1}, {1, 2}, {1, 0, 1, 0}, {}, {3, 1}},
      {{5}, {3}, {2, 1}, {1}, {2}},
      {{2, 3, 4}, {2, 1, 3}, {0, 1, 1, 0, 1, 0}, {}, {1, 2, 2}},
  };
  for (const auto& [groups, channels, outputs] :
       {std::tuple{24, 1, 1}, std::tuple{8, 4, 4}, std::tuple{3, 5, 7}, std::tuple{1, 24, 16}})
    for (const Windows& w : all)
      for (const DType type : all_types)
        for (const Layout layout : {Layout::nhwc, Layout::plain}) {
          Shape x{2, groups * channels}, taps{groups * channels, outputs};
          for (size_t a = 0; a < w.taps.size(); ++a) x.push_back(5 - static_cast<int64_t>(a)), taps.push_back(w.taps[a]);
          const ConvCase c = transposed_case(x, taps, w.stride, w.pads, w.more, w.dilation, groups);
          SCOPED_TRACE(to_string(c.x[0]) + " by " + to_string(c.w));
          EXPECT_THAT(check_conv(c, type, layout, is_grouped), Contains(HasSubstr("grouped")));
        }
}

/// What follows is part of each kernel: of phases in one launch and one by one, of groups, and of plain multiply-adds.
TEST(GpuConv, transposed_with_what_follows) {
  const std::string program =
      "(in0:f32, in1:f16, in2:f16) { %3 = cast(in1):f32; %4 = mul(in0, %3):f32; %5 = cast(in2):f32; %6 = add(%4, %5):f32; "
      "%7 = const(0.1):f32; %8 = leaky_relu(%6, %7):f32; %9 = cast(%8):f16; return %9 }";
  const std::string silu = "(in0:f32) { %1 = silu(in0):f32; %2 = cast(%1):f16; return %2 }";
  ConvCase cases[] = {
      transposed_case({2, 24, 7, 5}, {24, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}),
      transposed_case({2, 24, 7, 5}, {24, 16, 2, 2}, {2, 2}),
      transposed_case({1, 32, 6, 9}, {32, 10, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}),
      transposed_case({1, 32, 6, 9}, {32, 12, 3, 3}, {2, 2}, {1, 1, 1, 1}),  // odd extents
      transposed_case({2, 48, 37}, {48, 24, 16}, {8}, {4, 4}),
      transposed_case({1, 16, 3, 4, 5}, {16, 8, 2, 4, 4}, {2, 2, 2}, {0, 1, 1, 0, 1, 1}),
      transposed_case({1, 24, 9, 8}, {24, 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, 24),
      transposed_case({1, 24, 9, 8}, {24, 6, 3, 3}, {1, 2}, {1, 1, 1, 1}, {}, {2, 1}, 4),
  };
  for (ConvCase& c : cases)
    for (const Layout layout : {Layout::nhwc, Layout::plain}) {
      SCOPED_TRACE(to_string(c.x[0]) + " by " + to_string(c.w));
      c.program.clear(), c.operands.clear();
      Trial plain = conv_trial(c, DType::f16, layout);
      const Shape y = expected(plain).shape();
      Shape by_channel(y.size(), 1);
      by_channel[1] = y[1];
      c.program = silu;
      EXPECT_FALSE(check_conv(c, DType::f16, layout).empty());
      c.program = program;
      for (const bool bias : {true, false}) {
        c.bias = bias;
        c.operands = {by_channel, y};
        EXPECT_FALSE(check_conv(c, DType::f16, layout).empty());
      }
    }
  // Each way of it is held to the reference.
  ConvCase c = cases[0];
  EXPECT_THAT(check_conv(c, DType::f16, Layout::nhwc),
              testing::AllOf(Contains(HasSubstr("implicit")), Contains(HasSubstr("phases")), Contains(HasSubstr("grouped"))));
}

}  // namespace
}  // namespace smelt::ops
