// Convolutions of volumes by the kernel whose taps the host lays out: where its steps and masks lead, against the definition of windows,
// and what it refuses. No GPU is needed. tests/gpu/walked_conv_test.cpp holds the kernel to the reference.
#include <cstring>
#include <random>

#include "ops/conv/cuda_walked_problem.h"
#include "ops/conv/gpu_request_case.h"

namespace smelt::ops::conv {
namespace {

struct Volumes {
  Shape x, w;
  std::vector<int64_t> strides = {1, 1, 1}, pads = {0, 0, 0, 0, 0, 0}, dilations = {1, 1, 1};
  DType type = DType::f16;
  int64_t group = 1;
};

Trial trial(const Volumes& c) {
  Trial t;
  t.node.op = "Conv";
  t.node.attrs = {{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"group", c.group}};
  t.add(Tensor::zeros(c.type, c.x), false, Layout::nhwc);
  t.add(Tensor::zeros(c.type, c.w), true);
  Shape y = {c.x[0], c.w[0]};
  for (size_t a = 0; a < 3; ++a)
    y.push_back((c.x[2 + a] + c.pads[a] + c.pads[3 + a] - (c.w[2 + a] - 1) * c.dilations[a] - 1) / c.strides[a] + 1);
  t.result(c.type, y, Layout::nhwc);
  return t;
}

/// Where window `p` begins, in bytes, and its mask, as WalkedPixels in src/kernels/conv/walked.cuh has them.
std::pair<int64_t, uint32_t> window(const WalkedHead& g, const WalkedSegment& s, const WalkedProblem& q, int64_t p) {
  const int64_t row = p / g.width.divisor, plane = row / g.height.divisor, n = plane / g.depth.divisor;
  const int64_t d = (plane % g.depth.divisor) * g.stride_d - g.pad_d, h = (row % g.height.divisor) * g.stride[0] - g.pad[0],
                w = (p % g.width.divisor) * g.stride[1] - g.pad[1];
  uint32_t mask = 0;
  const auto set = [&](int64_t at, int64_t taps, int64_t dilation, int64_t extent, int64_t bit) {
    for (int64_t k = 0; k < taps; ++k)
      if (at + k * dilation >= 0 && at + k * dilation < extent) mask |= uint32_t{1} << (bit + k);
  };
  set(h, q.taps[0], g.dilation[0], g.in_height, 0);
  set(w, q.taps[1], g.dilation[1], g.in_width, 16);
  set(d, q.depth->taps, g.dilation_d, g.in_depth, q.taps[0]);
  return {n * s.image + d * s.plane + h * s.row + w * s.pixel, mask};
}

TEST(WalkedVolumes, windows_reach_what_their_definition_says) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  for (int i = 0; i < 60; ++i) {
    Volumes c{.x = {1 + below(3), 8 * (1 + below(4))}};
    c.w = {16, c.x[1]};
    for (size_t a = 0; a < 3; ++a) {
      const int64_t taps = 1 + below(5);
      c.strides[a] = 1 + below(3);
      c.dilations[a] = 1 + below(2);
      c.pads[a] = below(taps + 1);
      c.pads[a + 3] = below(taps + 1);
      c.w.push_back(taps);
      c.x.push_back(std::max<int64_t>(1, (taps - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 3]) + below(5));
    }
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto q = walked_problem(r);
    ASSERT_TRUE(q) << q.refusal().text;
    const matmul::CudaConfig config{.tile_m = 64, .tile_n = 64, .tile_k = 32, .warps_m = 2, .warps_n = 2, .stages = 2};
    const auto tile = walked_tile(*q, config, r.epilogue(4));
    ASSERT_TRUE(tile);
    const std::vector<std::byte> bytes = walked_arguments(*q, *tile);
    WalkedHead g{};
    WalkedSegment s{};
    std::vector<kernels::WalkedTap> steps(static_cast<size_t>(q->steps()));
    const std::byte* from = bytes.data();
    const auto take = [&](void* to, size_t size) { std::memcpy(to, from, size), from += size; };
    take(&g, offsetof(WalkedHead, segments));
    take(&s, sizeof s);
    take(steps.data(), steps.size() * sizeof steps[0]);
    ASSERT_EQ(from, bytes.data() + bytes.size());
    const Shape &x = c.x, &w = c.w, &y = t.bound.outputs[0].shape;
    for (int64_t p = 0; p < q->pixels(); ++p) {
      const auto [first, mask] = window(g, s, *q, p);
      const int64_t ow = p % y[4], oh = p / y[4] % y[3], od = p / (y[4] * y[3]) % y[2], n = p / (y[4] * y[3] * y[2]);
      for (int64_t tap = 0; tap < w[2] * w[3] * w[4]; ++tap) {
        const auto along = [&](size_t a, int64_t o, int64_t k) { return o * c.strides[a] + k * c.dilations[a] - c.pads[a]; };
        const int64_t d = along(0, od, tap / (w[3] * w[4])), h = along(1, oh, tap / w[4] % w[3]), v = along(2, ow, tap % w[4]);
        const bool inside = d >= 0 && d < x[2] && h >= 0 && h < x[3] && v >= 0 && v < x[4];
        const kernels::WalkedTap& step = steps[static_cast<size_t>(tap)];
        ASSERT_EQ((mask & step.inside) == step.inside, inside) << "case " << i << ", pixel " << p << ", tap " << tap;
        if (!inside) continue;
        ASSERT_EQ(first + step.offset, (((n * x[2] + d) * x[3] + h) * x[4] + v) * x[1] * 2) << "case " << i << ", tap " << tap;
      }
    }
  }
}

TEST(WalkedVolumes, say_what_they_lack) {
  const auto refusal = [](const Volumes& c) {
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto found = walked_problem(r);
    return found ? "taken" : found.refusal().text;
  };
  EXPECT_EQ(refusal({.x = {1, 64, 8, 28, 28}, .w = {64, 64, 3, 3, 3}, .pads = {1, 1, 1, 1, 1, 1}}), "taken");
  EXPECT_EQ(refusal({.x = {1, 4, 9, 9, 9}, .w = {64, 4, 3, 3, 3}}), "taken");
  EXPECT_EQ(refusal({.x = {1, 3, 9, 9, 9}, .w = {64, 3, 3, 3, 3}}),
            "copies of 2 bytes, expected at least 4: the channels of a pixel, or its strides");
  EXPECT_EQ(refusal({.x = {1, 8, 9, 9, 9}, .w = {64, 8, 8, 8, 1}}),
            "8 taps along the depth and 8 along the height, expected at most 15 together");
  EXPECT_EQ(refusal({.x = {1, 8, 9, 9, 9}, .w = {8, 4, 3, 3, 3}, .group = 2}), "2 groups; it knows one");
  EXPECT_EQ(refusal({.x = {1, 8, 9, 9, 9}, .w = {8, 8, 3, 3, 3}, .type = DType::f32}), "f32, whose sums tensor cores round");
}

}  // namespace
}  // namespace smelt::ops::conv
