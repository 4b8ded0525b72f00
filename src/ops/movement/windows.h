// Where the outputs of strided movement lie in its input: what the references and the prepared kernels share.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/core/copy.h"

namespace smelt::ops {

/// The window that a Transpose's output is of x, which has these strides.
StridedWindow transpose_window(const Node& node, const Shape& x);

/// starts, ends, axes and steps as numpy slices: negative counts from the end, and what lies outside is clamped.
struct SliceRange {
  Shape start, step, extent;  // one entry an axis of the input
};
SliceRange slice_range(const Shape& s, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                       std::optional<std::vector<int64_t>> axes, std::optional<std::vector<int64_t>> steps);
/// The window that such a slice is of a tensor with these elements from one index to the next along each axis.
StridedWindow slice_window(const SliceRange& r, Shape strides);

/// What a DepthToSpace or SpaceToDepth moves: element (i0, i1, …) of `extents` from Σ i · from to Σ i · to.
struct BlockMove {
  Shape extents, from, to;
};
/// x and y: the shapes; from and to: elements from one index to the next along their axes.
BlockMove block_move(const Node& node, const Shape& x, const Shape& from, const Shape& y, const Shape& to);

}  // namespace smelt::ops
