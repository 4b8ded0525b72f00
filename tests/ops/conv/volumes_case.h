// A convolution along three axes as tests without a GPU make it.
#pragma once

#include <random>

#include "ops/conv/gpu_request_case.h"

namespace smelt::ops::conv {

struct Volumes {
  Shape x, w;
  std::vector<int64_t> strides = {1, 1, 1}, pads = {0, 0, 0, 0, 0, 0}, dilations = {1, 1, 1};
  DType type = DType::f16;
  int64_t group = 1;
  Shape x_strides = {};

  Shape y() const {
    Shape y = {x[0], w[0]};
    for (size_t a = 0; a < 3; ++a)
      y.push_back((x[2 + a] + pads[a] + pads[3 + a] - (w[2 + a] - 1) * dilations[a] - 1) / strides[a] + 1);
    return y;
  }
  /// Where tap k of window o lies along an axis.
  int64_t along(size_t axis, int64_t o, int64_t k) const { return o * strides[axis] + k * dilations[axis] - pads[axis]; }
};

/// With channels last.
inline Trial trial(const Volumes& c) {
  Trial t;
  t.node.op = "Conv";
  t.node.attrs = {{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"group", c.group}};
  t.add(Tensor::zeros(c.type, c.x), false, Layout::nhwc);
  t.bound.inputs[0].strides = c.x_strides;
  t.add(Tensor::zeros(c.type, c.w), true);
  t.result(c.type, c.y(), Layout::nhwc);
  return t;
}

/// Of `channels`: windows of up to `most_taps` along each axis, some of one plane or of one pixel of a plane.
inline Volumes random_volumes(std::mt19937& random, int64_t channels, int64_t most_taps, int64_t most_stride = 3) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  Volumes c{.x = {1 + below(3), channels}, .w = {16, channels}};
  const int64_t flat = below(4);  // 0: planes of their own; 1: pixels of their own
  for (size_t a = 0; a < 3; ++a) {
    const bool own = (flat == 0 && a == 0) || (flat == 1 && a > 0);
    const int64_t taps = own ? 1 : 1 + below(most_taps);
    c.strides[a] = own ? 1 : 1 + below(most_stride);
    c.dilations[a] = 1 + below(2);
    c.pads[a] = own ? 0 : below(taps + 1);
    c.pads[a + 3] = own ? 0 : below(taps + 1);
    c.w.push_back(taps);
    c.x.push_back(std::max<int64_t>(1, (taps - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 3]) + below(5));
  }
  return c;
}

}  // namespace smelt::ops::conv
