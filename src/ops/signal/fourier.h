// What a DFT or an STFT computes: lines of a length, each of which becomes its transform.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace smelt::ops {

struct Dft {
  bool inverse = false, onesided = false;
  int64_t axis = 0, length = 0;
  Shape y;
};

/// Opset 17 had the axis as an attribute (1 by default), 20 and later as input 2 (-2 by default). Throws Error.
Dft dft_of(const Node& node, const Shape& x, std::optional<int64_t> length, std::optional<int64_t> axis);

struct Stft {
  int64_t batch = 0, samples = 0, parts = 1;  // of the signal: [batch, samples] or [batch, samples, parts], 2 of complex ones
  int64_t step = 1, frame = 1;
  Shape y;  // [batch, frames, frame or frame / 2 + 1, 2]
};

/// `window`: its shape; null without one. Throws Error.
Stft stft_of(const Node& node, const Shape& x, int64_t step, const Shape* window, std::optional<int64_t> frame_length);

}  // namespace smelt::ops
