// The detection family's rules and references, for its table.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

void infer_roi_align(InferContext& c);
void run_roi_align(ComputeContext& c);
void infer_max_roi_pool(InferContext& c);
void run_max_roi_pool(ComputeContext& c);

}  // namespace smelt::ops
