// Linear models and support vectors: what they are by their attributes, rules and references.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/core/operator.h"
#include "ops/ml/classes.h"
#include "ops/ml/ml.h"

namespace smelt::ops {

/// One score for each target: weights [targets, features] · x + offsets [targets].
struct LinearModel {
  int64_t targets = 0, features = 0;
  std::vector<float> weights, offsets;
  /// Of a row.
  template <class T> void scores(const T* x, std::vector<double>& out) const;
};

/// Of LinearRegressor and LinearClassifier for rows of so many features. Throws Error where the coefficients are not as many.
LinearModel linear_model(const Node& node, int64_t features);

/// A kernel of a support vector machine.
struct SvmKernel {
  enum Type : uint8_t { linear, poly, rbf, sigmoid } type = linear;
  float gamma = 0, offset = 0, degree = 0;
  float operator()(const float* a, const float* b, int64_t n) const;
};

/// SVMRegressor and SVMClassifier. Without support vectors, `model` is all.
struct SvmModel {
  SvmKernel kernel;
  int64_t features = 0, supports = 0, classes = 0;
  std::vector<float> vectors;       // [supports, features]
  std::vector<float> coefficients;  // [classes - 1, supports]; of a regressor [supports]
  std::vector<float> rho, prob_a, prob_b;
  std::vector<int64_t> per_class;
  LinearModel model;
  bool one_class = false;
  PostTransform transform = PostTransform::none;

  int64_t pairs() const { return classes * (classes - 1) / 2; }
  int64_t scores() const { return supports == 0 || !prob_a.empty() || classes == 1 ? classes : classes == 2 ? 2 : pairs(); }
  /// The kernel's values of a row and each support vector.
  void values(const float* x, std::vector<float>& out) const;
  /// `values`: of the row; they are not read without support vectors.
  double regress(const float* x, const float* values) const;
  /// Of the row's values, the sums of each class's vectors with each line of coefficients: [classes, classes - 1].
  void sums(const float* values, std::vector<double>& out) const;
  /// The class of a row; `out`: its scores() scores. `sums` are not read without support vectors.
  int64_t classify(const float* x, std::span<const double> sums, std::vector<double>& out) const;
};
SvmModel svm_model(const Node& node, int64_t features);

/// What a LinearClassifier's scores say: the class, or -1 and -2 for the numbers 0 and 1 where there are not two labels; `scores` become
/// what is given out.
struct LinearRule {
  LinearRule(const Node& node, int64_t targets);
  int64_t decide(std::vector<double>& scores) const;
  int64_t targets, labels;
  PostTransform transform;
  int64_t columns() const { return targets == 1 && labels == 2 ? 2 : targets; }
};

void infer_linear_regressor(InferContext& c);
void infer_linear_classifier(InferContext& c);
void infer_svm_regressor(InferContext& c);
void infer_svm_classifier(InferContext& c);
void run_linear_regressor(ComputeContext& c);
void run_linear_classifier(ComputeContext& c);
void run_svm_regressor(ComputeContext& c);
void run_svm_classifier(ComputeContext& c);

/// weights · x. Of floats a block is added up in floats, the blocks in doubles; other elements in doubles, by four sums, so that one addition
/// does not wait for the one before it.
template <class T> double dot(const float* __restrict weights, const T* __restrict x, size_t n) {
  constexpr bool narrow = std::is_same_v<T, float>;
  constexpr size_t lanes = narrow ? 16 : 4, block = 8 * lanes;
  using A = std::conditional_t<narrow, float, double>;
  double total = 0;
  size_t k = 0;
  while (k + lanes <= n) {
    A sums[lanes] = {};
    for (const size_t end = std::min(n, k + block); k + lanes <= end; k += lanes)
      for (size_t u = 0; u < lanes; ++u) sums[u] += static_cast<A>(weights[k + u]) * static_cast<A>(x[k + u]);
    for (size_t half = lanes / 2; half > 0; half /= 2)
      for (size_t u = 0; u < half; ++u) sums[u] += sums[u + half];
    total += static_cast<double>(sums[0]);
  }
  for (; k < n; ++k) total += static_cast<double>(weights[k]) * static_cast<double>(x[k]);
  return total;
}

template <class T> void LinearModel::scores(const T* x, std::vector<double>& out) const {
  out.resize(static_cast<size_t>(targets));
  for (size_t t = 0; t < out.size(); ++t)
    out[t] = (t < offsets.size() ? static_cast<double>(offsets[t]) : 0.0) +
             dot(weights.data() + static_cast<int64_t>(t) * features, x, static_cast<size_t>(features));
}

}  // namespace smelt::ops
