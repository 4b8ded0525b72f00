// Convolutions of volumes by the kernel whose taps the host lays out: where its steps and masks lead, against the definition of windows,
// and what it refuses. No GPU is needed. tests/gpu/walked_conv_test.cpp holds the kernel to the reference.
#include <cstring>

#include "ops/conv/cuda_walked_problem.h"
#include "ops/conv/volumes_case.h"

namespace smelt::ops::conv {
namespace {

struct Window {
  int64_t first;  // bytes
  uint32_t mask;
  int64_t place;  // among the copies of a pixel
};

/// Where window `p` begins and its mask, as WalkedPixels in src/kernels/conv/walked.cuh has them.
Window window(const WalkedHead& g, const WalkedSegment& s, const WalkedProblem& q, int64_t p) {
  const int64_t row = p / g.width.divisor, plane = row / g.height.divisor, n = q.depth ? plane / g.depth.divisor : plane;
  const int64_t d = q.depth ? (plane % g.depth.divisor) * g.stride_d - g.pad_d : 0,
                h = (row % g.height.divisor) * g.stride[0] - g.pad[0], w = (p % g.width.divisor) * g.stride[1] - g.pad[1];
  uint32_t mask = 0;
  const auto set = [&](int64_t at, int64_t taps, int64_t dilation, int64_t extent, int64_t bit) {
    for (int64_t k = 0; k < taps; ++k)
      if (at + k * dilation >= 0 && at + k * dilation < extent) mask |= uint32_t{1} << (bit + k);
  };
  set(h, q.taps[0], g.dilation[0], g.in_height, 0);
  set(w, q.taps[1], g.dilation[1], g.in_width, 16);
  if (q.depth) set(d, q.depth->taps, g.dilation_d, g.in_depth, q.taps[0]);
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  return {n * s.image + (d >> s.shift) * s.plane + (h >> s.shift) * s.row + (w >> s.shift) * s.pixel, mask,
          kernels::walked_place(narrow(d), narrow(h), narrow(w), s.shift, narrow(q.up))};
}

struct Walked {
  WalkedHead head{};
  std::vector<WalkedSegment> segments;
  std::vector<std::vector<kernels::WalkedTap>> steps;  // of each

  Walked(const WalkedProblem& q, const WalkedTile& t) : segments(q.segments.size()), steps(q.segments.size()) {
    const std::vector<std::byte> bytes = walked_arguments(q, t);
    const std::byte* from = bytes.data();
    const auto take = [&](void* to, size_t size) { std::memcpy(to, from, size), from += size; };
    take(&head, offsetof(WalkedHead, segments));
    for (WalkedSegment& s : segments) take(&s, sizeof s);
    for (auto& of_segment : steps) {
      of_segment.resize(static_cast<size_t>(q.steps()));
      take(of_segment.data(), of_segment.size() * sizeof of_segment[0]);
    }
    EXPECT_EQ(from, bytes.data() + bytes.size());
  }
};

constexpr matmul::CudaConfig some_tile{.tile_m = 64, .tile_n = 64, .tile_k = 32, .warps_m = 2, .warps_n = 2, .stages = 2};

TEST(WalkedVolumes, windows_reach_what_their_definition_says) {
  std::mt19937 random(7);
  int images = 0;
  for (int i = 0; i < 60; ++i) {
    const Volumes c = random_volumes(random, 8 * (1 + i % 4), 5);
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto q = walked_problem(r);
    ASSERT_TRUE(q) << q.refusal().text;
    images += !q->depth;
    const auto tile = walked_tile(*q, some_tile, r.epilogue(4));
    ASSERT_TRUE(tile);
    const Walked walked(*q, *tile);
    const Shape &x = c.x, &w = c.w, &y = t.bound.outputs[0].shape;
    ASSERT_EQ(q->pixels(), y[0] * y[2] * y[3] * y[4]);
    for (int64_t p = 0; p < q->pixels(); ++p) {
      const Window at = window(walked.head, walked.segments[0], *q, p);
      const int64_t ow = p % y[4], oh = p / y[4] % y[3], od = p / (y[4] * y[3]) % y[2], n = p / (y[4] * y[3] * y[2]);
      for (int64_t tap = 0; tap < w[2] * w[3] * w[4]; ++tap) {
        const int64_t d = c.along(0, od, tap / (w[3] * w[4])), h = c.along(1, oh, tap / w[4] % w[3]),
                      v = c.along(2, ow, tap % w[4]);
        const bool inside = d >= 0 && d < x[2] && h >= 0 && h < x[3] && v >= 0 && v < x[4];
        const kernels::WalkedTap& step = walked.steps[0][static_cast<size_t>(tap)];
        ASSERT_EQ((at.mask & step.inside) == step.inside, inside) << "case " << i << ", pixel " << p << ", tap " << tap;
        if (!inside) continue;
        ASSERT_EQ(at.first + step.offset, (((n * x[2] + d) * x[3] + h) * x[4] + v) * x[1] * 2) << "case " << i << ", tap " << tap;
      }
    }
  }
  EXPECT_GE(images, 20);
}

/// A volume and its neighbour of half the size, each of whose pixels counts for eight.
TEST(WalkedVolumes, reach_copies_of_upsampled_pixels) {
  std::mt19937 random(8);
  for (int i = 0; i < 30; ++i) {
    Volumes c = random_volumes(random, 24, 3);
    for (size_t a = 2; a < 5; ++a) c.x[a] = (c.x[a] + 1) / 2 * 2;
    Trial t;
    t.node.domain = smelt_domain;
    t.node.op = "Conv";
    t.node.attrs = {{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}};
    t.node.attrs["segments"] = int64_t{2};
    t.node.attrs["upsample"] = std::vector<int64_t>{1, 2};
    const Shape small{c.x[0], 8, c.x[2] / 2, c.x[3] / 2, c.x[4] / 2}, large{c.x[0], 16, c.x[2], c.x[3], c.x[4]};
    t.add(Tensor::zeros(c.type, large), false, Layout::nhwc);
    t.add(Tensor::zeros(c.type, small), false, Layout::nhwc);
    t.add(Tensor::zeros(c.type, c.w), true);
    t.result(c.type, c.y(), Layout::nhwc);
    GpuRequest r = request(t);
    const auto q = walked_problem(r);
    ASSERT_TRUE(q) << q.refusal().text;
    ASSERT_EQ(q->steps(), 8 * c.w[2] * c.w[3] * c.w[4]);
    const auto tile = walked_tile(*q, some_tile, r.epilogue(4));
    ASSERT_TRUE(tile);
    const Walked walked(*q, *tile);
    const Shape &w = c.w, y = c.y();
    for (int64_t p = 0; p < q->pixels(); ++p) {
      const int64_t ow = p % y[4], oh = p / y[4] % y[3], od = p / (y[4] * y[3]) % y[2], n = p / (y[4] * y[3] * y[2]);
      for (size_t segment = 0; segment < 2; ++segment) {
        const Shape& x = segment == 0 ? large : small;
        const Window at = window(walked.head, walked.segments[segment], *q, p);
        const int64_t copies = segment == 0 ? 1 : 2;
        for (int64_t tap = 0; tap < q->tap_count(); ++tap) {
          const int64_t d = c.along(0, od, tap / (w[3] * w[4])), h = c.along(1, oh, tap / w[4] % w[3]),
                        v = c.along(2, ow, tap % w[4]);
          const bool inside = d >= 0 && d < c.x[2] && h >= 0 && h < c.x[3] && v >= 0 && v < c.x[4];
          const kernels::WalkedTap& step = walked.steps[segment][static_cast<size_t>(at.place * q->tap_count() + tap)];
          ASSERT_EQ((at.mask & step.inside) == step.inside, inside) << "case " << i << ", pixel " << p << ", tap " << tap;
          if (!inside) continue;
          ASSERT_EQ(at.first + step.offset, (((n * x[2] + d / copies) * x[3] + h / copies) * x[4] + v / copies) * x[1] * 2)
              << "case " << i << ", segment " << segment << ", tap " << tap;
        }
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
