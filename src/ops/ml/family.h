// Classical machine learning (ai.onnx.ml): operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> ml_ops();

extern const TacticFamily ml_family;  // offer.cpp

}  // namespace smelt::ops
