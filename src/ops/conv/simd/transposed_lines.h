// Lines of transposed convolutions of few channels.
#pragma once

#include <cstdint>

namespace smelt::ops {

struct TransposedLines {
  /// to[i] += Σ over c of w[c] · x[c · step + i], for i < n.
  void (*add)(const float* x, int64_t step, const float* w, int64_t channels, int64_t n, float* to);
  /// y[i · stride + p] = from[p · length + i], for p < stride and all places of y, of which there are n.
  void (*interleave)(const float* from, int64_t length, int64_t stride, int64_t n, float* y);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::TransposedLines& transposed_lines();
}
namespace smelt::avx2 {
const ops::TransposedLines& transposed_lines();
}
