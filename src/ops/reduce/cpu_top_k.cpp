// TopK on the processor, line by line; lines whose elements lie apart are first copied side by side, some at a time. The few best of
// a long line are kept in order, or in a heap, and a vector comparison with the worst of them passes over the rest. The very few best of
// columns, and of short rows, which become columns, are kept in registers: one of as many columns.
#include <algorithm>

#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/simd/transposes.h"
#include "ops/reduce/cpu_lines.h"
#include "ops/reduce/lines.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {
namespace {

/// Calls f with a T{} as which an element is copied, and a C{} as which it is compared.
template <class F> void with_types(DType t, F&& f) {
  switch (t) {
    case DType::f32: return f(float{}, float{});
    case DType::f64: return f(double{}, double{});
    case DType::f16: return f(Half{}, float{});
    case DType::bf16: return f(BFloat{}, float{});
    case DType::i8: return f(int8_t{}, int8_t{});
    case DType::i16: return f(int16_t{}, int16_t{});
    case DType::i32: return f(int32_t{}, int32_t{});
    case DType::i64: return f(int64_t{}, int64_t{});
    case DType::u16: return f(uint16_t{}, uint16_t{});
    case DType::u32: return f(uint32_t{}, uint32_t{});
    case DType::u64: return f(uint64_t{}, uint64_t{});
    default: return f(uint8_t{}, uint8_t{});
  }
}

template <class C> struct Entry {
  C value;
  int32_t at;
};

/// Equal elements in the order of their places.
template <class C, bool largest> struct Before {
  bool operator()(const Entry<C>& a, const Entry<C>& b) const {
    if (largest ? is_larger(a.value, b.value) : is_smaller(a.value, b.value)) return true;
    if (largest ? is_larger(b.value, a.value) : is_smaller(b.value, a.value)) return false;
    return a.at < b.at;
  }
};

/// Up to here the best so far are kept in order: shorter than a heap's way.
constexpr int64_t few = 24;

class TopKKernel final : public Kernel {
 public:
  TopKKernel(const Lines& l, DType type, bool largest, int threads)
      : l_(l), type_(type), largest_(largest), threads_(useful_threads(threads, l.count() * 4)) {
    if (l_.view.extent == 1) l_.view.inner *= l_.view.outer, l_.view.outer = 1;  // an axis of one element lies anywhere
    // A cache line of columns, in memory that a cache holds.
    columns_ = l_.view.inner == 1 ? 1 : std::clamp<int64_t>((int64_t{1} << 20) / (l_.view.extent * l_.bytes), 1, 64 / l_.bytes);
    // Copies a power of two apart would share few places of the cache.
    apart_ = l_.view.extent + 64 / l_.bytes;
    copies_ = l_.view.inner == 1 ? 0 : aligned(columns_ * apart_ * l_.bytes);
    // The one best of a long row is found faster by passing over the row, where rows are turned element by element.
    const bool half = type == DType::f16 || type == DType::bf16;  // which the pass widens
    const int64_t longest = l_.results > 1 || half ? short_row : l_.bytes == 4 ? short_row / 2 : short_row / 4;
    turns_ = l_.view.inner == 1 && l_.view.extent <= longest;
    is_arg_ = largest && l_.results == 1 && l_.view.inner == 1 && l_.view.extent >= 64;
    in_columns_ = l_.results > 0 && l_.results <= top_columns_most && (turns_ || l_.view.inner > 1);
  }
  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    if (is_arg_) return run_arg(b);
    if (in_columns_) return run_columns(b);
    const int64_t groups = (l_.view.inner + columns_ - 1) / columns_;
    parallel(threads_, l_.view.outer * groups, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * thread_bytes();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % groups * columns_;
        with_types(type_, [&]<class T, class C>(T, C) {
          group<T, C>(b, i / groups, first, std::min(columns_, l_.view.inner - first), own);
        });
      }
    });
  }

 private:
  static constexpr int64_t at_once = 64;     // columns
  static constexpr int64_t short_row = 512;  // elements

  int64_t places_bytes() const { return aligned(l_.results * at_once * 8); }
  int64_t thread_bytes() const {
    if (in_columns_) return places_bytes() + (turns_ ? aligned(short_row * at_once * l_.bytes) : 0);
    return aligned(l_.view.extent * 16) + copies_;
  }

  /// The largest of rows, as ArgMax finds it: NaN first, then the first place.
  void run_arg(const Buffers& b) const {
    const int64_t extent = l_.view.extent, most = at_once;
    parallel(threads_, (l_.view.outer + most - 1) / most, 1, [&](int64_t begin, int64_t end, int) {
      int64_t own[at_once];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * most, n = std::min(most, l_.view.outer - first);
        const char* x = static_cast<const char*>(b.inputs[0]) + first * extent * l_.bytes;
        auto* indices = b.outputs.size() > 1 ? static_cast<int64_t*>(b.outputs[1]) : nullptr;
        int64_t* places = indices ? indices + first : own;
        line_simd().arg_rows(l_.element, x, n, extent, ArgRule{true, false}, places);
        if (!b.outputs[0]) continue;
        with_types(type_, [&]<class T, class C>(T, C) {
          for (int64_t r = 0; r < n; ++r)
            static_cast<T*>(b.outputs[0])[first + r] = reinterpret_cast<const T*>(x)[r * extent + places[r]];
        });
      }
    });
  }

  void run_columns(const Buffers& b) const {
    const AxisView& v = l_.view;
    const int64_t columns = turns_ ? v.outer : v.inner, groups = (columns + at_once - 1) / at_once;
    parallel(threads_, (turns_ ? 1 : v.outer) * groups, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * thread_bytes();
      with_types(type_, [&]<class T, class C>(T, C) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % groups * at_once;
          some_columns<T>(b, i / groups, first, std::min(at_once, columns - first), own);
        }
      });
    });
  }

  /// Columns, or rows as columns, `first` and some behind it.
  template <class T> void some_columns(const Buffers& b, int64_t outer, int64_t first, int64_t n, char* own) const {
    const AxisView& v = l_.view;
    auto* places = reinterpret_cast<int64_t*>(own);
    const T* x = static_cast<const T*>(b.inputs[0]) + (turns_ ? first * v.extent : outer * v.extent * v.inner + first);
    if (turns_) {
      T* turned = reinterpret_cast<T*>(own + places_bytes());
      turn(x, n, turned);
      x = turned;
    }
    const int64_t step = turns_ ? at_once : v.inner;
    line_simd().top_columns(l_.element, x, step, n, v.extent, l_.results, largest_, places, at_once);
    auto* values = static_cast<T*>(b.outputs[0]);
    auto* indices = b.outputs.size() > 1 ? static_cast<int64_t*>(b.outputs[1]) : nullptr;
    for (int64_t j = 0; j < l_.results; ++j)
      for (int64_t c = 0; c < n; ++c) {
        const int64_t at = places[j * at_once + c];
        const int64_t to = turns_ ? (first + c) * l_.results + j : (outer * l_.results + j) * v.inner + first + c;
        if (values) values[to] = x[at * step + c];
        if (indices) indices[to] = at;
      }
  }

  /// n rows as columns of `to`.
  template <class T> void turn(const T* x, int64_t n, T* to) const {
    constexpr int64_t square = 16;
    const int64_t extent = l_.view.extent;
    if constexpr (sizeof(T) == 4) {
      const Transpose4 squares = simd::widest_of(base::transpose_4, avx2::transpose_4, avx512::transpose_4);
      if (n >= square && extent >= square)
        return squares(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(x), extent, n, at_once, extent);
    }
    for (int64_t r = 0; r < n; ++r)
      for (int64_t e = 0; e < extent; ++e) to[e * at_once + r] = x[r * extent + e];
  }

  template <class T, class C> void group(const Buffers& b, int64_t outer, int64_t first, int64_t n, char* own) const {
    const AxisView& v = l_.view;
    auto* entries = reinterpret_cast<Entry<C>*>(own);
    const T* x = static_cast<const T*>(b.inputs[0]) + outer * v.extent * v.inner + first;
    if (v.inner > 1) {
      T* copies = reinterpret_cast<T*>(own + aligned(v.extent * 16));
      for (int64_t e = 0; e < v.extent; ++e)
        for (int64_t i = 0; i < n; ++i) copies[i * apart_ + e] = x[e * v.inner + i];
      x = copies;
    }
    for (int64_t i = 0; i<n; ++i, x += v.inner> 1 ? apart_ : v.extent) {
      if (largest_)
        select<T, C, true>(x, entries);
      else
        select<T, C, false>(x, entries);
      for (int64_t j = 0; j < l_.results; ++j) {
        const int64_t to = (outer * l_.results + j) * v.inner + first + i;
        if (b.outputs[0]) static_cast<T*>(b.outputs[0])[to] = x[entries[j].at];
        if (b.outputs.size() > 1 && b.outputs[1]) static_cast<int64_t*>(b.outputs[1])[to] = entries[j].at;
      }
    }
  }

  /// The first of a line in their order.
  template <class T, class C, bool largest> void select(const T* x, Entry<C>* entries) const {
    const Before<C, largest> before;
    const int64_t extent = l_.view.extent, k = l_.results, filled = k < extent / 8 ? k : extent;
    for (int64_t e = 0; e < filled; ++e) entries[e] = {static_cast<C>(x[e]), static_cast<int32_t>(e)};
    if (filled == extent) {
      if (k < extent) std::nth_element(entries, entries + k, entries + extent, before);
      std::sort(entries, entries + k, before);
    } else if (k > few) {
      std::make_heap(entries, entries + k, before);
      for_better<T, C, largest>(x, entries[0], [&](const Entry<C>& entry) {
        std::pop_heap(entries, entries + k, before);
        entries[k - 1] = entry;
        std::push_heap(entries, entries + k, before);
      });
      std::sort_heap(entries, entries + k, before);
    } else if (k > 0) {
      std::sort(entries, entries + k, before);
      for_better<T, C, largest>(x, entries[k - 1], [&](const Entry<C>& entry) {
        int64_t at = k - 1;
        for (; at > 0 && before(entry, entries[at - 1]); --at) entries[at] = entries[at - 1];
        entries[at] = entry;
      });
    }
  }

  /// Calls take with each element behind the first results that comes before `worst`, which take renews.
  template <class T, class C, bool largest, class F> void for_better(const T* x, const Entry<C>& worst, F&& take) const {
    const Before<C, largest> before;
    for (int64_t e = l_.results;; ++e) {
      e = line_simd().next_before(l_.element, x, e, l_.view.extent, worst.at, largest);
      if (e >= l_.view.extent) return;
      const Entry<C> entry{static_cast<C>(x[e]), static_cast<int32_t>(e)};
      if (before(entry, worst)) take(entry);
    }
  }

  Lines l_;
  DType type_;
  bool largest_;
  bool is_arg_ = false;                      // the largest of rows
  bool turns_ = false, in_columns_ = false;  // rows become columns; columns are looked through in registers
  int threads_;
  int64_t columns_ = 1, apart_ = 0, copies_ = 0;
};

}  // namespace

void offer_top_k_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const int64_t axis = b.node->get_int("axis", -1);
  Result<Lines> l = lines_of(b, axis);
  if (!l) return offer.refuse("cpu", l.refusal());
  const BoundTensor& y = b.outputs[0].type != DType::undefined ? b.outputs[0] : b.outputs.back();
  l->results = y.shape[static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(b.inputs[0].shape.size())))];
  add_lines<TopKKernel>(offer, *l, machine, 100, b.inputs[0].type, b.node->get_int("largest", 1) != 0);
}

}  // namespace smelt::ops
