// Vectorised normalisation of rows, without a copy of the row.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

/// Work on n elements of one type. f32, f16 and bf16 are computed in f32, sums of them added up in double; f64 in double.
struct NormRow {
  /// The mean (0 unless `centre`), and the mean of the squares of what is beside it.
  void (*moments)(const void* x, int64_t n, bool centre, double* mean, double* variance);
  /// y[i] = (x[i] - mean) · factor + offset, rounded.
  void (*shift)(const void* x, int64_t n, double mean, double factor, double offset, void* y);
  /// y[i] = (x[i] - mean) · factor · gamma[i] + beta[i], rounded; gamma and beta are rows of f32 (of f64 for f64), or null.
  void (*scale)(const void* x, int64_t n, double mean, double factor, const void* gamma, const void* beta, void* y);
};

/// Rows of n elements of f32, at most `most`, behind each other: y = (x - mean) / sqrt(variance + epsilon) · factor + offset, where row
/// r has the parameters of channel (first + r) % channels. Sums run beside each other, a row to a lane.
struct ShortRows {
  static constexpr int64_t most = 32;
  struct Parameters {
    const float *factor, *offset;
    int64_t channels;
    float epsilon;
  };
  void (*run)(const float* x, int64_t rows, int64_t n, const Parameters& p, int64_t first, float* y);
};

struct NormRows {
  NormRow f32, f16, bf16, f64;
  ShortRows short_f32;
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::NormRows& norm_rows();
}
namespace smelt::avx2 {
const ops::NormRows& norm_rows();
}
namespace smelt::avx512 {
const ops::NormRows& norm_rows();
}
