// What a pooling computes, channels last: the contract between the graph and the tactics.
//
//   pool:max:f32:1x64x112x112:k3s2p1:nhwc       max, mean (padding counted), mean-inside (not counted)
#pragma once

#include <string>

#include "ops/core/tactic.h"
#include "ops/core/window.h"
#include "ops/cpu/integer/program.h"

namespace smelt::ops::pool {

enum class Kind : uint8_t { max, mean, mean_inside };

struct Problem {
  Kind kind = Kind::max;
  DType type = DType::f32;
  Shape x, y;
  Window window;
  Layout from = Layout::nhwc, to = Layout::nhwc;
  std::optional<integer::DequantizeStep> dequantized;  // bytes that the node's program dequantizes first; not printed
};

std::string print(const Problem& p);

/// Calls f(tap y, tap x) for the taps of the window at a place that lie inside the image, row by row.
template <class F> void for_taps(const Problem& p, int64_t place_y, int64_t place_x, F&& f) {
  const Window& w = p.window;
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    const int64_t y = place_y * w.stride[0] - w.pad_begin[0] + ky * w.dilation[0];
    if (y < 0 || y >= p.x[2]) continue;
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t x = place_x * w.stride[1] - w.pad_begin[1] + kx * w.dilation[1];
      if (x >= 0 && x < p.x[3]) f(y, x);
    }
  }
}

/// The problem with three spatial axes, those that it lacks of extent 1 in front.
Problem as_volume(const Problem& p);
/// Elements along [N, D, H, W] of an image whose channels are adjacent, axes that it lacks in front as as_volume has them.
Shape volume_steps(const BoundTensor& image);

/// The same of a problem of as_volume: calls f(tap z, tap y, tap x).
template <class F> void for_volume_taps(const Problem& p, int64_t place_z, int64_t place_y, int64_t place_x, F&& f) {
  const Window& w = p.window;
  const auto at = [&](size_t axis, int64_t place, int64_t k) {
    return place * w.stride[axis] - w.pad_begin[axis] + k * w.dilation[axis];
  };
  const auto inside = [&](size_t axis, int64_t i) { return i >= 0 && i < p.x[axis + 2]; };
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
    const int64_t z = at(0, place_z, kz);
    if (!inside(0, z)) continue;
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
      const int64_t y = at(1, place_y, ky);
      if (!inside(1, y)) continue;
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx)
        if (const int64_t x = at(2, place_x, kx); inside(2, x)) f(z, y, x);
    }
  }
}

/// MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, and ReduceMean over all spatial axes; refused for
/// other nodes.
Result<Problem> problem(const BoundNode& node);

}  // namespace smelt::ops::pool
