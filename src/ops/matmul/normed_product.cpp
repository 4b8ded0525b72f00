#include "ops/matmul/normed_product.h"

#include <cmath>
#include <vector>

#include "base/error.h"

namespace smelt::ops::matmul {
namespace {

/// [K, N] in f32, in place, less each column's mean.
void centre_columns(float* w, int64_t k, int64_t n) {
  std::vector<double> means(static_cast<size_t>(n), 0.0);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) means[static_cast<size_t>(j)] += static_cast<double>(w[i * n + j]);
  for (double& m : means) m /= static_cast<double>(k);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j)
      w[i * n + j] = static_cast<float>(static_cast<double>(w[i * n + j]) - means[static_cast<size_t>(j)]);
}

/// The next number of 16 bits away from zero, or towards it.
uint16_t neighbour(uint16_t bits, bool away) { return static_cast<uint16_t>(away ? bits + 1 : bits - 1); }

/// Columns of `rounded` sum to what their numbers' roundings left over. Those that lay nearly between two numbers are taken to the
/// other one, each by at most three quarters of the step between them, until next to nothing is left.
void balance_columns(Tensor& rounded, const float* exact, int64_t k, int64_t n) {
  const Tensor values = rounded.cast(DType::f32);
  const float* value = values.data<float>();
  std::vector<double> left(static_cast<size_t>(n), 0.0);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) left[static_cast<size_t>(j)] += static_cast<double>(value[i * n + j]);
  auto* bits = static_cast<uint16_t*>(rounded.raw());
  const auto number = [type = rounded.type()](uint16_t b) {
    return static_cast<double>(type == DType::f16 ? half_to_float(b) : bfloat_to_float(b));
  };
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = i * n + j;
      const auto v = static_cast<double>(value[at]), e = static_cast<double>(exact[at]);
      double& sum = left[static_cast<size_t>(j)];
      // Rounded up where columns sum to too much, or down where to too little, and not zero, whose neighbours have another sign's bits.
      if (v == 0 || !std::isfinite(v) || (sum > 0) != (v > e) || v == e) continue;
      const double other = number(neighbour(bits[at], (v > 0) != (sum > 0))), step = std::abs(other - v);
      if (!std::isfinite(other) || std::abs(other - e) > 0.75 * step || step > 2 * std::abs(sum)) continue;
      bits[at] = neighbour(bits[at], (v > 0) != (sum > 0));
      sum += other - v;
    }
}

/// Whether no column is off by more than a unit in the last place, in the root of its squares.
bool is_faithful(const Tensor& rounded, const float* exact, int64_t k, int64_t n) {
  const Tensor values = rounded.cast(DType::f32);
  const float* value = values.data<float>();
  std::vector<double> error(static_cast<size_t>(n), 0.0), square(static_cast<size_t>(n), 0.0);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto e = static_cast<double>(exact[i * n + j]), d = static_cast<double>(value[i * n + j]) - e;
      error[static_cast<size_t>(j)] += d * d, square[static_cast<size_t>(j)] += e * e;
    }
  const double last = rounded.type() == DType::f16 ? 1.0 / 1024 : 1.0 / 128;
  for (size_t j = 0; j < error.size(); ++j)
    if (!(error[j] <= last * last * square[j])) return false;  // no number, too
  return true;
}

}  // namespace

NormedWeights normed_weights(const Tensor& w, const Tensor& gamma, const Tensor& beta, bool centre) {
  if ((w.type() != DType::f16 && w.type() != DType::bf16) || w.rank() != 2)
    fail("weights of {} are no product's of normalised rows", to_string(w.shape()));
  const int64_t k = w.shape()[0], n = w.shape()[1];
  for (const Tensor* t : {&gamma, &beta})
    if (t->valid() && t->shape() != Shape{k}) fail("{} numbers of a row of {}", to_string(t->shape()), k);
  Tensor exact = w.cast(DType::f32);
  auto* e = static_cast<float*>(exact.raw());
  NormedWeights made;
  if (beta.valid()) {
    const Tensor b = beta.cast(DType::f32);
    std::vector<double> sums(static_cast<size_t>(n), 0.0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j)
        sums[static_cast<size_t>(j)] += static_cast<double>(b.data<float>()[i]) * static_cast<double>(e[i * n + j]);
    made.added = Tensor::empty(DType::f32, {n});
    for (int64_t j = 0; j < n; ++j) made.added.data<float>()[j] = static_cast<float>(sums[static_cast<size_t>(j)]);
  }
  if (gamma.valid()) {
    const Tensor g = gamma.cast(DType::f32);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) e[i * n + j] *= g.data<float>()[i];
  }
  if (centre) centre_columns(e, k, n);
  made.weights = exact.cast(w.type());
  if (centre) balance_columns(made.weights, e, k, n);
  made.faithful = is_faithful(made.weights, e, k, n);
  return made;
}

}  // namespace smelt::ops::matmul
