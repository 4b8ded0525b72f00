// Sums of a product in a thread's memory, to its dense result.
#pragma once

#include "ops/cpu/epilogue.h"

namespace smelt::ops::matmul {

/// Applies the epilogue: in one sweep where tiles could, else by the runner. The result's rows are n apart.
void finish_sums(const CpuEpilogue& epilogue, const CpuEpilogue::Runner& runner, const Buffers& b, const igemm::Sums& s,
                 int64_t n);

}  // namespace smelt::ops::matmul
