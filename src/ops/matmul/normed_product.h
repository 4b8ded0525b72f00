// A product whose left operand is normalised row by row first: by the root of a row's mean square, or by its mean and deviation. What
// multiplies the normalised rows goes into the right operand, so that a GPU's kernel multiplies the rows as they are, adds up their moments
// meanwhile, and divides the sums.
#pragma once

#include "smelt/tensor.h"

namespace smelt::ops::matmul {

/// Attributes of an ai.smelt.MatMul that is both, and whose constant b is normed_weights': "rms" or "layer", and what is added to the
/// mean square or the variance.
inline constexpr const char* norm_attribute = "norm";
inline constexpr const char* norm_epsilon_attribute = "norm_epsilon";

struct NormedWeights {
  Tensor weights;  // [K, N], of w's type
  Tensor added;    // f32 [N]: what beta adds to the results; not valid() without one
  /// Each column is off by no more than its type's rounding. Not where gamma makes numbers that the type does not hold: too large, or so
  /// small that few of their bits are left.
  bool faithful = true;
};

/// w [K, N] of 16-bit floats, its rows times gamma [K] (where valid()). `centred`: less each column's mean, and rounded so that columns
/// sum to next to nothing. Then a product by rows less their mean is one by the rows themselves.
/// The same bits by any number of threads.
NormedWeights normed_weights(const Tensor& w, const Tensor& gamma, const Tensor& beta, bool centred, int threads = 1);

}  // namespace smelt::ops::matmul
