// ConvInteger's extents, as its kernels on the processor see them.
#pragma once

#include <algorithm>

#include "ops/core/tactic.h"

namespace smelt::ops::conv {

/// Three spatial axes: unit ones in front of what the image has.
struct IntegerForm {
  int64_t batch = 0, channels = 0, outputs = 0, group = 1;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], padded[3];
  Shape from;  // strides of x
  int64_t plane() const { return out[0] * out[1] * out[2]; }
  int64_t group_channels() const { return channels / group; }
  int64_t group_outputs() const { return outputs / group; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return taps() * group_channels(); }
  /// Each place's row is its pixel, as the copy has it.
  bool is_pointwise() const {
    return taps() == 1 && group == 1 && std::ranges::equal(padded, out) && stride[0] * stride[1] * stride[2] == 1;
  }
};

/// A bound ConvInteger's; a refusal where the processor's kernels do not take it.
Result<IntegerForm> integer_form(const BoundNode& b);

/// Candidates that make rows of all places' taps and multiply them by MatMulInteger's kernels; groups of few outputs have none.
void offer_integer_rows(const BoundNode& b, const IntegerForm& f, const Machine& machine, Offer& offer);
/// The candidate that goes through all places tap by tap.
void offer_integer_direct(const BoundNode& b, const IntegerForm& f, const Machine& machine, Offer& offer);

}  // namespace smelt::ops::conv
