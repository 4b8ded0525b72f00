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

  /// Rows of at most `most_beside` elements behind each other, of f32, f16 and bf16 (null for f64): what is left of each row's sums in a
  /// register is added up beside the other rows', so that a short row costs its elements and little else.
  /// y = (x - mean) / (sqrt(variance + epsilon) + guard) · gamma + beta, gamma and beta as scale() takes them; about 0 unless `centre`.
  static constexpr int64_t most_beside = 512;
  struct Beside {
    bool centre;
    float epsilon, guard;
    const float *gamma, *beta;
    float *means, *inverses;  // of each row, or null: nothing is kept
  };
  void (*beside)(const void* x, int64_t rows, int64_t n, const Beside& p, void* y);
};

/// Rows of n elements of f32, at most `most`, behind each other: y = (x - mean) / sqrt(variance + epsilon) · factor + offset, where row
/// r has the parameters of channel (first + r) % channels. Sums run beside each other, a row to a lane.
struct ShortRows {
  static constexpr int64_t most = 80;
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
