// Inverse on the processor: Gauss-Jordan elimination in place, in f64, matrices by threads.
#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/einsum/inverse.h"
#include "ops/einsum/matrices.h"
#include "ops/einsum/simd/inverse.h"

namespace smelt::ops {
namespace {

const InvertFn& invert_fn() {
  static const InvertFn fn = simd::best() == simd::Isa::avx2 ? avx2::invert_fn() : base::invert_fn();
  return fn;
}

class InverseKernel final : public Kernel {
 public:
  InverseKernel(const BoundNode& b, int threads)
      : type_(b.inputs[0].type), n_(b.inputs[0].shape.back()), count_(elements(b.inputs[0].shape) / (n_ * n_)) {
    const double work = static_cast<double>(count_) * static_cast<double>(n_) * static_cast<double>(n_) * static_cast<double>(n_);
    threads_ = useful_threads(threads, static_cast<int64_t>(std::min(work, 1e15)));
  }
  int64_t workspace() const override { return threads_ * (matrix_bytes() + aligned(n_ * 8)); }
  bool in_place(size_t) const override { return true; }

  void run(const Buffers& b) override {
    by_matrix_type(type_, [&]<class T>(T*) { all<T>(b); });
  }

 private:
  int64_t matrix_bytes() const { return aligned(n_ * n_ * 8); }

  template <class T> void all(const Buffers& b) const {
    std::atomic<int64_t> singular = -1;
    parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * (matrix_bytes() + aligned(n_ * 8));
      auto* m = reinterpret_cast<double*>(own);
      for (int64_t i = begin; i < end; ++i) {
        const T* x = static_cast<const T*>(b.inputs[0]) + i * n_ * n_;
        T* y = static_cast<T*>(b.outputs[0]) + i * n_ * n_;
        widen(x, n_ * n_, m);
        if (!invert_fn()(m, reinterpret_cast<int64_t*>(own + matrix_bytes()), n_)) {
          singular = i;
          return;
        }
        std::transform(m, m + n_ * n_, y, narrowed<T>);
      }
    });
    if (singular >= 0) fail("matrix {} has no inverse", singular.load());
  }

  DType type_;
  int64_t n_, count_;
  int threads_ = 1;
};

}  // namespace

void offer_inverse_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.inputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const auto n = static_cast<double>(b.inputs[0].shape.back()),
             count = static_cast<double>(elements(b.inputs[0].shape)) / (n * n);
  offer.candidates.push_back({"cpu", "", 1 + count * (n * n * n / 2e3 + 0.1) / machine.threads,
                              [b, threads = machine.threads] { return std::make_unique<InverseKernel>(b, threads); }});
}

}  // namespace smelt::ops
