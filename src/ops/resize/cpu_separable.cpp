// Linear and cubic resizing of tensors of any rank, along any axes, an axis at a time.
#include <fmt/core.h>

#include <algorithm>
#include <type_traits>

#include "base/number.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/resize/cpu_taps.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

/// Calls f with an element of a type that doubles are computed of: integers, and bool.
template <class F> void with_integers(DType t, F&& f) {
  switch (t) {
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u16: return f(uint16_t{});
    case DType::u32: return f(uint32_t{});
    case DType::u64: return f(uint64_t{});
    case DType::boolean: return f(bool{});
    default: return f(uint8_t{});
  }
}

/// As Tensor::cast has it.
template <class T> T from_double(double v) {
  if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else
    return truncated<T>(v);
}

bool is_in_doubles(DType t) { return t == DType::f64 || t == DType::boolean || (is_integer(t) && bits(t) >= 8); }

/// Any axes of plain tensors of any rank: an axis at a time, through two buffers of W. That is float for f32, f16 and bf16; and
/// double for f64, and for integers, whose sums are cut to whole numbers: those of float would lie on the other side of one at times.
template <class W> class SeparableKernel final : public Kernel {
 public:
  struct Pass {
    int64_t outer, in, inner;  // what it reads, around its axis
    AxisTapsIn<W> taps;
  };
  SeparableKernel(std::vector<Pass> passes, DType type, int64_t read, int64_t written, int threads)
      : passes_(std::move(passes)), type_(type), read_(read), written_(written), threads_(threads) {
    most_ = std::max(read, written);
    for (const Pass& p : passes_) most_ = std::max(most_, p.outer * p.taps.places * p.inner);
  }
  int64_t workspace() const override { return 2 * buffer_bytes(); }

  void run(const Buffers& b) override {
    W* buffers[2] = {static_cast<W*>(b.workspace), reinterpret_cast<W*>(static_cast<char*>(b.workspace) + buffer_bytes())};
    const bool as_it_is = type_ == dtype_of<W>::value;
    const auto* from = static_cast<const W*>(b.inputs[0]);
    if (!as_it_is) {
      by_chunks(read_, [&](int64_t at, int64_t n) { widen(b.inputs[0], at, n, buffers[1]); });
      from = buffers[1];
    }
    for (size_t i = 0; i < passes_.size(); ++i) {
      const bool last = i + 1 == passes_.size() && as_it_is;
      W* to = last ? static_cast<W*>(b.outputs[0]) : buffers[i % 2];
      pass(passes_[i], from, to);
      from = to;
    }
    if (!as_it_is) by_chunks(written_, [&](int64_t at, int64_t n) { narrow(from, at, n, b.outputs[0]); });
  }

 private:
  int64_t buffer_bytes() const { return (most_ * static_cast<int64_t>(sizeof(W)) + 63) / 64 * 64; }

  void widen(const void* x, int64_t at, int64_t n, W* to) const {
    if constexpr (std::is_same_v<W, float>)
      row_simd().load(required_float_kind(type_), static_cast<const uint16_t*>(x) + at, nullptr, nullptr, to + at, n);
    else
      with_integers(type_, [&]<class T>(T) { std::copy_n(static_cast<const T*>(x) + at, n, to + at); });
  }
  void narrow(const W* from, int64_t at, int64_t n, void* y) const {
    if constexpr (std::is_same_v<W, float>)
      row_simd().scale(required_float_kind(type_), from + at, nullptr, nullptr, static_cast<uint16_t*>(y) + at, n);
    else
      with_integers(type_, [&]<class T>(T) {
        T* to = static_cast<T*>(y) + at;
        for (int64_t i = 0; i < n; ++i) to[i] = from_double<T>(from[at + i]);
      });
  }

  template <class F> void by_chunks(int64_t count, F&& f) const {
    parallel(useful_threads(threads_, count), count, 64, [&](int64_t begin, int64_t end, int) { f(begin, end - begin); });
  }

  void pass(const Pass& p, const W* from, W* to) const {
    const int threads = useful_threads(threads_, p.outer * p.taps.places * p.inner * p.taps.most);
    if (p.inner == 1) {
      parallel(threads, p.outer, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t o = begin; o < end; ++o) sum_elements(to + o * p.taps.places, from + o * p.in, p.taps);
      });
      return;
    }
    parallel(threads, p.outer * p.taps.places, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        sum_lines(to + i * p.inner, from + i / p.taps.places * p.in * p.inner, p.inner, p.inner, p.taps, i % p.taps.places);
    });
  }

  std::vector<Pass> passes_;
  DType type_;
  int64_t read_, written_, most_ = 0;
  int threads_;
};

template <class W> void offer_in(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const auto axes = known_resize_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal().at("separable"));
  std::vector<typename SeparableKernel<W>::Pass> passes;
  double work = 0;
  Shape s = x.shape;
  for (size_t a = 0; a < s.size(); ++a) {
    const ResizeAxis& axis = (*axes)[a];
    if (axis.in == axis.out && axis.scale == 1) continue;
    if (axis.in > INT32_MAX) return offer.refuse("cpu", Reason::too_large, "an axis of {}; its places have 32 bits", axis.in);
    typename SeparableKernel<W>::Pass p{1, axis.in, 1, axis_taps<W>(*b.node, axis, resize_transformation(*b.node))};
    for (size_t k = 0; k < s.size(); ++k) (k < a ? p.outer : p.inner) *= k == a ? 1 : s[k];
    s[a] = axis.out;
    work += static_cast<double>(elements(s) * p.taps.most) / (p.inner == 1 ? 1.5e3 : 8e3);
    passes.push_back(std::move(p));
  }
  if (passes.empty()) return offer.refuse("cpu", Reason::wrong_axis, "separable: no axis changes");
  offer.candidates.push_back(
      {"cpu", "separable", 2 + work / machine.threads,
       [passes = std::move(passes), type = x.type, read = elements(x.shape), written = elements(y.shape),
        threads = machine.threads] { return std::make_unique<SeparableKernel<W>>(passes, type, read, written, threads); }});
}

}  // namespace

void offer_separable_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (b.node->get_string("mode", "nearest") == "nearest" || resize_transformation(*b.node) == "tf_crop_and_resize")
    return offer.refuse("cpu", Reason::wrong_attribute, "separable: nearest, or a region of interest");
  if (!float_kind(x.type) && !is_in_doubles(x.type))
    return offer.refuse("cpu", Reason::wrong_type, "separable: elements of {}", name(x.type));
  if (x.layout != Layout::plain || y.layout != Layout::plain || !is_dense(x) || !is_dense(y))
    return offer.refuse("cpu", Reason::wrong_layout, "separable: tensors that are not dense and row-major");
  if (elements(x.shape) == 0 || elements(y.shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "separable: an empty tensor");
  if (is_in_doubles(x.type))
    offer_in<double>(b, machine, offer);
  else
    offer_in<float>(b, machine, offer);
}

}  // namespace smelt::ops
