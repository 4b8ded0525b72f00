// The passes of a fast Fourier transform and their twiddle factors, for the kernels of simd/fourier.h.
#pragma once

#include <memory>
#include <vector>

#include "ops/signal/simd/fourier.h"

namespace smelt::ops {

const FourierSimd& fourier_simd();

/// The radices of the passes of n values; empty for 1, and where a factor is too large for a pass.
std::vector<int64_t> radices_of(int64_t n);

/// Factors are computed in double. Stays where it is: the table points into it.
template <class T> class FftPlan {
 public:
  explicit FftPlan(int64_t n);
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  const Fft<T>& table() const { return table_; }
  /// Complex values that each of its two buffers holds.
  int64_t values() const { return convolution_ ? convolution_->values() : table_.n; }
  /// Multiplications or additions of complex values, about.
  int64_t work() const;

 private:
  void add_pass(int64_t radix, int64_t run);
  void make_convolution();

  Fft<T> table_;
  std::vector<FftPass<T>> passes_;
  std::vector<std::vector<T>> factors_;
  std::unique_ptr<FftPlan> convolution_;
};

/// e^(-2 pi i k / n) for k < count: real and imaginary part in turn.
template <class T> std::vector<T> roots_of_unity(int64_t n, int64_t count);

}  // namespace smelt::ops
