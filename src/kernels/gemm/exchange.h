// Where sums lie in shared memory on their way from a warp's fragments to lanes that have neighbouring columns of a row
// (gemm/wide_finish.cuh). For g++ and for NVRTC: tests count the banks that these meet (tests/ops/cuda/banks_test.cpp).
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Sums from one row of `columns` to the next.
SMELT_SHARED constexpr u32 exchange_row(u32 columns) { return columns + 8; }
/// Of column `column` of a row: of 64, eight lanes that read the first or the second 16 bytes of every 32 meet no bank twice.
SMELT_SHARED constexpr u32 exchanged(u32 column) { return column ^ (column >> 5 & 1) << 2; }

}  // namespace smelt::kernels
