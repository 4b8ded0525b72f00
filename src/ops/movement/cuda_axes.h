// Moves whose place in x is found axis by axis: by a stride, or by a list of places (Pad, nearest Resize, cropping), on a GPU.
#pragma once

#include "ops/movement/cuda_rows.h"

namespace smelt::ops {

struct MappedAxis {
  int64_t extent = 1;           // of y
  int64_t from = 0, to = 0;     // elements from one index to the next in x and y
  std::vector<int64_t> places;  // of each index in x; -1: outside. Empty: its own
  int tag = -1;                 // the caller's; an axis with one is left as it is
};

/// The axes outermost first, those that keep their places merged where neighbours allow; the innermost of them, if its elements
/// lie side by side in both, as `width`. At least one axis.
struct MergedAxes {
  std::vector<MappedAxis> axes;
  int64_t width = 1;
  int64_t rows() const;
  /// What all strides (and with them all rows' beginnings) are multiples of; 0: there is one row.
  int64_t unit() const;
};
MergedAxes merged_axes(std::vector<MappedAxis> axes);

/// kernels::Axes (src/kernels/movement/axes.h); the places, in elements of x, are added to `tables`.
std::vector<std::byte> axes_argument(const std::vector<MappedAxis>& axes, std::vector<int64_t>& tables);

/// Adds the candidate. `axes`: y's, in any order; `fill`: what lies outside. x and y are input 0 and output 0.
void offer_by_axes(std::vector<MappedAxis> axes, const BoundNode& b, std::vector<std::byte> fill, const std::string& name,
                   const Gpu& gpu, Offer& offer);
/// x's axes as y has them; the caller changes those that differ.
std::vector<MappedAxis> axes_of(const BoundTensor& x, const BoundTensor& y);

}  // namespace smelt::ops
