// The types of real numbers that operators compute with; the narrower floats have none of their own.
#pragma once

#include "smelt/dtype.h"

namespace smelt::ops {

/// f16, bf16, f32 or f64.
inline bool is_real(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; }

}  // namespace smelt::ops
