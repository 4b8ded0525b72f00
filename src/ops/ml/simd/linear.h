// Scores of linear models, a register of rows or of targets at a time.
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int64_t linear_columns = 16;

/// What becomes of a product p, or a squared distance p, of two vectors.
struct SvmForm {
  enum Kind : uint8_t {
    product,
    power,
    exponential,
    tangent
  } kind = product;  // p, (gamma p + offset)^degree, e^(gamma p), tanh(…)
  bool of_distances = false;
  float gamma = 0, offset = 0, degree = 0;
};

struct LinearSimd {
  /// y[r · targets + t] = offsets[t] + Σ weights[t · features + k] · x[r · features + k]. Sums of up to 1024 products are kept in floats,
  /// those in doubles.
  void (*scores)(const float* x, int64_t rows, int64_t features, const float* weights, const float* offsets, int64_t targets,
                 float* y);
  /// The same by weights [features, columns], `columns` of them the targets rounded up to linear_columns, filled up with zeros as
  /// `offsets` are; sums are kept in floats.
  void (*scores_across)(const float* x, int64_t rows, int64_t features, const float* turned, const float* offsets,
                        int64_t targets, float* y);
  /// y[r · columns + s] of row r and vector s, by vectors [features, columns], columns a multiple of linear_columns.
  void (*support_values)(const SvmForm& form, const float* x, int64_t rows, int64_t features, const float* turned,
                         int64_t columns, float* y);
  /// x[i] = 1 / (1 + exp(-x[i]))
  void (*logistic)(float* x, int64_t n);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::LinearSimd& linear_simd();
}
namespace smelt::avx2 {
const ops::LinearSimd& linear_simd();
}
namespace smelt::avx512 {
const ops::LinearSimd& linear_simd();
}
