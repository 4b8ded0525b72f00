// Integer-list parameters (axes, shape, starts, …): newer opsets pass them as an input, older ones as an attribute.
// Both are honoured; the input wins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// True when the node has the parameter in either form.
inline bool has_list(const InferContext& c, size_t input, const char* attr) { return c.has(input) || c.node.has(attr); }
inline bool has_list(const ComputeContext& c, size_t input, const char* attr) { return c.has(input) || c.node.has(attr); }

/// Its values; nothing when it is an input that is not known before the run. An absent parameter is an empty list.
inline std::optional<std::vector<int64_t>> list(const InferContext& c, size_t input, const char* attr) {
  if (c.has(input)) return c.ints(input);
  return c.node.get_ints(attr);
}
inline std::vector<int64_t> list(const ComputeContext& c, size_t input, const char* attr) {
  if (c.has(input)) return c.in(input).to_ints();
  return c.node.get_ints(attr);
}

/// Type of input i; throws when it is left out.
inline DType type_of(const InferContext& c, size_t i) {
  if (!c.has(i)) c.shape(i);  // throws with the message for a missing input
  return c.in(i).type;
}

/// Output o gets the type and shape of input i: shape unknown where the input's is.
inline void same_as(InferContext& c, size_t o, size_t i) {
  const DType t = type_of(c, i);
  if (c.in(i).shape_known)
    c.set(o, t, c.in(i).shape);
  else
    c.set_type(o, t);
}

/// Output i of `shape`: the one that was allocated when infer knew the shape, or a new one.
inline Tensor& allocated(ComputeContext& c, size_t i, DType type, const Shape& shape) {
  if (!c.outputs[i].valid()) c.outputs[i] = Tensor::empty(type, shape);
  return c.outputs[i];
}

}  // namespace smelt::ops
