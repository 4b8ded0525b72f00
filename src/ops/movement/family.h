// Movement of elements along strides, and padding: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> shape_ops();    // Shape, Reshape, Squeeze, Identity, …: no element changes place
std::span<const OpDef> strided_ops();  // Transpose, Slice, Concat, …
std::span<const OpDef> pad_ops();      // Pad, CenterCropPad

extern const TacticFamily movement_family;  // offer.cpp

}  // namespace smelt::ops
