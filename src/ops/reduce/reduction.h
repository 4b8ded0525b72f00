// The attributes of an ai.smelt Reduce.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace smelt::ops {

enum class ReduceKind : uint8_t { sum, mean, max, min, prod, sum_square, l2 };

struct Reduction {
  explicit Reduction(const Node& n);  // throws Error for an unknown kind or a `post` that does not parse

  std::string_view onnx() const;  // "ReduceSum"

  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;  // as given, negative ones from the end; empty: all
  bool keepdims = true;
  size_t inputs_before = 0;  // operands of the program; the rest are post's
  std::optional<expr::Program> post;
};

/// The shape that remains of `shape`; axes normalised.
Shape reduced_shape(const Shape& shape, std::span<const int64_t> axes, bool keepdims);

}  // namespace smelt::ops
