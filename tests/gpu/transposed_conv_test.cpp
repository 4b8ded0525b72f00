// Transposed convolutions on a GPU against the processor's reference, by kernels of their own and as plain ones, phase by phase: every
// stride, pads, what is cut off and added, groups, one to three axes, both layouts, slices.
#include <limits>

#include "conv_trial.h"

namespace smelt::ops {
namespace {

TEST(GpuConv, transposed) {
  for (const DType type : {DType::f16, DType::f32})
    for (const Layout layout : {Layout::nhwc, Layout::plain}) {
      ConvCase c = conv_case({2, 24, 7, 5}, {24, 16, 2, 2}, {2, 2});
      c.transposed = true;
      check_conv(c, type, layout);
      if (layout == Layout::nhwc) {
        EXPECT_THAT(check_conv(c, type, layout), testing::Contains(testing::HasSubstr("implicit")));
        c.w = {24, 18, 1, 1};
        c.stride = {1, 1};
        c.bias = false;
        check_conv(c, type, layout);
      }
      ConvCase odd = conv_case({1, 10, 6, 5}, {10, 7, 3, 4}, {2, 3}, {1, 0, 1, 2});
      odd.transposed = true;
      odd.output_padding = {1, 2};
      check_conv(odd, type, layout);
      ConvCase grouped = conv_case({1, 12, 5, 5}, {12, 8, 3, 3}, {1, 2}, {1, 1, 1, 1});
      grouped.transposed = true;
      grouped.group = 3;
      grouped.dilation = {2, 1};
      check_conv(grouped, type, layout);
    }
}

/// Windows overlap; every stride-th pixel has the same taps. Each case has some 16 kernels to compile.
TEST(GpuConv, transposed_by_phases) {
  struct Windows {
    Shape x, w;
    Ints stride, pads, more;
    std::vector<DType> types;
    Ints dilation = {};
  };
  constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
  const Windows all[] = {
      {{2, 24, 7, 5}, {24, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}, {0, 0}, {f16, bf16, f32}},
      {{1, 64, 6, 9}, {64, 40, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {f16}},
      {{1, 40, 5, 6}, {40, 24, 5, 2}, {3, 1}, {1, 0, 1, 1}, {0, 0}, {f16}},
      {{2, 32, 4, 5}, {32, 8, 3, 3}, {1, 2}, {2, 1, 2, 1}, {0, 1}, {f16}, {2, 1}},
      {{2, 48, 37}, {48, 24, 16}, {8}, {4, 4}, {0}, {bf16, f32}},
      {{2, 72, 2, 3, 4}, {72, 16, 3, 4, 3}, {2, 2, 1}, {1, 1, 1, 1, 1, 1}, {1, 0, 0}, {f16, f32}},
  };
  for (const Windows& w : all) {
    ConvCase c = conv_case(w.x, w.w, w.stride, w.pads);
    c.transposed = true;
    c.output_padding = w.more;
    c.dilation = w.dilation;
    c.bias = w.x[0] == 2;
    SCOPED_TRACE(::testing::Message() << to_string(w.x) << " by " << to_string(w.w));
    for (const DType type : w.types)
      EXPECT_THAT(check_conv(c, type, Layout::nhwc), testing::Contains(testing::HasSubstr("implicit")));
  }
}

/// Taps that a phase lacks, and channels of other groups, are not multiplied by zeros.
TEST(GpuConv, what_is_no_number_reaches_its_own_windows_alone) {
  ConvCase phases = conv_case({1, 64, 6, 9}, {64, 40, 3, 3}, {2, 2}, {1, 1, 1, 1});
  phases.transposed = true;
  phases.output_padding = {1, 1};
  ConvCase groups = conv_case({1, 48, 6, 9}, {40, 12, 3, 3}, {1, 1}, {1, 1, 1, 1});
  groups.group = 4;
  for (const ConvCase& c : {phases, groups}) {
    Trial t = conv_trial(c, DType::f16, Layout::nhwc);
    const Tensor want = result_with(t, 4, std::numeric_limits<float>::quiet_NaN());
    int held = 0;
    for (const Candidate& candidate : offer(t.bound, gpu_machine()).candidates) {
      if (!candidate.config.starts_with("implicit")) continue;
      SCOPED_TRACE(candidate.config);
      EXPECT_LE(error(run_on_gpu(t, candidate)[0], want), 1e-3);
      ++held;
    }
    EXPECT_GT(held, 0);
  }
}

TEST(GpuConv, transposed_and_upsampled_along_other_axes) {
  const auto implicit = testing::Contains(testing::HasSubstr("implicit"));
  for (const DType type : {DType::f16, DType::f32}) {
    for (const Ints& stride : {Ints{2, 2, 2}, Ints{3, 1, 2}}) {
      ConvCase c = conv_case({2, 24, 3, 5, 4}, {24, 16, stride[0], stride[1], stride[2]}, stride);
      c.transposed = true;
      EXPECT_THAT(check_conv(c, type, Layout::nhwc), implicit);
    }
    ConvCase line = conv_case({2, 24, 9}, {24, 18, 4}, {4});
    line.transposed = true;
    EXPECT_THAT(check_conv(line, type, Layout::nhwc), implicit);
    ConvCase up;
    up.x = {{2, 16, 2, 3, 4}, {2, 24, 4, 6, 8}};
    up.w = {19, 40, 3, 3, 3};
    up.pads = {1, 1, 1, 1, 1, 1};
    up.upsample = {2, 1};
    const auto names = check_conv(up, type, Layout::nhwc);
    EXPECT_THAT(names, implicit);
    if (type != DType::f32) {
      EXPECT_THAT(names, testing::Contains(testing::HasSubstr("walked")));
    }
    up.upsample = {4, 2};
    up.w = {24, 40, 1, 3, 2};
    up.pads = {0, 2, 1, 0, 1, 0};
    up.stride = {1, 2, 1};
    EXPECT_THAT(check_conv(up, type, Layout::nhwc), implicit);
  }
}

/// Run phase by phase, each a plain convolution.
bool is_phased(const Candidate& c) { return c.config.starts_with("phases"); }

TEST(GpuTransposedConv, agree_phase_by_phase) {
  const ConvCase all[] = {
      transposed_case({1, 64, 14, 15}, {64, 32, 4, 4}, {2, 2}, {1, 1, 1, 1}),              // GANs'
      transposed_case({2, 32, 9, 7}, {32, 24, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}),        // of encoders and decoders
      transposed_case({1, 48, 40}, {48, 24, 16}, {8}, {4, 4}),                             // vocoders'
      transposed_case({1, 16, 21}, {16, 8, 7}, {3}, {2, 2}, {1}),                          // a window that strides do not divide
      transposed_case({1, 24, 8, 9}, {24, 16, 5, 5}, {1, 1}, {2, 2, 2, 2}),                // strides of 1: the window turned
      transposed_case({1, 24, 8, 9}, {24, 16, 3, 3}, {1, 2}, {2, 1, 2, 1}, {}, {2, 1}),    // a dilation where the stride is 1
      transposed_case({1, 12, 7, 6}, {12, 10, 3, 5}, {2, 3}, {0, 1, 1, 0}),                // pads that differ
      transposed_case({1, 16, 4, 6, 5}, {16, 8, 2, 4, 4}, {2, 2, 2}, {0, 1, 1, 0, 1, 1}),  // volumes
      transposed_case({1, 8, 3, 5, 4}, {8, 16, 2, 2, 2}, {2, 2, 2}),                       // windows of volumes side by side
      transposed_case({2, 40, 13}, {40, 16, 4}, {4}),                                      // of sequences
      transposed_case({1, 64, 1, 1}, {64, 48, 4, 4}, {1, 1}),                              // from one pixel
  };
  for (const ConvCase& c : all)
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const Layout layout : {Layout::nhwc, Layout::plain}) {
        if (type == DType::bf16 && &c != &all[0] && &c != &all[5]) continue;
        SCOPED_TRACE(to_string(c.x[0]) + " by " + to_string(c.w));
        EXPECT_THAT(check_conv(c, type, layout, is_phased), testing::Contains(testing::HasSubstr("phases")));
      }
}

TEST(GpuTransposedConv, of_groups_and_each_channel_by_its_own_filter) {
  for (const int64_t group : {3, 24}) {
    const ConvCase c = transposed_case({1, 24, 9, 8}, {24, group == 3 ? 10 : 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, group);
    for (const DType type : {DType::f32, DType::f16})
      for (const Layout layout : {Layout::nhwc, Layout::plain})
        EXPECT_THAT(check_conv(c, type, layout, is_phased), testing::Contains(testing::HasSubstr("phases")));
  }
}

TEST(GpuTransposedConv, into_slices_of_other_tensors) {
  for (const int64_t alignment : {2, 16}) {
    Trial t = conv_trial(transposed_case({1, 32, 6, 7}, {32, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
    const Tensor want = expected(t);
    t.result(DType::f16, want.shape(), Layout::nhwc);
    t.bound.outputs[0].strides = {12 * 14 * 40, 1, 14 * 40, 40};
    t.bound.outputs[0].alignment = alignment;
    EXPECT_THAT(agree_on_gpu(t, {want}, 1e-3, is_phased), testing::Contains(testing::HasSubstr("phases")));
  }
}

}  // namespace
}  // namespace smelt::ops
