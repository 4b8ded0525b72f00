// Attributes that hold an element type.
#pragma once

#include "base/error.h"
#include "graph/graph.h"

namespace smelt::ops {

/// The type that an attribute holds as TensorProto numbers it; throws for a number that is none.
inline DType type_attribute(const Node& node, const char* attr) {
  const int64_t code = node.get_int(attr, 0);
  if (code <= 0 || code > static_cast<int64_t>(DType::i2))
    fail("attribute {} is {}, expected a TensorProto element type", attr, code);
  return static_cast<DType>(code);
}

}  // namespace smelt::ops
