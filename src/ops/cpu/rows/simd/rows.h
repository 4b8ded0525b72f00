// Vectorised work on one row of f32, f16 or bf16 elements at a time.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

using simd::FloatKind;

struct RowSimd {
  /// s = x + residual, rounded to the type and written to `sum` (each may be null: no residual, not wanted); row[i] = s.
  void (*load)(FloatKind t, const void* x, const void* residual, void* sum, float* row, int64_t n);
  /// row[i] = (row[i] - mean) / sqrt(variance + epsilon) over its n elements; `centre` false: mean 0 (RMS).
  void (*normalize)(float* row, int64_t n, bool centre, double epsilon);
  /// y[i] = row[i] * gamma[i] + beta[i], rounded; gamma and beta may be null.
  void (*scale)(FloatKind t, const float* row, const float* gamma, const float* beta, void* y, int64_t n);
  /// Rotary embedding of one row of 2 · half elements; tables of f32, 2 · half or half long (`half_tables`).
  void (*rotate)(FloatKind t, const void* x, const float* cos, const float* sin, void* y, int64_t half, bool half_tables,
                 bool interleaved);
  /// The smallest and the largest of n floats in one pass, NaNs left out. Of none, infinity and minus infinity.
  void (*extremes)(const float* row, int64_t n, float* smallest, float* largest);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::RowSimd& row_simd();
}
namespace smelt::avx2 {
const ops::RowSimd& row_simd();
}
