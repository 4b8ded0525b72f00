// The geometry of RotaryEmbedding, ONNX's and ONNX Runtime's, shared by its reference and its faster tactic.
#pragma once

#include "graph/graph.h"

namespace smelt::ops {

/// Inputs: ONNX x, cos, sin, positions?; ONNX Runtime x, positions, cos, sin.
struct Rotary {
  int64_t batch = 0, heads = 0, steps = 0, size = 0, rotated = 0;
  bool packed = false;  // rank 3: [batch, steps, heads * size]; else [batch, heads, steps, size]
  size_t cos_input = 1, sin_input = 2, position_input = 3;
};

/// Throws Error for shapes and attributes that do not fit. `second` and `third`: of the inputs behind x.
Rotary rotary_of(const Node& node, const Shape& x, const Shape& second, const Shape& third);

}  // namespace smelt::ops
