// MaxPool of plain images with its indices. A row of places keeps the largest so far and which tap it was, tap by tap.
#include <algorithm>
#include <limits>

#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/direct.h"

namespace smelt::ops::pool {
namespace {

class IndexedMax final : public Kernel {
 public:
  IndexedMax(const Form& f, int threads) : f_(f), kind_(float_kind(f.type)), element_(bits(f.type) / 8) {
    for (int64_t w = 0; w < f.out[2]; ++w) columns_.push_back(inside(f, 2, w));
    threads_ = useful_threads(threads, rows() * f_.out[2] * f_.kernel[0] * f_.kernel[1] * f_.kernel[2]);
  }
  int64_t workspace() const override { return threads_ * row_bytes(); }

  void run(const Buffers& b) override {
    parallel(threads_, rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      void* scratch = static_cast<char*>(b.workspace) + thread * row_bytes();
      switch (f_.type) {
        case DType::f64: return part<double, double>(b, begin, end, scratch);
        case DType::i8: return part<int8_t, int8_t>(b, begin, end, scratch);
        case DType::u8: return part<uint8_t, uint8_t>(b, begin, end, scratch);
        case DType::f16: return part<float, Half>(b, begin, end, scratch);
        case DType::bf16: return part<float, BFloat>(b, begin, end, scratch);
        default: return part<float, float>(b, begin, end, scratch);
      }
    });
  }

 private:
  int64_t rows() const { return f_.batch * f_.channels * f_.out[0] * f_.out[1]; }
  int64_t row_bytes() const { return aligned(f_.out[2] * 8); }

  template <class T, class S> void part(const Buffers& b, int64_t begin, int64_t end, void* scratch) const {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t h = r % f_.out[1], d = r / f_.out[1] % f_.out[0], plane = r / (f_.out[1] * f_.out[0]);
      const int64_t n = plane / f_.channels, c = plane % f_.channels;
      const S* x = static_cast<const S*>(b.inputs[0]) + n * f_.from[0] + c * f_.from[1];
      char* y = static_cast<char*>(b.outputs[0]) + (n * f_.to[0] + c * f_.to[1] + d * f_.to[2] + h * f_.to[3]) * element_;
      constexpr bool narrow = !std::is_same_v<T, S>;
      T* to = narrow ? static_cast<T*>(scratch) : reinterpret_cast<T*>(y);
      find(x, d, h, to, static_cast<int64_t*>(b.outputs[1]) + r * f_.out[2], plane);
      if constexpr (narrow) row_simd().scale(*kind_, to, nullptr, nullptr, y, f_.out[2]);
    }
  }

  /// The first of the largest and where it lies in the whole tensor, tap by tap. S: how elements are stored.
  template <class T, class S> void find(const S* x, int64_t d, int64_t h, T* to, int64_t* index, int64_t plane) const {
    const Taps depth = inside(f_, 0, d), height = inside(f_, 1, h);
    const int64_t z0 = d * f_.stride[0] - f_.begin[0], v0 = h * f_.stride[1] - f_.begin[1];
    for (int64_t w = 0; w < f_.out[2]; ++w) {
      const Taps width = columns_[static_cast<size_t>(w)];
      const int64_t u0 = w * f_.stride[2] - f_.begin[2];
      T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
      int64_t at = -1;
      for (int64_t i = depth.first; i < depth.last; ++i) {
        const int64_t z = z0 + i * f_.dilation[0];
        for (int64_t j = height.first; j < height.last; ++j) {
          const int64_t v = v0 + j * f_.dilation[1], row = (z * f_.in[1] + v) * f_.in[2];
          const S* from = x + z * f_.from[2] + v * f_.from[3];
          for (int64_t k = width.first; k < width.last; ++k) {
            const int64_t u = u0 + k * f_.dilation[2];
            const T e = static_cast<T>(from[u]);
            const bool takes = (at < 0) | (e > best) | (e != e);  // no branches: which tap is the largest is anyone's guess
            best = takes ? e : best;
            at = takes ? row + u : at;
          }
        }
      }
      to[w] = best;
      index[w] = at < 0 ? 0 : plane * f_.in[0] * f_.in[1] * f_.in[2] + stored(at);
    }
  }

  /// Row-major, or with storage_order 1 column-major.
  int64_t stored(int64_t at) const {
    if (!f_.column_major) return at;
    const int64_t u = at % f_.in[2], v = at / f_.in[2] % f_.in[1], z = at / f_.in[2] / f_.in[1];
    return (u * f_.in[1] + v) * f_.in[0] + z;
  }

  Form f_;
  std::optional<FloatKind> kind_;  // none: doubles or bytes
  int64_t element_;
  std::vector<Taps> columns_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> indexed_max(const Form& f, int threads) { return std::make_unique<IndexedMax>(f, threads); }

}  // namespace smelt::ops::pool
