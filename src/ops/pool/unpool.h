// The geometry of MaxUnpool.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

/// The shape that the pooled input had, in which MaxUnpool's indices count. Throws Error where x or the window is none.
Shape unpooled_shape(const Node& node, const Shape& x);

}  // namespace smelt::ops
