// A bound tensor's memory, axis by axis.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Elements from one index to the next along each logical axis.
Shape memory_strides(const BoundTensor& t);
/// memory_strides of t broadcast to a shape of `rank` axes: 0 along axes it does not have or has only one of.
Shape broadcast_strides(const BoundTensor& t, size_t rank);
/// Strided views of one shape.
struct Views {
  Shape extents;               // outermost first, at least one
  std::vector<Shape> strides;  // of each view, elements
};
/// The same views over as few axes as they can be: axes of extent 1 left out, the others in the order in which `leader` lies in
/// memory, neighbours merged where every view allows.
Views merged(const Shape& shape, const std::vector<Shape>& strides, size_t leader);

/// The entries of all axes but one.
Shape without(Shape s, size_t axis);
/// True when `operand`, which broadcasts to `shape`, differs along that axis of it only.
bool varies_along_only(const BoundTensor& operand, const Shape& shape, size_t axis);

/// True when all tensors of the node are plain and without strides of their own.
bool all_plain(const BoundNode& b);
/// Why a kernel of dense row-major tensors does not take the node's; nothing where all of them are dense and row-major.
std::optional<Refusal> rejects_layouts(const BoundNode& b);
/// True when the elements lie without gaps in the order of the layout.
bool is_dense(const BoundTensor& t);

}  // namespace smelt::ops
