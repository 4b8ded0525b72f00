// Tensors made from shapes and ranges: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> generate_ops();  // Constant, Range, OneHot, …

extern const TacticFamily generate_family;  // offer.cpp

}  // namespace smelt::ops
