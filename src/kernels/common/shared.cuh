// Addresses in shared memory. Where the vectors of a tile's rows lie in it: kernels/common/swizzle.h.
#pragma once

#include "common/types.cuh"
#include "kernels/common/swizzle.h"

/// The address that ldmatrix, copy_async and their like take, of a generic pointer into shared memory.
__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
