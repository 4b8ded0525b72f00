// Tensors made from shapes and ranges: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> generate_ops();  // Constant, Range, OneHot, …

extern const TacticFamily generate_family;  // offer.cpp

}  // namespace smelt::ops
