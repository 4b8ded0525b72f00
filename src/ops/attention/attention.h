// The attention family's rotary embedding (rotary.cpp), for its table.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

void infer_rotary(InferContext& c);
void run_rotary(ComputeContext& c);

}  // namespace smelt::ops
