// The cost model of Hopper's convolutions against what was measured: the fastest candidate stands among the first, so that
// a tuning level which measures few finds it.
#include "ops/conv/cuda_hopper_windows.h"
#include "ops/conv/gpu_request_case.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops::conv {
namespace {

/// A layer of ResNet-50 over n images with bias and relu, and the candidates within 4% of the fastest on an H200 (bench_gpu
/// conv resnet50).
struct Measured {
  DType type;
  int64_t n, channels, size, m, kernel, stride;
  std::string_view fastest;
};

constexpr Measured measured[] = {
    {DType::i8, 32, 64, 56, 64, 1, 1,
     "256x64x64 g2a +b s11 b1p k1, 256x64x64 g2a s11 b1p k1, 128x64x64 g1 +b s9 b2p k1, 256x64x64 g2 +b s11 b1p k1, 256x64x64 g2 "
     "s11 b1p k1"},
    {DType::i8, 32, 64, 56, 64, 3, 1, "256x64x64 g2a +b s11 b1p k1, 192x64x64 g3 s12 b1p k1, 256x64x64 g2 +b s11 b1p k1"},
    {DType::i8, 32, 64, 56, 256, 1, 1, "256x64x64 g2a +a s11 b1p k1, 256x64x64 g2a +b s11 b1p k1"},
    {DType::i8, 32, 256, 56, 64, 1, 1,
     "128x64x128 g1 s4 b2p k1, 128x64x128 g3a s9 b1p k1, 128x64x128 g3a +b s9 b1p k1, 128x64x128 g1 +b s4 b2p k1"},
    {DType::i8, 32, 256, 56, 128, 1, 1, "256x64x128 g2a +a s5 b1p k1, 128x128x128 g2a s6 b1p k1, 64x128x128 g2a s4 b2p k1"},
    {DType::i8, 32, 128, 56, 128, 3, 2, "192x128x128 g3 s5 b1 k1, 96x128x128 swap g2 s7 b1p k1"},
    {DType::i8, 32, 128, 28, 512, 1, 1,
     "128x128x128 g2a s6 b1p k1, 128x128x128 g2a +a s6 b1p k1, 128x128x128 g2a +b s6 b1p k1, 64x128x128 g2a s4 b2p k1"},
    {DType::i8, 32, 256, 56, 512, 1, 2,
     "128x128x128 g2a s6 b1p k1, 128x128x128 g2a +b s6 b1p k1, 128x128x128 g2a +a s6 b1p k1, 64x256x128 g2a s5 b1p k1, "
     "64x256x128 g2a +b s5 b1p k1"},
    {DType::i8, 32, 512, 28, 128, 1, 1, "64x128x128 g3a s9 b1p k1, 128x64x128 g3a +a s9 b1p k1"},
    {DType::i8, 32, 128, 28, 128, 3, 1, "96x128x128 swap g2 s7 b1p k1, 192x128x128 g3 s5 b1 k1"},
    {DType::i8, 32, 512, 28, 256, 1, 1,
     "128x128x128 g2a +a s6 b1p k1, 128x128x128 g2a s6 b1p k1, 128x128x128 g2a +b s6 b1p k1, 64x256x128 g2a s5 b1p k1, "
     "256x64x128 g2a +a s5 b1p k1"},
    {DType::i8, 32, 256, 28, 256, 3, 2, "96x128x128 swap g2 +a s7 b1 k1"},
    {DType::i8, 32, 256, 14, 1024, 1, 1, "64x128x128 g2a s4 b2p k1, 128x128x128 g2a s6 b1p k1"},
    {DType::i8, 32, 512, 28, 1024, 1, 2,
     "128x128x128 g2a s6 b1p k1, 128x128x128 g2a +a s6 b1p k1, 64x256x128 g2a s5 b1p k1, 192x128x128 g3 s5 b1p k1, 64x256x128 "
     "g2a +b s5 b1p k1"},
    {DType::i8, 32, 1024, 14, 256, 1, 1,
     "192x64x128 g3 s7 b1 k1, 96x128x128 swap g2 s7 b1 k1, 96x128x128 swap g2 +a s7 b1 k1, 192x64x128 g3 +a s7 b1 k1"},
    {DType::i8, 32, 256, 14, 256, 3, 1, "96x128x128 swap g2 +a s7 b1 k1"},
    {DType::i8, 32, 1024, 14, 512, 1, 1, "192x128x128 g3 s5 b1 k1, 192x128x128 g3 +a s5 b1 k1"},
    {DType::i8, 32, 512, 14, 512, 3, 2,
     "112x128x128 swap g2 +a +b s7 b1 c2, 112x128x128 swap g2 +b s7 b1 c2, 128x128x128 swap g2 +a +b s5 b1 e2, 128x128x128 g2 +a "
     "+b s6 b1 e2"},
    {DType::i8, 32, 512, 7, 2048, 1, 1, "64x128x128 g2a s4 b2p k1, 128x224x128 g2 s5 b1 k1, 208x128x128 swap g2 s4 b1 k1"},
    {DType::i8, 32, 1024, 14, 2048, 1, 2,
     "208x128x128 swap g2 s4 b1 k1, 208x128x128 swap g2 +b s4 b1 k1, 208x128x128 swap g2 +a s4 b1 k1, 128x224x128 g2 s5 b1 k1"},
    {DType::i8, 32, 2048, 7, 512, 1, 1, "64x128x128 g1 +b4 s9 b1 k1, 64x128x128 g1 +a +b s9 b1 k1"},
    {DType::i8, 32, 512, 7, 512, 3, 1,
     "112x128x128 swap g2 +b s7 b1 c2, 112x128x128 swap g2 +a +b s7 b1 c2, 128x128x128 swap g2 +a +b s5 b1 e2"},
    {DType::f16, 8, 64, 56, 64, 1, 1, "96x64x64 swap g1 s4 b2 k1, 112x64x64 swap g1 s4 b2 k1, 128x64x64 g1 s4 b2 k1"},
    {DType::f16, 8, 64, 56, 64, 3, 1,
     "192x64x64 g3 s6 b1 k1, 112x64x64 swap g1 s4 b2 k1 l232, 192x64x64 swap g1 s6 b1 k1, 208x64x64 swap g1 s5 b1 k1, 128x64x64 "
     "swap g1 s4 b2 k1 l248"},
    {DType::f16, 8, 64, 56, 256, 1, 1, "64x128x64 g2a s3 b2p k1 y"},
    {DType::f16, 8, 256, 56, 64, 1, 1,
     "96x64x64 swap g1 s4 b2 k1, 112x64x64 swap g1 s4 b2 k1, 64x64x64 g1 s6 b2p k1, 128x64x64 g1 s4 b2 k1, 192x64x64 g3 s6 b1 "
     "k1"},
    {DType::f16, 8, 256, 56, 128, 1, 1, "96x128x64 swap g2 s7 b1p k1, 128x64x64 g3a +a s7 b1p k1 y, 64x128x64 g3a s7 b1p k1 y"},
    {DType::f16, 8, 128, 56, 128, 3, 2, "64x128x64 g1 +b4 s9 b1 k1"},
    {DType::f16, 8, 128, 28, 512, 1, 1,
     "64x128x64 g3a s7 b1p k1 y, 64x128x64 g3a +b s7 b1p k1 y, 128x64x64 g3a s7 b1p k1 y, 64x128x64 g3a +a s7 b1p k1 y"},
    {DType::f16, 8, 256, 56, 512, 1, 2, "128x112x64 g2a s6 b1p k1 y, 128x64x64 g3a s7 b1p k1 y"},
    {DType::f16, 8, 512, 28, 128, 1, 1,
     "64x64x64 g1 +b4 s6 b2 k1, 64x64x64 g1 +a +b s6 b2 k1, 80x128x64 swap g2 s7 b1 k1, 128x64x64 g2 +a +b s8 b1 k1, 128x64x64 "
     "g2 s8 b1 k1"},
    {DType::f16, 8, 128, 28, 128, 3, 1, "64x128x64 g1 +b4 s9 b1 k1"},
    {DType::f16, 8, 512, 28, 256, 1, 1,
     "96x128x64 swap g2 s7 b1 k1, 192x64x64 g3 s6 b1 k1, 96x128x64 swap g2 +a s7 b1 k1, 96x128x64 swap g2 +b s7 b1 k1"},
    {DType::f16, 8, 256, 28, 256, 3, 2, "128x64x64 g2 +a s8 b1 e2, 128x64x64 g2 +a4 s8 b1 e2, 128x64x64 g2 +a s9 b1 c2"},
    {DType::f16, 8, 256, 14, 1024, 1, 1,
     "128x112x64 g2 s6 b1 k1, 112x128x64 swap g2 s6 b1 k1, 64x128x64 g3a s7 b1p k1 y, 128x128x64 g2 s6 b1 k1"},
    {DType::f16, 8, 512, 28, 1024, 1, 2, "128x112x64 g2 s6 b1 k1, 112x128x64 swap g2 s6 b1 k1"},
    {DType::f16, 8, 1024, 14, 256, 1, 1,
     "64x64x64 g1 +a4 s12 b1 k1, 64x80x64 g1 +a4 s12 b1 k1, 128x64x64 g2 +a4 s8 b1 e2, 64x64x64 g1 +a +b s12 b1 k1, 64x72x64 g1 "
     "+a4 s12 b1 k1, 64x72x64 g1 s12 b1 k1, 64x80x64 g1 s12 b1 k1, 64x64x64 g1 +b4 s12 b1 k1"},
    {DType::f16, 8, 256, 14, 256, 3, 1,
     "128x64x64 g2 +a4 s8 b1 e2, 128x64x64 g2 +a s8 b1 e2, 112x64x64 swap g1 +a +b s5 b2 c2, 128x64x64 g2 +a4 s9 b1 c2"},
    {DType::f16, 8, 1024, 14, 512, 1, 1, "64x128x64 g1 +b4 s9 b1 k1, 64x128x64 g1 +a +b s9 b1 k1"},
    {DType::f16, 8, 512, 14, 512, 3, 2, "80x128x64 swap g2 s8 b1 c4, 80x128x64 swap g2 s8 b1 c5, 96x128x64 swap g2 s6 b1 e4"},
    {DType::f16, 8, 512, 7, 2048, 1, 1, "80x128x64 swap g2 s7 b1 k1"},
    {DType::f16, 8, 1024, 14, 2048, 1, 2, "80x128x64 swap g2 s7 b1 k1, 80x128x64 swap g2 +a +b s7 b1 k1"},
    {DType::f16, 8, 2048, 7, 512, 1, 1, "64x64x64 g1 +a4 s12 b1 e2, 64x64x64 g1 +a4 s12 b1 c2"},
    {DType::f16, 8, 512, 7, 512, 3, 1, "80x128x64 swap g2 s8 b1 c5, 80x128x64 swap g2 s8 b1 c4"},
    {DType::f16, 32, 64, 56, 64, 1, 1,
     "128x64x64 swap g1 s3 b2p k1, 96x64x64 swap g1 s4 b2p k1, 128x64x64 g1 s4 b2p k1, 192x64x64 g3 s6 b1p k1, 112x64x64 swap g1 "
     "s4 b2p k1"},
    {DType::f16, 32, 64, 56, 64, 3, 1, "144x64x64 swap g1 s3 b2p k1 l264, 256x64x64 g2 s5 b1p k1"},
    {DType::f16, 32, 64, 56, 256, 1, 1,
     "128x144x64 g2a r240 s5 b1p k1 y, 128x128x64 g2a s6 b1p k1 y, 128x144x64 g2a r240 +a s5 b1p k1 y, 128x144x64 g2a r240 +b s5 "
     "b1p k1 y"},
    {DType::f16, 32, 256, 56, 64, 1, 1, "96x64x64 swap g1 s4 b2p k1, 128x64x64 swap g1 s3 b2p k1"},
    {DType::f16, 32, 256, 56, 128, 1, 1,
     "192x128x64 g3 s5 b1p k1, 128x128x64 g2a s6 b1p k1 y, 128x128x64 g2a +b s6 b1p k1 y, 128x128x64 g1 s3 b2p k1, 192x128x64 g3 "
     "+b s5 b1p k1, 192x128x64 swap g2 s4 b1p k1"},
    {DType::f16, 32, 128, 56, 128, 3, 2,
     "192x128x64 g3 +b s5 b1 k1, 192x128x64 g3 s5 b1 k1, 192x128x64 swap g2 +b s4 b1 k1, 96x128x64 swap g2 +b s7 b1p k1, "
     "192x128x64 swap g2 s4 b1 k1"},
    {DType::f16, 32, 128, 28, 512, 1, 1,
     "128x128x64 g2a +b s6 b1p k1 y, 128x128x64 g2a s6 b1p k1 y, 128x128x64 g2a +a s6 b1p k1 y, 64x256x64 g2a s4 b1p k1 y"},
    {DType::f16, 32, 256, 56, 512, 1, 2,
     "128x128x64 g2a +a s6 b1p k1 y, 128x128x64 g2a s6 b1p k1 y, 128x128x64 g2a +b s6 b1p k1 y, 128x144x64 g2a r240 s5 b1p k1 y"},
    {DType::f16, 32, 512, 28, 128, 1, 1, "96x128x64 swap g2 s7 b1p k1, 96x128x64 swap g2 +b s7 b1p k1"},
    {DType::f16, 32, 128, 28, 128, 3, 1, "192x128x64 g3 s5 b1 k1, 192x128x64 swap g2 s4 b1 k1"},
    {DType::f16, 32, 512, 28, 256, 1, 1, "128x128x64 g2a +a s6 b1p k1 y, 128x128x64 g2a +b s6 b1p k1 y"},
    {DType::f16, 32, 256, 28, 256, 3, 2, "112x128x64 swap g2 +b4 s6 b1 k1, 112x128x64 swap g2 +a +b s6 b1 k1"},
    {DType::f16, 32, 256, 14, 1024, 1, 1,
     "64x256x64 g2a s4 b1p k1 y, 128x128x64 g2a s6 b1p k1 y, 128x128x64 g2a +a s6 b1p k1 y, 64x256x64 g2a +b s4 b1p k1 y, "
     "64x256x64 g2a +a s4 b1p k1 y"},
    {DType::f16, 32, 512, 28, 1024, 1, 2, "128x128x64 g2a +a s6 b1p k1 y"},
    {DType::f16, 32, 1024, 14, 256, 1, 1, "96x128x64 swap g2 +a s7 b1 k1"},
    {DType::f16, 32, 256, 14, 256, 3, 1,
     "112x128x64 swap g2 +b4 s6 b1 k1, 112x128x64 swap g2 +a +b s6 b1 k1, 112x128x64 swap g2 +b s6 b1 k1"},
    {DType::f16, 32, 1024, 14, 512, 1, 1, "192x128x64 g3 +a s5 b1 k1, 192x128x64 g3 s5 b1 k1, 192x128x64 swap g2 +a s4 b1 k1"},
    {DType::f16, 32, 512, 14, 512, 3, 2,
     "112x128x64 swap g2 +a +b s7 b1 c2, 224x64x64 swap g1 +a4 s6 b1 c2, 112x128x64 swap g2 +b s7 b1 c2"},
    {DType::f16, 32, 512, 7, 2048, 1, 1,
     "128x208x64 g2 s4 b1 k1, 208x128x64 swap g2 s4 b1 k1, 128x112x64 g2a s6 b1p k1 y, 128x208x64 g2 +a s4 b1 k1, 208x128x64 "
     "swap g2 +a s4 b1 k1, 128x224x64 g2 s4 b1 k1"},
    {DType::f16, 32, 1024, 14, 2048, 1, 2, "128x208x64 g2 s4 b1 k1, 208x128x64 swap g2 s4 b1 k1, 208x128x64 swap g2 +b s4 b1 k1"},
    {DType::f16, 32, 2048, 7, 512, 1, 1, "112x128x64 swap g2 +b s7 b1 c2, 112x128x64 swap g2 +a +b s7 b1 c2"},
    {DType::f16, 32, 512, 7, 512, 3, 1, "112x128x64 swap g2 +a +b s7 b1 c2, 112x128x64 swap g2 +b s7 b1 c2"},
};

Trial trial(const Measured& c) {
  const bool integers = c.type == DType::i8;
  const int64_t pad = (c.kernel - 1) / 2, out = (c.size + 2 * pad - c.kernel) / c.stride + 1;
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = integers ? "QLinearConv" : "Conv";
  if (!integers) t.node.attrs["segments"] = int64_t{1};
  t.node.attrs["strides"] = std::vector<int64_t>{c.stride, c.stride};
  t.node.attrs["pads"] = std::vector<int64_t>{pad, pad, pad, pad};
  t.node.program =
      expr::Program::parse(integers ? "(in0:f32) { %1 = relu(in0):f32; " + quantized("%1", "1", 0, 2, "i8") + "return %10 }"
                                    : "(in0:f32) { %1 = relu(in0):f32; %2 = cast(%1):f16; return %2 }");
  const auto constant = [&](Tensor value) {
    t.bound.inputs.push_back({value.type(), value.shape(), Layout::plain, {}, {}});
    t.bound.inputs.back().constant = std::move(value);
  };
  t.bound.inputs.push_back({c.type, {c.n, c.channels, c.size, c.size}, Layout::nhwc, {}, {}});
  constant(Tensor::zeros(c.type, {c.m, c.channels, c.kernel, c.kernel}));
  if (integers) {
    constant(Tensor::zeros(DType::i32, {c.m}));
    constant(Tensor::scalar(0.05f));
    constant(Tensor::scalar<int8_t>(0));
    constant(Tensor::zeros(DType::f32, {c.m}));
    constant(Tensor::zeros(DType::i8, {c.m}));
  } else {
    t.bound.inputs.push_back({c.type, {c.m}, Layout::plain, {}, {}});
  }
  for (size_t i = 0; i < t.bound.inputs.size(); ++i) t.node.inputs.push_back(ValueId(static_cast<int>(i)));
  t.result(c.type, {c.n, c.m, out, out}, Layout::nhwc);
  return t;
}

/// The place of the first of the fastest among those offered, from 0.
size_t place(const Measured& c) {
  Trial t = trial(c);
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  size_t at = 0;
  for (const Candidate& candidate : offer(t.bound, machine).candidates) {
    if (candidate.tactic != "hopper") continue;
    for (size_t begin = 0; begin < c.fastest.size();) {
      const size_t end = std::min(c.fastest.find(", ", begin), c.fastest.size());
      if (c.fastest.substr(begin, end - begin) == candidate.config) return at;
      begin = end + 2;
    }
    ++at;
  }
  return at;
}

TEST(HopperConvRanks, have_what_was_the_fastest_among_the_first_eight_of_95_in_100) {
  size_t found = 0;
  for (const Measured& c : measured) {
    const size_t at = place(c);
    found += at < 8 ? 1 : 0;
    if (at >= 8)
      fmt::print("{} x {} x {}^2 -> {} {}x{} s{}: {} is only number {}\n", c.n, c.channels, c.size, c.m, c.kernel, c.kernel,
                 c.stride, c.fastest, at + 1);
  }
  EXPECT_GE(100 * found, 95 * std::size(measured));
}

/// 7 rows of tiles in pairs are 8: of 8 columns, and with K in two, 128 blocks, which as clusters of eight do not run at once on 132
/// multiprocessors. They took 10.4 us where others took 5.7.
TEST(HopperConvRanks, no_cluster_of_four_has_a_second_round_of_blocks_without_tiles) {
  size_t clusters = 0;
  for (const Measured& c : measured) {
    if (c.type != DType::f16) continue;
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    const auto product = windows_product(r, *p);
    const auto configs = windows_configs(*p, product, *r.gpu);
    ASSERT_TRUE(configs) << configs.refusal().text;
    for (const matmul::HopperConfig& config : *configs) {
      if (config.patch() <= 2) continue;
      ++clusters;
      EXPECT_GE(config.launched(product), config.tiles(product));
      EXPECT_LE(config.launched(product) * config.splits, config.resident(r.gpu->info.multiprocessors)) << config.print();
    }
  }
  EXPECT_GT(clusters, 100u);
}

}  // namespace
}  // namespace smelt::ops::conv
