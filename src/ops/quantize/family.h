// Quantisation: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> quant_ops();  // QuantizeLinear, DequantizeLinear, QLinear forms of other operators than products

extern const TacticFamily quantize_family;  // offer.cpp

}  // namespace smelt::ops
