// Bulk conversions of f16, bf16 and f32 memory, for kernels that compute in f32.
#pragma once

#include "ops/tactic.h"

namespace smelt::ops {

/// `count` elements of `type`, `from_stride` elements apart, to floats `to_stride` apart. One thread.
void copy_as_f32(float* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count, DType type);

/// All of a tensor to dense f32 in its layout's order.
void convert_to_f32(float* to, const BoundTensor& from, const void* data, int threads);

}  // namespace smelt::ops
