// The order of a product's tiles, as the host counts them.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Rows of tiles that are taken column by column (gemm/raster.cuh).
inline constexpr u32 raster_rows = 8;

}  // namespace smelt::kernels
