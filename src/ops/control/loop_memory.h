// What a Loop or Scan comes to hold, found out before it does.
#pragma once

#include <span>
#include <vector>

#include "ops/core/graph_shapes.h"

namespace smelt::ops {

/// Throws Error where `count` results of these bytes each, and the tensor that they are put together in, are more than is left.
void check_scanned(int64_t bytes_each, int64_t count);

/// Follows a Loop's states. Where shapes, small values and the iteration's number decide what iterations give, it goes ahead of the loop
/// with these alone: a state that doubles needs more than there is after some thirty iterations, of which the last few would fill all
/// memory before one fails.
class LoopMemory {
 public:
  /// `unconditional`: only `trips` ends the loop.
  LoopMemory(const Graph& body, size_t states, int64_t trips, bool unconditional)
      : body_(body), states_(states), trips_(trips), unconditional_(unconditional) {}

  /// Before iteration `i`, whose inputs are `in`; `scanned` bytes are kept of those before. Throws Error naming the iteration that
  /// would need more memory than is left.
  void before(int64_t i, std::span<const Tensor> in, int64_t scanned);

 private:
  void look_ahead(GraphShapes shapes, int64_t i, std::span<const Tensor> in, int64_t held, int64_t scanned);

  const Graph& body_;
  size_t states_;
  int64_t trips_;
  bool unconditional_;
  int64_t next_look_ = int64_t{1} << 20;  // bytes held; twice as many each time, so that looking costs little
};

}  // namespace smelt::ops
