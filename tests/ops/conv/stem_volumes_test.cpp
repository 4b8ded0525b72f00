// First layers of volumes: the walk over K that src/kernels/conv/stem.cuh has, on the host with the weights as they are packed for it,
// against the reference; and what it refuses. No GPU is needed. tests/gpu/stem_conv_test.cpp holds the kernel to the reference.
#include <cstring>
#include <random>

#include "base/number.h"
#include "kernels/conv/walked.h"
#include "ops/conv/cuda_stem.h"
#include "ops/conv/gpu_request_case.h"

namespace smelt::ops::conv {
namespace {

struct Volumes {
  Shape x, w;
  std::vector<int64_t> strides, pads, dilations;  // pads: begins, then ends
};

Trial trial(const Volumes& c, DType type = DType::f16) {
  Trial t;
  t.node.op = "Conv";
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["dilations"] = c.dilations;
  t.add(random_tensor(type, c.x, 1, -1, 1), false);
  t.add(random_tensor(type, c.w, 2, -1, 1), true);
  t.result(type, expected(t).shape(), Layout::nhwc);
  return t;
}

/// y as the kernel sums it: the depth's taps, rows of taps, steps of 32 bytes, and a lane's four words of 16 columns.
std::vector<double> walked(const GpuRequest& r, const StemTile& t, const Tensor& image) {
  constexpr int64_t pixel = kernels::stem_channels * 2;  // bytes
  const Problem& p = r.problem;
  const Shape &x = p.x[0].shape, &w = p.w, &y = p.y;
  const int64_t steps = kernels::stem_line(static_cast<int>(w[4]), 2) / 32;
  const Tensor bytes = stem_weights(r, t);
  Tensor halves = Tensor::empty(p.input, {bytes.size() / 2});
  std::memcpy(halves.raw(), bytes.raw(), static_cast<size_t>(bytes.nbytes()));
  const std::vector<double> packed = halves.to_doubles(), in = image.to_doubles();
  std::vector<double> out(static_cast<size_t>(elements(y)));
  const auto pixel_at = [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t v) {
    if (c >= x[1] || h < 0 || h >= x[3] || v < 0 || v >= x[4]) return 0.0;
    return in[static_cast<size_t>((((n * x[1] + c) * x[2] + d) * x[3] + h) * x[4] + v)];
  };
  for (int64_t place = 0; place < y[0] * y[2] * y[3] * y[4]; ++place) {
    const int64_t ow = place % y[4], oh = place / y[4] % y[3], plane = place / (y[4] * y[3]), od = plane % y[2], n = plane / y[2];
    size_t word = 0;  // of the packed weights
    for (int64_t block = 0; block < divide_up(y[1], t.columns); ++block)
      for (int64_t kd = 0; kd < w[2]; ++kd)
        for (int64_t kh = 0; kh < w[3]; ++kh)
          for (int64_t step = 0; step < steps; ++step)
            for (int64_t sixteen = 0; sixteen < t.columns / 16; ++sixteen)
              for (int lane = 0; lane < 32; ++lane)
                for (int i = 0; i < 4; ++i, ++word) {
                  const kernels::StemWord at = kernels::stem_word(lane, i, static_cast<int>(step));
                  const int64_t m = block * t.columns + kernels::walked_channel(static_cast<int>(sixteen * 16) + at.column,
                                                                                static_cast<int>(t.width));
                  const int64_t d = od * p.stride[0] + kd * p.dilation[0] - p.pad_begin[0];
                  if (m >= y[1] || d < 0 || d >= x[2]) continue;
                  for (int64_t e = 0; e < 2; ++e) {
                    const int64_t byte = at.byte + e * 2, row = oh * p.stride[1] + kh * p.dilation[1] - p.pad_begin[1],
                                  column = ow * p.stride[2] + byte / pixel - p.pad_begin[2];
                    out[static_cast<size_t>((((n * y[1] + m) * y[2] + od) * y[3] + oh) * y[4] + ow)] +=
                        pixel_at(n, byte % pixel / 2, d, row, column) * packed[2 * word + static_cast<size_t>(e)];
                  }
                }
  }
  return out;
}

TEST(StemVolumes, are_summed_as_the_reference_has_them) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  for (int i = 0; i < 12; ++i) {
    Volumes c;
    const int64_t taps[] = {1 + below(3), 1 + below(3), 1 + below(7)};
    c.x = {1 + below(2), 1 + below(4)};
    c.w = {5 + below(70), c.x[1]};
    for (size_t a = 0; a < 3; ++a) {
      c.strides.push_back(1 + below(2));
      c.dilations.push_back(a == 2 ? 1 : 1 + below(2));
      c.pads.push_back(below(taps[a] + 1));
      c.w.push_back(taps[a]);
    }
    for (size_t a = 0; a < 3; ++a) {
      c.pads.push_back(below(taps[a] + 1));
      c.x.push_back(std::max<int64_t>(1, (taps[a] - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 3]) + below(4));
    }
    Trial t = trial(c);
    GpuRequest r = request(t);
    ASSERT_FALSE(rejects_stem(r, {})) << rejects_stem(r, {})->text;
    const std::vector<double> want = expected(t).to_doubles();
    for (const StemTile& tile : stem_tiles(r, {})) {
      SCOPED_TRACE(fmt::format("case {}: {}", i, tile.print()));
      const std::vector<double> got = walked(r, tile, t.inputs[0]);
      ASSERT_EQ(got.size(), want.size());
      for (size_t at = 0; at < got.size(); ++at) ASSERT_NEAR(got[at], want[at], 0.02) << at;
      if (i >= 4) break;  // all tiles of the first few
    }
  }
}

TEST(StemVolumes, of_video_models_are_estimated_far_below_multiply_adds) {
  Trial t = trial({.x = {1, 3, 16, 112, 112},
                   .w = {64, 3, 3, 7, 7},
                   .strides = {1, 2, 2},
                   .pads = {1, 3, 3, 1, 3, 3},
                   .dilations = {1, 1, 1}});
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  double stem = 1e9, direct = 1e9;
  for (const Candidate& c : offer(t.bound, machine).candidates) {
    double& least = c.tactic == "stem" ? stem : direct;
    if (c.tactic == "stem" || c.config.starts_with("direct")) least = std::min(least, c.estimate_us);
  }
  EXPECT_LT(stem, 40);
  EXPECT_GT(direct, 2 * stem);
}

TEST(StemVolumes, with_taps_apart_or_large_planes_of_taps_are_refused) {
  const auto refusal = [](const Volumes& c) {
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto why = rejects_stem(r, {});
    return why ? why->text : "taken";
  };
  EXPECT_EQ(refusal({{1, 3, 4, 9, 9}, {8, 3, 1, 3, 3}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 2}}),
            "taps 2 columns apart, expected neighbours");
  EXPECT_EQ(refusal({{1, 3, 2, 40, 9}, {8, 3, 1, 40, 3}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}}),
            "a filter of 40 x 3: 40 steps of 32 bytes, expected at most 36");
  EXPECT_EQ(refusal({{1, 3, 60, 9, 9}, {64, 3, 50, 7, 7}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}}),
            "no rectangle of windows fits into shared memory");
}

}  // namespace
}  // namespace smelt::ops::conv
