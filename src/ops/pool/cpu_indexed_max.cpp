// MaxPool of plain images with its indices. A row of places keeps the largest so far and which tap it was, tap by tap: each tap goes
// over all places of the row before the next one does.
#include <algorithm>
#include <limits>

#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/direct.h"

namespace smelt::ops::pool {
namespace {

/// How rows hold 16-bit floats that are stored as S.
template <class S> constexpr FloatKind kind_of = std::is_same_v<S, Half> ? FloatKind::f16 : FloatKind::bf16;

class IndexedMax final : public Kernel {
 public:
  IndexedMax(const Form& f, int threads) : f_(f), element_(bits(f.type) / 8) {
    for (int64_t k = 0; k < f.kernel[2]; ++k) taps_.push_back(tap(k));
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
  int64_t result_bytes() const { return aligned(f_.out[2] * 8); }
  int64_t row_bytes() const { return result_bytes() + (float_kind(f_.type) ? aligned(f_.in[2] * 4) : 0); }

  /// A tap of a row: where it lies off the place's first element, and the places [first, last) where it is inside.
  struct Tap {
    int64_t off, first, last;
  };
  Tap tap(int64_t k) const {
    const int64_t off = k * f_.dilation[2] - f_.begin[2], stride = f_.stride[2];
    const int64_t first = off >= 0 ? 0 : (-off + stride - 1) / stride;
    const int64_t last = off >= f_.in[2] ? 0 : (f_.in[2] - off + stride - 1) / stride;
    return {off, std::min(first, f_.out[2]), std::min(last, f_.out[2])};
  }

  template <class T, class S> void part(const Buffers& b, int64_t begin, int64_t end, void* scratch) const {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t h = r % f_.out[1], d = r / f_.out[1] % f_.out[0], plane = r / (f_.out[1] * f_.out[0]);
      const int64_t n = plane / f_.channels, c = plane % f_.channels;
      const S* x = static_cast<const S*>(b.inputs[0]) + n * f_.from[0] + c * f_.from[1];
      char* y = static_cast<char*>(b.outputs[0]) + (n * f_.to[0] + c * f_.to[1] + d * f_.to[2] + h * f_.to[3]) * element_;
      constexpr bool narrow = !std::is_same_v<T, S>;
      T* to = narrow ? static_cast<T*>(scratch) : reinterpret_cast<T*>(y);
      T* line = reinterpret_cast<T*>(static_cast<char*>(scratch) + result_bytes());
      find(x, d, h, to, static_cast<int64_t*>(b.outputs[1]) + r * f_.out[2], plane, line);
      if constexpr (narrow) row_simd().scale(kind_of<S>, to, nullptr, nullptr, y, f_.out[2]);
    }
  }

  /// The first of the largest and where it lies in the whole tensor, tap by tap. S: how elements are stored; `line`: room for a row of
  /// them as T.
  template <class T, class S> void find(const S* x, int64_t d, int64_t h, T* to, int64_t* index, int64_t plane, T* line) const {
    const Taps depth = inside(f_, 0, d), height = inside(f_, 1, h);
    const int64_t z0 = d * f_.stride[0] - f_.begin[0], v0 = h * f_.stride[1] - f_.begin[1], places = f_.out[2];
    const T least = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    std::fill_n(to, places, least);
    std::fill_n(index, places, int64_t{-1});
    for (int64_t i = depth.first; i < depth.last; ++i) {
      const int64_t z = z0 + i * f_.dilation[0];
      for (int64_t j = height.first; j < height.last; ++j) {
        const int64_t v = v0 + j * f_.dilation[1], row = (z * f_.in[1] + v) * f_.in[2];
        const S* from = x + z * f_.from[2] + v * f_.from[3];
        const T* elements;
        if constexpr (std::is_same_v<T, S>)
          elements = from;
        else
          row_simd().load(kind_of<S>, from, nullptr, nullptr, line, f_.in[2]), elements = line;
        for (const Tap& t : taps_) take(t, elements, row, to, index);
      }
    }
    const int64_t first = plane * f_.in[0] * f_.in[1] * f_.in[2];
    for (int64_t w = 0; w < places; ++w) index[w] = index[w] < 0 ? 0 : first + stored(index[w]);
  }

  template <class T> void take(const Tap& t, const T* elements, int64_t row, T* to, int64_t* index) const {
    const int64_t stride = f_.stride[2];
    const T* from = elements + t.off;
    for (int64_t w = t.first; w < t.last; ++w) {
      const T e = from[w * stride], best = to[w];
      const int64_t at = index[w];
      const bool takes = (at < 0) | (e > best) | (e != e);  // no branches: which tap is the largest is anyone's guess
      to[w] = takes ? e : best;
      index[w] = takes ? row + t.off + w * stride : at;
    }
  }

  /// Row-major, or with storage_order 1 column-major.
  int64_t stored(int64_t at) const {
    if (!f_.column_major) return at;
    const int64_t u = at % f_.in[2], v = at / f_.in[2] % f_.in[1], z = at / f_.in[2] / f_.in[1];
    return (u * f_.in[1] + v) * f_.in[0] + z;
  }

  Form f_;
  int64_t element_;
  std::vector<Tap> taps_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> indexed_max(const Form& f, int threads) { return std::make_unique<IndexedMax>(f, threads); }

}  // namespace smelt::ops::pool
