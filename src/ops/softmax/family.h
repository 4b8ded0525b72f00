// Softmax and losses: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> softmax_ops();  // Softmax, LogSoftmax and the losses on them

extern const TacticFamily softmax_family;  // offer.cpp

}  // namespace smelt::ops
