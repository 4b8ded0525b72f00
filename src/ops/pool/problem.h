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

/// MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, and ReduceMean over all spatial axes; refused for
/// other nodes.
Result<Problem> problem(const BoundNode& node);

}  // namespace smelt::ops::pool
