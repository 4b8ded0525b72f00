// Scores of linear models, a register of rows at a time.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// y[r · targets + t] = offsets[t] + Σ weights[t · features + k] · x[r · features + k]. Sums of up to 1024 products are kept in floats,
/// those in doubles.
using LinearScores = void (*)(const float* x, int64_t rows, int64_t features, const float* weights, const float* offsets,
                              int64_t targets, float* y);

/// x[i] = 1 / (1 + exp(-x[i]))
using Logistic = void (*)(float* x, int64_t n);

}  // namespace smelt::ops

namespace smelt::base {
ops::LinearScores linear_scores();
ops::Logistic logistic();
}
namespace smelt::avx2 {
ops::LinearScores linear_scores();
ops::Logistic logistic();
}
