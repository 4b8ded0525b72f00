// Convolutions on a GPU, by every kernel that is offered, against the processor's reference (transposed ones: transposed_conv_test.cpp).
#include "conv_trial.h"
#include "support/conv_geometries.h"

namespace smelt::ops {
namespace {

std::vector<ConvCase> geometries() {
  std::vector<ConvCase> all = {
      conv_case({1, 128, 23, 21}, {136, 128, 3, 3}, {2, 2}, {1, 1, 1, 1}),
      conv_case({1, 4, 32, 32}, {96, 4, 16, 16}, {16, 16}),
      conv_case({3, 72, 17, 19}, {80, 72, 5, 5}, {1, 1}, {2, 2, 2, 2}),
  };
  for (const test::ConvGeometry& g : test::conv_geometries()) all.push_back(conv_case(g.x, g.w, g.stride, g.pads));
  ConvCase dilated = conv_case({1, 12, 11, 13}, {20, 12, 3, 3}, {1, 1}, {2, 2, 2, 2});
  dilated.dilation = {2, 2};
  all.push_back(dilated);
  dilated = conv_case({1, 64, 16, 16}, {64, 64, 3, 3}, {2, 1}, {3, 1, 2, 4});
  dilated.dilation = {1, 3};
  all.push_back(dilated);
  for (const int64_t group : {2, 3, 6}) {
    ConvCase grouped = conv_case({1, 12, 8, 8}, {18, 12 / group, 3, 3}, {1, 1}, {1, 1, 1, 1});
    grouped.group = group;
    all.push_back(grouped);
  }
  return all;
}

class GpuConvGeometries : public ::testing::TestWithParam<DType> {};

TEST_P(GpuConvGeometries, agree_with_the_reference) {
  for (const ConvCase& c : geometries())
    for (const Layout layout : {Layout::nhwc, Layout::plain}) check_conv(c, GetParam(), layout);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuConvGeometries, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(GpuConv, depthwise) {
  for (const int64_t channels : {24, 72, 5, 130})
    for (const int64_t kernel : {3, 5})
      for (const int64_t stride : {1, 2}) {
        ConvCase c = conv_case({2, channels, 11, 13}, {channels, 1, kernel, kernel}, {stride, stride},
                               {kernel / 2, kernel / 2, kernel / 2, kernel / 2});
        c.group = channels;
        for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
          EXPECT_THAT(check_conv(c, type, Layout::nhwc), testing::Contains(testing::HasSubstr("depthwise")));
          check_conv(c, type, Layout::plain);
        }
      }
  ConvCase dilated = conv_case({1, 16, 12, 12}, {16, 1, 3, 3}, {1, 2}, {2, 3, 2, 3});
  dilated.group = 16;
  dilated.dilation = {2, 3};
  check_conv(dilated, DType::f16, Layout::nhwc);
  ConvCase multiplied = conv_case({1, 8, 12, 12}, {24, 1, 3, 3});  // three filters a channel
  multiplied.group = 8;
  check_conv(multiplied, DType::f16, Layout::nhwc);
}

/// Causal convolutions of state-space models, the long ones of speech models, and plain images.
TEST(GpuConv, depthwise_along_rows) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
    for (const int64_t length : {1, 7, 31, 64, 129, 500})
      for (const int64_t kernel : {1, 4, 31}) {
        ConvCase c = conv_case({2, 5, length}, {5, 1, kernel}, {1}, {kernel - 1, 0});
        c.group = 5;
        check_conv(c, type, Layout::plain);
      }
    for (const int64_t stride : {1, 2, 3}) {
      ConvCase c = conv_case({1, 6, 300}, {18, 1, 5}, {stride}, {2, 2});  // three filters a channel
      c.group = 6;
      c.dilation = {3};
      check_conv(c, type, Layout::plain);
      c = conv_case({2, 3, 9, 150}, {3, 1, 3, 5}, {2, stride}, {1, 4, 2, 3});
      c.group = 3;
      c.dilation = {2, 1};
      check_conv(c, type, Layout::plain);
    }
  }
}

TEST(GpuConv, deep_sums_in_float_are_no_chain_of_additions) {  // as those of products (gemm_test.cpp)
  Trial t = conv_trial(conv_case({2, 512, 20, 20}, {24, 512, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f32, Layout::nhwc);
  const Tensor want = expected(t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  t.bound.node = &t.node;
  size_t tiles = 0;
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    if (!c.config.starts_with("implicit fma")) continue;
    SCOPED_TRACE(c.config);
    EXPECT_LE(rms_error(run_on_gpu(t, c)[0], want), 3e-7);
    ++tiles;
  }
  EXPECT_GE(tiles, 3u);
}

TEST(GpuConv, engines_whose_results_differ_from_run_to_run_are_offered_only_where_asked_for) {
  Trial t = conv_trial(conv_case({2, 64, 28, 28}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
  t.result(DType::f16, {2, 64, 28, 28}, Layout::nhwc);
  t.bound.node = &t.node;
  Machine asking = gpu_machine();
  auto gpu = std::make_shared<Gpu>(*asking.gpu);
  gpu->nondeterministic = true;
  asking.gpu = gpu;
  const auto of_cudnn = [&](const Machine& machine) {
    std::vector<std::string> configs;
    for (const Candidate& c : offer(t.bound, machine).candidates)
      if (c.tactic == "cudnn") configs.push_back(c.config);
    return configs;
  };
  EXPECT_THAT(of_cudnn(gpu_machine()), testing::Each(testing::Not(testing::EndsWith("nondeterministic"))));
  EXPECT_GE(of_cudnn(asking).size(), of_cudnn(gpu_machine()).size());
}

TEST(GpuConv, every_number_of_channels) {
  for (int64_t channels = 1; channels <= 130; channels += channels < 34 ? 1 : 9) {
    check_conv(conv_case({1, channels, 7, 6}, {131 - channels, channels, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
    if (channels % 3 == 0) check_conv(conv_case({1, channels, 7, 6}, {channels, channels, 1, 1}), DType::bf16, Layout::nhwc);
  }
}

TEST(GpuConv, several_inputs_of_their_own_channels) {
  for (const Ints& channels : {Ints{64, 64}, Ints{10, 7}, Ints{96, 33, 8}, Ints{1, 130}}) {
    ConvCase c;
    int64_t sum = 0;
    for (const int64_t n : channels) c.x.push_back({2, n, 9, 11}), sum += n;
    c.w = {40, sum, 3, 3};
    c.pads = {1, 1, 1, 1};
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) check_conv(c, type, Layout::nhwc);
    check_conv(c, DType::f16, Layout::plain);
    c.w = {24, sum, 1, 1};
    c.pads = {};
    check_conv(c, DType::f16, Layout::nhwc);
  }
}

TEST(GpuConv, inputs_that_are_upsampled) {
  ConvCase c;
  c.x = {{1, 10, 4, 6}, {1, 24, 8, 12}};
  c.w = {19, 34, 3, 3};
  c.pads = {1, 1, 1, 1};
  c.upsample = {2, 1};
  for (const DType type : {DType::f16, DType::f32})
    for (const Layout layout : {Layout::nhwc, Layout::plain}) check_conv(c, type, layout);
  ConvCase single = conv_case({1, 32, 5, 7}, {32, 32, 3, 3}, {2, 2}, {1, 1, 1, 1});
  single.upsample = {2};
  check_conv(single, DType::f16, Layout::nhwc);
}

TEST(GpuConv, programs_over_the_sums_and_operands) {
  const std::string residual_relu =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  const std::string silu = "(in0:f32) { %1 = silu(in0):f32; %2 = cast(%1):f16; return %2 }";
  for (const Layout layout : {Layout::nhwc, Layout::plain}) {
    for (const Shape& operand :
         {Shape{2, 40, 9, 9}, Shape{2, 40, 1, 1}, Shape{1, 40, 1, 1}, Shape{1, 1, 9, 9}, Shape{1, 1, 1, 9}}) {
      ConvCase c = conv_case({2, 24, 9, 9}, {40, 24, 3, 3}, {1, 1}, {1, 1, 1, 1});
      c.program = residual_relu;
      c.operands = {operand};
      check_conv(c, DType::f16, layout);
      c.bias = false;
      check_conv(c, DType::f16, layout);
    }
    ConvCase c = conv_case({2, 24, 9, 9}, {41, 24, 1, 1});
    c.program = silu;
    check_conv(c, DType::f16, layout);
  }
}

TEST(GpuConv, lines_and_volumes) {
  for (const DType type : {DType::f16, DType::f32}) {
    check_conv(conv_case({2, 9, 31}, {20, 9, 5}, {2}, {2, 1}), type, Layout::plain);
    check_conv(conv_case({1, 6, 5, 7, 6}, {10, 6, 3, 2, 3}, {1, 2, 1}, {1, 0, 1, 1, 1, 1}), type, Layout::plain);
  }
}

/// Video models' and those of volumes: each by cuDNN too, channels-last.
TEST(GpuConv, along_three_axes) {
  std::vector<ConvCase> cases = {
      conv_case({1, 64, 6, 9, 7}, {64, 64, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}),
      conv_case({2, 32, 5, 8, 9}, {48, 32, 3, 1, 1}, {2, 1, 1}, {1, 0, 0, 1, 0, 0}),
      conv_case({1, 24, 7, 10, 11}, {40, 24, 1, 3, 3}, {1, 2, 2}, {0, 1, 1, 0, 1, 1}),
      conv_case({1, 16, 6, 7, 9}, {33, 16, 2, 3, 4}, {2, 1, 3}, {1, 0, 2, 0, 2, 1}),
      conv_case({2, 40, 3, 5, 6}, {24, 40, 1, 1, 1}),
      conv_case({1, 3, 6, 20, 21}, {24, 3, 3, 7, 7}, {1, 2, 2}, {1, 3, 3, 1, 3, 3}),
      conv_case({2, 20, 4, 6, 5}, {7, 20, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}),
  };
  cases.push_back(conv_case({1, 32, 9, 10, 8}, {32, 32, 3, 3, 3}, {1, 2, 1}, {2, 1, 3, 1, 2, 2}));
  cases.back().dilation = {2, 1, 3};
  cases.push_back(conv_case({1, 48, 5, 7, 7}, {30, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}));
  cases.back().group = 3;
  for (const int64_t channels : {24, 9}) {
    cases.push_back(conv_case({1, channels, 6, 9, 8}, {channels, 1, 3, 3, 3}, {1, 2, 2}, {1, 1, 1, 1, 1, 1}));
    cases.back().group = channels;
  }
  cases.push_back(conv_case({2, 32, 4, 6, 7}, {24, 32, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}));
  cases.back().program =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  cases.back().operands = {{2, 24, 4, 6, 7}};
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(::testing::Message() << to_string(c.x[0]) << " by " << to_string(c.w));
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
      if (!c.program.empty() && type != DType::f16) continue;
      const auto names = check_conv(c, type, Layout::nhwc);
      if (c.group == 1 && c.x[0][1] > 4) {
        EXPECT_THAT(names, testing::Contains(testing::HasSubstr("implicit")));
      }
      const bool whole_vectors = c.x[0][1] % 8 == 0 && c.w[0] % 8 == 0;
      if (type != DType::f32 && whole_vectors && c.group == 1) {
        EXPECT_THAT(names, testing::Contains(testing::HasSubstr("cudnn")));
      }
    }
    check_conv(c, DType::f16, Layout::plain);
  }
}

/// Groups of several channels, each a batch of a product.
TEST(GpuConv, of_groups_by_the_tiles_of_products) {
  struct Groups {
    Shape x, w;
    Ints stride, pads;
    int64_t group;
  };
  const Groups all[] = {
      {{2, 64, 13, 11}, {64, 8, 3, 3}, {1, 1}, {1, 1, 1, 1}, 8},   // ResNeXt's
      {{1, 96, 9, 10}, {144, 24, 3, 3}, {2, 2}, {1, 1, 1, 1}, 4},  // RegNet's
      {{2, 192, 7, 7}, {128, 96, 1, 1}, {}, {}, 2},
      {{1, 30, 8, 9}, {21, 10, 3, 2}, {1, 2}, {1, 0, 1, 1}, 3},  // channels that no access divides
      {{2, 80, 31}, {80, 20, 7}, {2}, {3, 3}, 4},
      {{1, 48, 5, 7, 6}, {32, 12, 3, 3, 3}, {1, 2, 1}, {1, 1, 1, 1, 1, 1}, 4},
      {{1, 48, 5, 7, 6}, {32, 24, 1, 3, 3}, {1, 1, 1}, {0, 1, 1, 0, 1, 1}, 2},
  };
  const auto by_tiles = testing::Contains(testing::HasSubstr("implicit"));
  for (const Groups& g : all) {
    ConvCase c = conv_case(g.x, g.w, g.stride, g.pads);
    c.group = g.group;
    SCOPED_TRACE(::testing::Message() << to_string(g.x) << " by " << to_string(g.w));
    EXPECT_THAT(check_conv(c, DType::f16, Layout::nhwc), by_tiles);
    if (g.group == 4) {
      EXPECT_THAT(check_conv(c, DType::f32, Layout::nhwc), by_tiles);
    }
  }
  ConvCase c = conv_case({2, 64, 9, 9}, {40, 8, 3, 3}, {1, 1}, {1, 1, 1, 1});
  c.group = 8;
  c.program =
      "(in0:f32, in1:bf16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):bf16; return %5 }";
  for (const Shape& operand : {Shape{2, 40, 9, 9}, Shape{2, 40, 1, 1}, Shape{1, 1, 9, 9}}) {
    c.operands = {operand};
    EXPECT_THAT(check_conv(c, DType::bf16, Layout::nhwc), by_tiles);
  }
}

TEST(GpuConv, depthwise_along_three_axes) {
  struct Windows {
    Ints taps, stride, dilation;
  };
  const Windows all[] = {{{3, 3, 3}, {1, 1, 1}, {1, 1, 1}}, {{3, 3, 3}, {1, 2, 2}, {1, 1, 1}}, {{5, 3, 3}, {2, 1, 2}, {1, 1, 1}},
                         {{3, 1, 1}, {1, 1, 1}, {2, 1, 1}}, {{1, 3, 3}, {1, 1, 1}, {1, 2, 3}}, {{5, 5, 5}, {1, 1, 1}, {1, 1, 1}}};
  for (const int64_t channels : {24, 9, 130})
    for (const Windows& w : all) {
      ConvCase c = conv_case({2, channels, 6, 9, 11}, {channels, 1, w.taps[0], w.taps[1], w.taps[2]}, w.stride);
      for (size_t side = 0; side < 2; ++side)
        for (size_t a = 0; a < 3; ++a) c.pads.push_back(w.taps[a] / 2 * w.dilation[a] + static_cast<int64_t>(side));
      c.group = channels;
      c.dilation = w.dilation;
      for (const DType type : {DType::f16, DType::bf16, DType::f32})
        for (const Layout layout : {Layout::nhwc, Layout::plain})
          EXPECT_THAT(check_conv(c, type, layout), testing::Contains(testing::HasSubstr("depthwise")));
    }
  ConvCase multiplied = conv_case({1, 8, 4, 7, 40}, {24, 1, 3, 3, 3});  // three filters a channel
  multiplied.group = 8;
  EXPECT_THAT(check_conv(multiplied, DType::f16, Layout::plain), testing::Contains(testing::HasSubstr("depthwise_rows")));
}

TEST(GpuConv, weights_that_are_computed) {
  for (const bool transposed : {false, true}) {
    ConvCase c = conv_case({1, 12, 7, 7}, {12, 12, 3, 3}, {2, 2}, {1, 1, 1, 1});
    c.constant = false;
    c.transposed = transposed;
    check_conv(c, DType::f16, Layout::nhwc);
    c.w = {12, 4, 3, 3};
    c.group = 3;
    check_conv(c, DType::f32, Layout::plain);
  }
  // By cuDNN, which is given a copy of them channels-last: of generators whose weights are modulated, and of trackers.
  ConvCase image = conv_case({2, 32, 9, 11}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1});
  image.constant = false;
  for (const DType type : {DType::f16, DType::f32})
    EXPECT_THAT(check_conv(image, type, Layout::nhwc), testing::Contains(testing::HasSubstr("cudnn")));
  image.x = {{1, 32, 9, 11}};
  image.w = {32, 1, 5, 5};
  image.group = 32;
  check_conv(image, DType::f32, Layout::nhwc);
  ConvCase volume = conv_case({1, 16, 5, 6, 7}, {24, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1});
  volume.constant = false;
  check_conv(volume, DType::f16, Layout::nhwc);
}

TEST(GpuConv, slices_of_other_tensors_and_odd_alignments) {
  for (const int64_t alignment : {2, 8, 16}) {
    for (const int64_t pitch : {40, 43}) {
      Trial t = conv_trial(conv_case({2, 24, 8, 9}, {32, 24, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
      const Tensor want = expected(t);
      t.result(DType::f16, want.shape(), Layout::nhwc);
      t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = alignment;
      t.bound.inputs[0].strides = t.bound.outputs[0].strides = {8 * 9 * pitch, 1, 9 * pitch, pitch};
      EXPECT_FALSE(agree_on_gpu(t, {want}, conv_tolerance(DType::f16)).empty());
    }
  }
}

TEST(GpuConv, plain_images_into_channels_last_ones_and_back) {
  for (const Layout from : {Layout::plain, Layout::nhwc}) {
    Trial t = conv_trial(conv_case({1, 3, 33, 31}, {32, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}), DType::f16, from);
    const Tensor want = expected(t);
    t.result(DType::f16, want.shape(), from == Layout::plain ? Layout::nhwc : Layout::plain);
    EXPECT_FALSE(agree_on_gpu(t, {want}, conv_tolerance(DType::f16)).empty());
  }
}

}  // namespace
}  // namespace smelt::ops
