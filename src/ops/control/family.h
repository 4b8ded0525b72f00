// Control flow: operators.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

std::span<const OpDef> control_ops();  // If, Loop, Scan

}  // namespace smelt::ops
