// Det on the processor: Gaussian elimination in f64, matrices by threads.
#include <algorithm>
#include <cmath>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/einsum/matrices.h"
#include "ops/einsum/offer.h"

namespace smelt::ops {
namespace {

/// With the largest pivot of each column; `m` [n, n] is destroyed.
double determinant(double* m, int64_t n) {
  double result = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(m[row * n + column]) > std::abs(m[pivot * n + column])) pivot = row;
    if (m[pivot * n + column] == 0) return 0;
    if (pivot != column) {
      std::swap_ranges(m + pivot * n + column, m + (pivot + 1) * n, m + column * n + column);
      result = -result;
    }
    const double* __restrict own = m + column * n;
    result *= own[column];
    const double inverse = 1 / own[column];
    for (int64_t row = column + 1; row < n; ++row) {
      double* __restrict to = m + row * n;
      const double factor = to[column] * inverse;
      for (int64_t k = column + 1; k < n; ++k) to[k] -= factor * own[k];
    }
  }
  return result;
}

class DetKernel final : public Kernel {
 public:
  DetKernel(const BoundNode& b, int threads)
      : type_(b.inputs[0].type), n_(b.inputs[0].shape.back()), count_(elements(b.outputs[0].shape)) {
    const double work =
        static_cast<double>(count_) * static_cast<double>(n_) * static_cast<double>(n_) * static_cast<double>(n_) / 3;
    threads_ = useful_threads(threads, static_cast<int64_t>(std::min(work, 1e15)));
  }

  int64_t workspace() const override { return threads_ * matrix_bytes(); }

  void run(const Buffers& b) override {
    by_matrix_type(type_, [&]<class T>(T*) { all<T>(b); });
  }

 private:
  int64_t matrix_bytes() const { return aligned(n_ * n_ * 8); }

  template <class T> void all(const Buffers& b) const {
    parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* m = reinterpret_cast<double*>(static_cast<char*>(b.workspace) + thread * matrix_bytes());
      for (int64_t i = begin; i < end; ++i) {
        const T* x = static_cast<const T*>(b.inputs[0]) + i * n_ * n_;
        widen(x, n_ * n_, m);
        static_cast<T*>(b.outputs[0])[i] = narrowed<T>(determinant(m, n_));
      }
    });
  }

  DType type_;
  int64_t n_, count_;
  int threads_ = 1;
};

}  // namespace

void offer_det_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const auto n = static_cast<double>(b.inputs[0].shape.back());
  const double estimate = 1 + static_cast<double>(elements(b.outputs[0].shape)) * (n * n * n / 3e3 + 0.1) / machine.threads;
  offer.candidates.push_back(
      {"cpu", "", estimate, [b, threads = machine.threads] { return std::make_unique<DetKernel>(b, threads); }});
}

}  // namespace smelt::ops
