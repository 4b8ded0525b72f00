// Movement of elements along strides, and padding: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> shape_ops();    // Shape, Reshape, Squeeze, Identity, …: no element changes place
std::span<const OpRow> strided_ops();  // Transpose, Slice, Concat, …
std::span<const OpRow> pad_ops();      // Pad, CenterCropPad

extern const TacticFamily movement_family;  // offer.cpp

}  // namespace smelt::ops
