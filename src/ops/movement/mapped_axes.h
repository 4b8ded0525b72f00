// Moves whose place in x is found axis by axis: by a stride, or by a list of places (Pad, nearest Resize, cropping).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/tactic.h"

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

/// x's axes as y has them; the caller changes those that differ.
std::vector<MappedAxis> axes_of(const BoundTensor& x, const BoundTensor& y);

/// A Pad's or CenterCropPad's axes, and what lies outside of x.
struct PaddedAxes {
  std::vector<MappedAxis> axes;
  std::optional<Tensor> fill;  // one element of x's type where it is known and not zero
  bool computed_fill = false;  // input 2 says it in the run
};
/// Refused where the pads are not known before the run.
Result<PaddedAxes> padded_axes(const BoundNode& b);

/// Why the processor's kernel does not take x and y, whatever the axes; nothing when it does: cpu_mapped.cpp.
std::optional<Refusal> rejects_mapped(const BoundNode& b);
/// It moves input 0 to output 0. `p.fill` may be left out: zero.
std::unique_ptr<Kernel> mapped_kernel(const BoundNode& b, const PaddedAxes& p, int threads);

}  // namespace smelt::ops
