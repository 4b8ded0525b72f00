// Control flow: operators.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/operator.h"

namespace smelt::ops {

std::span<const OpRow> control_ops();  // If, Loop, Scan

}  // namespace smelt::ops
