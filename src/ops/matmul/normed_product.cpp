#include "ops/matmul/normed_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::matmul {
namespace {

/// Columns of w [K, N], in f32: computed by one thread.
struct Columns {
  static constexpr int64_t most = 64;
  int64_t rows, first, width, pitch;  // pitch: of w's rows
  std::vector<float> exact, rounded;  // [rows, width]
  using Sums = std::array<double, most>;

  Columns(const Tensor& w, int64_t begin, int64_t end)
      : rows(w.shape()[0]), first(begin), width(end - begin), pitch(w.shape()[1]), exact(static_cast<size_t>(rows * width)) {
    read(w, exact.data());
  }
  void read(const Tensor& w, float* to) const {
    for (int64_t i = 0; i < rows; ++i)
      copy_as_f32(to + i * width, 1, static_cast<const uint16_t*>(w.raw()) + i * pitch + first, 1, width, w.type());
  }
  /// f(row, column, number) of each, column by column's numbers in the rows' order.
  template <class F> void each(std::vector<float>& of, F&& f) {
    for (int64_t i = 0; i < rows; ++i) {
      float* row = of.data() + i * width;
      for (int64_t j = 0; j < width; ++j) f(i, j, row[j]);
    }
  }
};

void scale_rows(Columns& c, const float* gamma) {
  c.each(c.exact, [&](int64_t i, int64_t, float& w) { w *= gamma[i]; });
}

/// Less each column's mean.
void centre(Columns& c) {
  Columns::Sums means{};
  c.each(c.exact, [&](int64_t, int64_t j, float w) { means[static_cast<size_t>(j)] += static_cast<double>(w); });
  for (double& m : means) m /= static_cast<double>(c.rows);
  c.each(c.exact,
         [&](int64_t, int64_t j, float& w) { w = static_cast<float>(static_cast<double>(w) - means[static_cast<size_t>(j)]); });
}

/// The next number of 16 bits away from zero, or towards it.
uint16_t neighbour(uint16_t bits, bool away) { return static_cast<uint16_t>(away ? bits + 1 : bits - 1); }

double number(DType type, uint16_t bits) {
  return static_cast<double>(type == DType::f16 ? half_to_float(bits) : bfloat_to_float(bits));
}

/// Columns of `to` sum to what their numbers' roundings left over. Those that lay nearly between two numbers are taken to the
/// other one, each by at most three quarters of the step between them, until next to nothing is left.
void balance(Columns& c, Tensor& to) {
  Columns::Sums left{};
  c.each(c.rounded, [&](int64_t, int64_t j, float v) { left[static_cast<size_t>(j)] += static_cast<double>(v); });
  auto* bits = static_cast<uint16_t*>(to.raw());
  c.each(c.rounded, [&](int64_t i, int64_t j, float& rounded) {
    const auto v = static_cast<double>(rounded), e = static_cast<double>(c.exact[static_cast<size_t>(i * c.width + j)]);
    double& sum = left[static_cast<size_t>(j)];
    // Rounded up where columns sum to too much, or down where to too little, and not zero, whose neighbours have another sign's bits.
    if (v == 0 || !std::isfinite(v) || (sum > 0) != (v > e) || v == e) return;
    uint16_t& at = bits[i * c.pitch + c.first + j];
    const uint16_t next = neighbour(at, (v > 0) != (sum > 0));
    const double other = number(to.type(), next), step = std::abs(other - v);
    if (!std::isfinite(other) || std::abs(other - e) > 0.75 * step || step > 2 * std::abs(sum)) return;
    at = next;
    rounded = static_cast<float>(other);
    sum += other - v;
  });
}

/// Whether no column is off by more than a unit in the last place, in the root of its squares.
bool is_faithful(Columns& c, DType type) {
  Columns::Sums error{}, square{};
  c.each(c.rounded, [&](int64_t i, int64_t j, float v) {
    const auto e = static_cast<double>(c.exact[static_cast<size_t>(i * c.width + j)]), d = static_cast<double>(v) - e;
    error[static_cast<size_t>(j)] += d * d, square[static_cast<size_t>(j)] += e * e;
  });
  const double last = type == DType::f16 ? 1.0 / 1024 : 1.0 / 128;
  for (size_t j = 0; j < static_cast<size_t>(c.width); ++j)
    if (!(error[j] <= last * last * square[j])) return false;  // no number, too
  return true;
}

}  // namespace

NormedWeights normed_weights(const Tensor& w, const Tensor& gamma, const Tensor& beta, bool centred, int threads) {
  if ((w.type() != DType::f16 && w.type() != DType::bf16) || w.rank() != 2)
    fail("weights of {} are no product's of normalised rows", to_string(w.shape()));
  const int64_t k = w.shape()[0], n = w.shape()[1];
  for (const Tensor* t : {&gamma, &beta})
    if (t->valid() && t->shape() != Shape{k}) fail("{} numbers of a row of {}", to_string(t->shape()), k);
  const Tensor g = gamma.valid() ? gamma.cast(DType::f32) : Tensor{}, b = beta.valid() ? beta.cast(DType::f32) : Tensor{};
  NormedWeights made;
  made.weights = Tensor::empty(w.type(), {k, n});
  if (beta.valid()) made.added = Tensor::empty(DType::f32, {n});
  std::atomic<bool> faithful = true;
  // A column is one thread's, which goes through it in the rows' order: the result does not depend on the threads.
  parallel(useful_threads(threads, 8 * k * n), n, Columns::most, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += Columns::most) {
      Columns c(w, at, std::min(end, at + Columns::most));
      if (b.valid()) {
        Columns::Sums sums{};
        c.each(c.exact, [&](int64_t i, int64_t j, float v) {
          sums[static_cast<size_t>(j)] += static_cast<double>(b.data<float>()[i]) * static_cast<double>(v);
        });
        for (int64_t j = 0; j < c.width; ++j) made.added.data<float>()[at + j] = static_cast<float>(sums[static_cast<size_t>(j)]);
      }
      if (g.valid()) scale_rows(c, g.data<float>());
      if (centred) centre(c);
      auto* bits = static_cast<uint16_t*>(made.weights.raw());
      c.each(c.exact, [&](int64_t i, int64_t j, float v) {
        bits[i * n + at + j] = w.type() == DType::f16 ? Half(v).bits : BFloat(v).bits;
      });
      c.rounded.resize(c.exact.size());
      c.read(made.weights, c.rounded.data());
      if (centred) balance(c, made.weights);
      if (!is_faithful(c, w.type())) faithful = false;
    }
  });
  made.faithful = faithful;
  return made;
}

}  // namespace smelt::ops::matmul
