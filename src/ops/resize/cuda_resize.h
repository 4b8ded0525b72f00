// Resize's geometry as a GPU's kernels get it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/resize/resize.h"

namespace smelt::ops {

/// resize_axes of a bound Resize or Upsample; nothing, with the reason, where its scales or sizes are not known before the run.
/// Tensors that exporters leave empty count as left out.
Result<std::vector<ResizeAxis>> known_resize_axes(const BoundNode& b);

}  // namespace smelt::ops
