#include <limits>

#include "gpu_trial.h"
#include "ops/conv/problem.h"
#include "support/conv_geometries.h"

namespace smelt::ops {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  std::vector<Shape> x;
  Shape w;
  Ints stride, pads, dilation;
  int64_t group = 1;
  bool transposed = false;
  Ints upsample, output_padding;
  std::string program;  // over the sums and one operand of y's shape or [1, M, 1, 1]
  std::vector<Shape> operands;
  bool bias = true;
  bool constant = true;  // the weights
};

Case one(Shape x, Shape w, Ints stride = {}, Ints pads = {}) {
  Case c;
  c.x = {std::move(x)};
  c.w = std::move(w);
  c.stride = std::move(stride);
  c.pads = std::move(pads);
  return c;
}

Trial trial(const Case& c, DType type, Layout layout) {
  Trial t;
  const bool fused = c.x.size() > 1 || !c.program.empty() || !c.upsample.empty();
  t.node.op = c.transposed ? "ConvTranspose" : "Conv";
  t.node.domain = fused ? smelt_domain : onnx_domain;
  if (fused) t.node.attrs["segments"] = static_cast<int64_t>(c.x.size());
  if (!c.stride.empty()) t.node.attrs["strides"] = c.stride;
  if (!c.pads.empty()) t.node.attrs["pads"] = c.pads;
  if (!c.dilation.empty()) t.node.attrs["dilations"] = c.dilation;
  if (!c.upsample.empty()) t.node.attrs["upsample"] = c.upsample;
  if (!c.output_padding.empty()) t.node.attrs["output_padding"] = c.output_padding;
  if (c.group != 1) t.node.attrs["group"] = c.group;
  if (!c.program.empty()) t.node.program = expr::Program::parse(c.program);
  uint32_t seed = 1;
  for (const Shape& x : c.x) t.add(random_tensor(type, x, seed++), false, layout);
  t.add(random_tensor(type, c.w, 50), c.constant);
  if (c.bias)
    t.add(random_tensor(type, {c.transposed ? c.w[1] * c.group : c.w[0]}, 51), true);
  else if (!c.operands.empty())
    t.add({}, false);
  for (const Shape& o : c.operands) t.add(random_tensor(type, o, seed++), false, layout);
  return t;
}

/// What the products and sums round to, relative to the largest output.
double tolerance(DType type) {
  return type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : type == DType::f64 ? 1e-13 : 3e-6;
}

/// Names of the candidates, all of which agree.
std::vector<std::string> check(const Case& c, DType type, Layout layout) {
  SCOPED_TRACE(::testing::Message() << name(type) << ' ' << name(layout));
  Trial t = trial(c, type, layout);
  const Tensor want = expected(t);
  t.result(want.type(), want.shape(), layout);
  const auto names = agree_on_gpu(t, {want}, tolerance(type));
  EXPECT_FALSE(names.empty());
  return names;
}

std::vector<Case> geometries() {
  std::vector<Case> all = {
      one({1, 128, 23, 21}, {136, 128, 3, 3}, {2, 2}, {1, 1, 1, 1}),
      one({1, 4, 32, 32}, {96, 4, 16, 16}, {16, 16}),
      one({3, 72, 17, 19}, {80, 72, 5, 5}, {1, 1}, {2, 2, 2, 2}),
  };
  for (const test::ConvGeometry& g : test::conv_geometries()) all.push_back(one(g.x, g.w, g.stride, g.pads));
  Case dilated = one({1, 12, 11, 13}, {20, 12, 3, 3}, {1, 1}, {2, 2, 2, 2});
  dilated.dilation = {2, 2};
  all.push_back(dilated);
  dilated = one({1, 64, 16, 16}, {64, 64, 3, 3}, {2, 1}, {3, 1, 2, 4});
  dilated.dilation = {1, 3};
  all.push_back(dilated);
  for (const int64_t group : {2, 3, 6}) {
    Case grouped = one({1, 12, 8, 8}, {18, 12 / group, 3, 3}, {1, 1}, {1, 1, 1, 1});
    grouped.group = group;
    all.push_back(grouped);
  }
  return all;
}

class GpuConvGeometries : public ::testing::TestWithParam<DType> {};

TEST_P(GpuConvGeometries, agree_with_the_reference) {
  for (const Case& c : geometries())
    for (const Layout layout : {Layout::nhwc, Layout::plain}) check(c, GetParam(), layout);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuConvGeometries, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(GpuConv, depthwise) {
  for (const int64_t channels : {24, 72, 5, 130})
    for (const int64_t kernel : {3, 5})
      for (const int64_t stride : {1, 2}) {
        Case c = one({2, channels, 11, 13}, {channels, 1, kernel, kernel}, {stride, stride},
                     {kernel / 2, kernel / 2, kernel / 2, kernel / 2});
        c.group = channels;
        for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
          EXPECT_THAT(check(c, type, Layout::nhwc), testing::Contains(testing::HasSubstr("depthwise")));
          check(c, type, Layout::plain);
        }
      }
  Case dilated = one({1, 16, 12, 12}, {16, 1, 3, 3}, {1, 2}, {2, 3, 2, 3});
  dilated.group = 16;
  dilated.dilation = {2, 3};
  check(dilated, DType::f16, Layout::nhwc);
  Case multiplied = one({1, 8, 12, 12}, {24, 1, 3, 3});  // three filters a channel
  multiplied.group = 8;
  check(multiplied, DType::f16, Layout::nhwc);
}

/// Causal convolutions of state-space models, the long ones of speech models, and plain images.
TEST(GpuConv, depthwise_along_rows) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
    for (const int64_t length : {1, 7, 31, 64, 129, 500})
      for (const int64_t kernel : {1, 4, 31}) {
        Case c = one({2, 5, length}, {5, 1, kernel}, {1}, {kernel - 1, 0});
        c.group = 5;
        check(c, type, Layout::plain);
      }
    for (const int64_t stride : {1, 2, 3}) {
      Case c = one({1, 6, 300}, {18, 1, 5}, {stride}, {2, 2});  // three filters a channel
      c.group = 6;
      c.dilation = {3};
      check(c, type, Layout::plain);
      c = one({2, 3, 9, 150}, {3, 1, 3, 5}, {2, stride}, {1, 4, 2, 3});
      c.group = 3;
      c.dilation = {2, 1};
      check(c, type, Layout::plain);
    }
  }
}

TEST(GpuConv, deep_sums_in_float_are_no_chain_of_additions) {  // as those of products (gemm_test.cpp)
  Trial t = trial(one({2, 512, 20, 20}, {24, 512, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f32, Layout::nhwc);
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
  Trial t = trial(one({2, 64, 28, 28}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
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
    check(one({1, channels, 7, 6}, {131 - channels, channels, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
    if (channels % 3 == 0) check(one({1, channels, 7, 6}, {channels, channels, 1, 1}), DType::bf16, Layout::nhwc);
  }
}

TEST(GpuConv, several_inputs_of_their_own_channels) {
  for (const Ints& channels : {Ints{64, 64}, Ints{10, 7}, Ints{96, 33, 8}, Ints{1, 130}}) {
    Case c;
    int64_t sum = 0;
    for (const int64_t n : channels) c.x.push_back({2, n, 9, 11}), sum += n;
    c.w = {40, sum, 3, 3};
    c.pads = {1, 1, 1, 1};
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) check(c, type, Layout::nhwc);
    check(c, DType::f16, Layout::plain);
    c.w = {24, sum, 1, 1};
    c.pads = {};
    check(c, DType::f16, Layout::nhwc);
  }
}

TEST(GpuConv, inputs_that_are_upsampled) {
  Case c;
  c.x = {{1, 10, 4, 6}, {1, 24, 8, 12}};
  c.w = {19, 34, 3, 3};
  c.pads = {1, 1, 1, 1};
  c.upsample = {2, 1};
  for (const DType type : {DType::f16, DType::f32})
    for (const Layout layout : {Layout::nhwc, Layout::plain}) check(c, type, layout);
  Case single = one({1, 32, 5, 7}, {32, 32, 3, 3}, {2, 2}, {1, 1, 1, 1});
  single.upsample = {2};
  check(single, DType::f16, Layout::nhwc);
}

TEST(GpuConv, programs_over_the_sums_and_operands) {
  const std::string residual_relu =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  const std::string silu = "(in0:f32) { %1 = silu(in0):f32; %2 = cast(%1):f16; return %2 }";
  for (const Layout layout : {Layout::nhwc, Layout::plain}) {
    for (const Shape& operand :
         {Shape{2, 40, 9, 9}, Shape{2, 40, 1, 1}, Shape{1, 40, 1, 1}, Shape{1, 1, 9, 9}, Shape{1, 1, 1, 9}}) {
      Case c = one({2, 24, 9, 9}, {40, 24, 3, 3}, {1, 1}, {1, 1, 1, 1});
      c.program = residual_relu;
      c.operands = {operand};
      check(c, DType::f16, layout);
      c.bias = false;
      check(c, DType::f16, layout);
    }
    Case c = one({2, 24, 9, 9}, {41, 24, 1, 1});
    c.program = silu;
    check(c, DType::f16, layout);
  }
}

TEST(GpuConv, transposed) {
  for (const DType type : {DType::f16, DType::f32})
    for (const Layout layout : {Layout::nhwc, Layout::plain}) {
      Case c = one({2, 24, 7, 5}, {24, 16, 2, 2}, {2, 2});
      c.transposed = true;
      check(c, type, layout);
      if (layout == Layout::nhwc) {
        EXPECT_THAT(check(c, type, layout), testing::Contains(testing::HasSubstr("implicit")));
        c.w = {24, 18, 1, 1};
        c.stride = {1, 1};
        c.bias = false;
        check(c, type, layout);
      }
      Case odd = one({1, 10, 6, 5}, {10, 7, 3, 4}, {2, 3}, {1, 0, 1, 2});
      odd.transposed = true;
      odd.output_padding = {1, 2};
      check(odd, type, layout);
      Case grouped = one({1, 12, 5, 5}, {12, 8, 3, 3}, {1, 2}, {1, 1, 1, 1});
      grouped.transposed = true;
      grouped.group = 3;
      grouped.dilation = {2, 1};
      check(grouped, type, layout);
    }
}

TEST(GpuConv, lines_and_volumes) {
  for (const DType type : {DType::f16, DType::f32}) {
    check(one({2, 9, 31}, {20, 9, 5}, {2}, {2, 1}), type, Layout::plain);
    check(one({1, 6, 5, 7, 6}, {10, 6, 3, 2, 3}, {1, 2, 1}, {1, 0, 1, 1, 1, 1}), type, Layout::plain);
  }
}

/// Video models' and those of volumes: each by cuDNN too, channels-last.
TEST(GpuConv, along_three_axes) {
  std::vector<Case> cases = {
      one({1, 64, 6, 9, 7}, {64, 64, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}),
      one({2, 32, 5, 8, 9}, {48, 32, 3, 1, 1}, {2, 1, 1}, {1, 0, 0, 1, 0, 0}),
      one({1, 24, 7, 10, 11}, {40, 24, 1, 3, 3}, {1, 2, 2}, {0, 1, 1, 0, 1, 1}),
      one({1, 16, 6, 7, 9}, {33, 16, 2, 3, 4}, {2, 1, 3}, {1, 0, 2, 0, 2, 1}),
      one({2, 40, 3, 5, 6}, {24, 40, 1, 1, 1}),
      one({1, 3, 6, 20, 21}, {24, 3, 3, 7, 7}, {1, 2, 2}, {1, 3, 3, 1, 3, 3}),
      one({2, 20, 4, 6, 5}, {7, 20, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}),
  };
  cases.push_back(one({1, 32, 9, 10, 8}, {32, 32, 3, 3, 3}, {1, 2, 1}, {2, 1, 3, 1, 2, 2}));
  cases.back().dilation = {2, 1, 3};
  cases.push_back(one({1, 48, 5, 7, 7}, {30, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}));
  cases.back().group = 3;
  for (const int64_t channels : {24, 9}) {
    cases.push_back(one({1, channels, 6, 9, 8}, {channels, 1, 3, 3, 3}, {1, 2, 2}, {1, 1, 1, 1, 1, 1}));
    cases.back().group = channels;
  }
  cases.push_back(one({2, 32, 4, 6, 7}, {24, 32, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}));
  cases.back().program =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  cases.back().operands = {{2, 24, 4, 6, 7}};
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << to_string(c.x[0]) << " by " << to_string(c.w));
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
      if (!c.program.empty() && type != DType::f16) continue;
      const auto names = check(c, type, Layout::nhwc);
      if (c.group == 1 && c.x[0][1] > 4) {
        EXPECT_THAT(names, testing::Contains(testing::HasSubstr("implicit")));
      }
      const bool whole_vectors = c.x[0][1] % 8 == 0 && c.w[0] % 8 == 0;
      if (type != DType::f32 && whole_vectors && c.group == 1) {
        EXPECT_THAT(names, testing::Contains(testing::HasSubstr("cudnn")));
      }
    }
    check(c, DType::f16, Layout::plain);
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
    Case c = one(g.x, g.w, g.stride, g.pads);
    c.group = g.group;
    SCOPED_TRACE(::testing::Message() << to_string(g.x) << " by " << to_string(g.w));
    EXPECT_THAT(check(c, DType::f16, Layout::nhwc), by_tiles);
    if (g.group == 4) {
      EXPECT_THAT(check(c, DType::f32, Layout::nhwc), by_tiles);
    }
  }
  Case c = one({2, 64, 9, 9}, {40, 8, 3, 3}, {1, 1}, {1, 1, 1, 1});
  c.group = 8;
  c.program =
      "(in0:f32, in1:bf16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):bf16; return %5 }";
  for (const Shape& operand : {Shape{2, 40, 9, 9}, Shape{2, 40, 1, 1}, Shape{1, 1, 9, 9}}) {
    c.operands = {operand};
    EXPECT_THAT(check(c, DType::bf16, Layout::nhwc), by_tiles);
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
      Case c = one({2, channels, 6, 9, 11}, {channels, 1, w.taps[0], w.taps[1], w.taps[2]}, w.stride);
      for (size_t side = 0; side < 2; ++side)
        for (size_t a = 0; a < 3; ++a) c.pads.push_back(w.taps[a] / 2 * w.dilation[a] + static_cast<int64_t>(side));
      c.group = channels;
      c.dilation = w.dilation;
      for (const DType type : {DType::f16, DType::bf16, DType::f32})
        for (const Layout layout : {Layout::nhwc, Layout::plain})
          EXPECT_THAT(check(c, type, layout), testing::Contains(testing::HasSubstr("depthwise")));
    }
  Case multiplied = one({1, 8, 4, 7, 40}, {24, 1, 3, 3, 3});  // three filters a channel
  multiplied.group = 8;
  EXPECT_THAT(check(multiplied, DType::f16, Layout::plain), testing::Contains(testing::HasSubstr("depthwise_rows")));
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
    Case c = one(w.x, w.w, w.stride, w.pads);
    c.transposed = true;
    c.output_padding = w.more;
    c.dilation = w.dilation;
    c.bias = w.x[0] == 2;
    SCOPED_TRACE(::testing::Message() << to_string(w.x) << " by " << to_string(w.w));
    for (const DType type : w.types) EXPECT_THAT(check(c, type, Layout::nhwc), testing::Contains(testing::HasSubstr("implicit")));
  }
}

/// Taps that a phase lacks, and channels of other groups, are not multiplied by zeros.
TEST(GpuConv, what_is_no_number_reaches_its_own_windows_alone) {
  Case phases = one({1, 64, 6, 9}, {64, 40, 3, 3}, {2, 2}, {1, 1, 1, 1});
  phases.transposed = true;
  phases.output_padding = {1, 1};
  Case groups = one({1, 48, 6, 9}, {40, 12, 3, 3}, {1, 1}, {1, 1, 1, 1});
  groups.group = 4;
  for (const Case& c : {phases, groups}) {
    Trial t = trial(c, DType::f16, Layout::nhwc);
    Tensor x = t.inputs[0].cast(DType::f32);
    x.data<float>()[x.size() / 2 + 4] = std::numeric_limits<float>::quiet_NaN();
    t.inputs[0] = x.cast(DType::f16);
    const Tensor want = expected(t);
    t.result(want.type(), want.shape(), Layout::nhwc);
    t.bound.node = &t.node;
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
      Case c = one({2, 24, 3, 5, 4}, {24, 16, stride[0], stride[1], stride[2]}, stride);
      c.transposed = true;
      EXPECT_THAT(check(c, type, Layout::nhwc), implicit);
    }
    Case line = one({2, 24, 9}, {24, 18, 4}, {4});
    line.transposed = true;
    EXPECT_THAT(check(line, type, Layout::nhwc), implicit);
    Case up;
    up.x = {{2, 16, 2, 3, 4}, {2, 24, 4, 6, 8}};
    up.w = {19, 40, 3, 3, 3};
    up.pads = {1, 1, 1, 1, 1, 1};
    up.upsample = {2, 1};
    const auto names = check(up, type, Layout::nhwc);
    EXPECT_THAT(names, implicit);
    if (type != DType::f32) {
      EXPECT_THAT(names, testing::Contains(testing::HasSubstr("walked")));
    }
    up.upsample = {4, 2};
    up.w = {24, 40, 1, 3, 2};
    up.pads = {0, 2, 1, 0, 1, 0};
    up.stride = {1, 2, 1};
    EXPECT_THAT(check(up, type, Layout::nhwc), implicit);
  }
}

TEST(GpuConv, weights_that_are_computed) {
  for (const bool transposed : {false, true}) {
    Case c = one({1, 12, 7, 7}, {12, 12, 3, 3}, {2, 2}, {1, 1, 1, 1});
    c.constant = false;
    c.transposed = transposed;
    check(c, DType::f16, Layout::nhwc);
    c.w = {12, 4, 3, 3};
    c.group = 3;
    check(c, DType::f32, Layout::plain);
  }
  // By cuDNN, which is given a copy of them channels-last: of generators whose weights are modulated, and of trackers.
  Case image = one({2, 32, 9, 11}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1});
  image.constant = false;
  for (const DType type : {DType::f16, DType::f32})
    EXPECT_THAT(check(image, type, Layout::nhwc), testing::Contains(testing::HasSubstr("cudnn")));
  image.x = {{1, 32, 9, 11}};
  image.w = {32, 1, 5, 5};
  image.group = 32;
  check(image, DType::f32, Layout::nhwc);
  Case volume = one({1, 16, 5, 6, 7}, {24, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1});
  volume.constant = false;
  check(volume, DType::f16, Layout::nhwc);
}

TEST(GpuConv, slices_of_other_tensors_and_odd_alignments) {
  for (const int64_t alignment : {2, 8, 16}) {
    for (const int64_t pitch : {40, 43}) {
      Trial t = trial(one({2, 24, 8, 9}, {32, 24, 3, 3}, {1, 1}, {1, 1, 1, 1}), DType::f16, Layout::nhwc);
      const Tensor want = expected(t);
      t.result(DType::f16, want.shape(), Layout::nhwc);
      t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = alignment;
      t.bound.inputs[0].strides = t.bound.outputs[0].strides = {8 * 9 * pitch, 1, 9 * pitch, pitch};
      EXPECT_FALSE(agree_on_gpu(t, {want}, tolerance(DType::f16)).empty());
    }
  }
}

TEST(GpuConv, plain_images_into_channels_last_ones_and_back) {
  for (const Layout from : {Layout::plain, Layout::nhwc}) {
    Trial t = trial(one({1, 3, 33, 31}, {32, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}), DType::f16, from);
    const Tensor want = expected(t);
    t.result(DType::f16, want.shape(), from == Layout::plain ? Layout::nhwc : Layout::plain);
    EXPECT_FALSE(agree_on_gpu(t, {want}, tolerance(DType::f16)).empty());
  }
}

}  // namespace
}  // namespace smelt::ops
