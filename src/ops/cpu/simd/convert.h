// Runs of f16 or bf16 as f32.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::base {
void run_as_f32(float* to, const uint16_t* from, int64_t n, simd::FloatKind kind);
}
namespace smelt::avx2 {
void run_as_f32(float* to, const uint16_t* from, int64_t n, simd::FloatKind kind);
}
