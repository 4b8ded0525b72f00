// Operators that look at one line of elements along an axis, on the processor: ArgMax, ArgMin, TopK, Hardmax, CumSum and CumProd,
// of every numeric type. Elements are compared and added as what they are; of f16 and bf16 in f32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/reduce/lines.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {
namespace {

/// An element as it is compared.
template <class T> auto wide(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>)
    return static_cast<float>(v);
  else
    return v;
}

/// Calls f(T{}) with the C++ type of t, whose elements have 8 bits or more.
template <class F> void with_element(DType t, F&& f) {
  switch (t) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::f16: return f(Half{});
    case DType::bf16: return f(BFloat{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u8:
    case DType::boolean: return f(uint8_t{});
    case DType::u16: return f(uint16_t{});
    case DType::u32: return f(uint32_t{});
    case DType::u64: return f(uint64_t{});
    default: fail("lines of {}", smelt::name(t));
  }
}

bool is_known(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16 || t == DType::boolean ||
         (is_integer(t) && bits(t) >= 8);
}

/// x and y as [outer, extent, inner] around the axis; y has `results` elements along it.
struct Lines {
  AxisView view;
  int64_t results = 1;
  DType type = DType::f32;
};

constexpr int64_t band = 64;  // adjacent lines that are walked together

/// A kernel over lines: run_band(outer, first inner, how many adjacent lines, thread's scratch).
template <class Derived> class LineKernel : public Kernel {
 public:
  LineKernel(const Lines& lines, int64_t cost, int threads)
      : lines_(lines),
        bands_((lines.view.inner + band - 1) / band),
        threads_(useful_threads(threads, lines.view.outer * lines.view.extent * lines.view.inner * cost)) {}
  int64_t workspace() const override { return threads_ * derived().scratch(); }
  void run(const Buffers& b) override {
    derived().begin(b);
    parallel(threads_, lines_.view.outer * bands_, 1, [&](int64_t begin, int64_t end, int thread) {
      void* scratch = static_cast<char*>(b.workspace) + thread * derived().scratch();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % bands_ * band;
        with_element(lines_.type, [&]<class T>(T) {
          derived().template run_band<T>(b, i / bands_, first, std::min(band, lines_.view.inner - first), scratch);
        });
      }
    });
  }

 protected:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
  void begin(const Buffers&) const {}
  int64_t scratch() const { return 0; }
  const Lines& lines() const { return lines_; }

 private:
  Lines lines_;
  int64_t bands_;
  int threads_;
};

// --- ArgMax, ArgMin -----------------------------------------------------------------------------------------------

class ArgKernel final : public LineKernel<ArgKernel> {
 public:
  ArgKernel(const Lines& lines, bool largest, bool last, int threads)
      : LineKernel(lines, 1, threads), largest_(largest), last_(last) {}

  template <class T> void run_band(const Buffers& b, int64_t outer, int64_t first, int64_t n, void*) const {
    const AxisView& v = lines().view;
    const T* x = static_cast<const T*>(b.inputs[0]) + outer * v.extent * v.inner + first;
    int64_t* y = static_cast<int64_t*>(b.outputs[0]) + outer * v.inner + first;
    if (v.inner == 1) {
      *y = largest_ ? along<T, true>(x) : along<T, false>(x);
      return;
    }
    decltype(wide(T{})) best[band];
    for (int64_t i = 0; i < n; ++i) best[i] = wide(x[i]), y[i] = 0;
    for (int64_t k = 1; k < v.extent; ++k) {
      const T* row = x + k * v.inner;
      for (int64_t i = 0; i < n; ++i) {
        const auto e = wide(row[i]);
        if (is_before(e, best[i]) || (last_ && !is_before(best[i], e))) best[i] = e, y[i] = k;
      }
    }
  }

 private:
  /// a is found before b; NaN is found first by either, as numpy has it.
  template <class C> bool is_before(C a, C b) const {
    if (a != a || b != b) return a != a && b == b;
    return largest_ ? a > b : a < b;
  }

  /// Of a line whose elements lie side by side: the extreme first, which needs no places, then where it stands.
  template <class T, bool largest> int64_t along(const T* x) const {
    const int64_t extent = lines().view.extent;
    using C = decltype(wide(T{}));
    C best[8];
    bool nan = false;
    for (C& v : best) v = wide(x[0]);
    int64_t k = 0;
    for (; k + 8 <= extent; k += 8) {
      for (int u = 0; u < 8; ++u) {
        const C e = wide(x[k + u]);
        if constexpr (std::is_floating_point_v<C>) nan |= e != e;
        best[u] = (largest ? e > best[u] : e < best[u]) ? e : best[u];
      }
    }
    for (; k < extent; ++k) {
      const C e = wide(x[k]);
      if constexpr (std::is_floating_point_v<C>) nan |= e != e;
      best[0] = (largest ? e > best[0] : e < best[0]) ? e : best[0];
    }
    C top = best[0];
    for (const C& v : best) top = (largest ? v > top : v < top) ? v : top;
    const auto is_it = [&](T v) {
      const C e = wide(v);
      return nan ? e != e : e == top;
    };
    if (last_) {
      for (k = extent - 1; k > 0 && !is_it(x[k]);) --k;
    } else {
      for (k = 0; k < extent - 1 && !is_it(x[k]);) ++k;
    }
    return k;
  }

  bool largest_, last_;
};

// --- TopK ---------------------------------------------------------------------------------------------------------

class TopKKernel final : public LineKernel<TopKKernel> {
 public:
  TopKKernel(const Lines& lines, bool largest, int threads) : LineKernel(lines, 4, threads), largest_(largest) {}
  int64_t scratch() const { return aligned(lines().view.extent * 16); }

  template <class T> void run_band(const Buffers& b, int64_t outer, int64_t first, int64_t n, void* scratch) const {
    using C = decltype(wide(T{}));
    struct Entry {
      C value;
      int32_t at;
    };
    const AxisView& v = lines().view;
    const int64_t k = lines().results;
    auto* entries = static_cast<Entry*>(scratch);
    for (int64_t i = first; i < first + n; ++i) {
      const T* x = static_cast<const T*>(b.inputs[0]) + outer * v.extent * v.inner + i;
      const auto before = [&](const Entry& a, const Entry& c) {
        if (largest_ ? is_larger(a.value, c.value) : is_smaller(a.value, c.value)) return true;
        if (largest_ ? is_larger(c.value, a.value) : is_smaller(c.value, a.value)) return false;
        return a.at < c.at;
      };
      int64_t count = v.extent;
      if (k < v.extent / 8) {  // a heap of the best so far, its worst on top
        count = 0;
        for (int64_t e = 0; e < v.extent && k > 0; ++e) {
          const Entry entry{wide(x[e * v.inner]), static_cast<int32_t>(e)};
          if (count < k) {
            entries[count++] = entry;
            if (count == k) std::make_heap(entries, entries + k, before);
          } else if (before(entry, entries[0])) {
            std::pop_heap(entries, entries + k, before);
            entries[k - 1] = entry;
            std::push_heap(entries, entries + k, before);
          }
        }
        std::sort(entries, entries + count, before);
      } else {
        for (int64_t e = 0; e < v.extent; ++e) entries[e] = {wide(x[e * v.inner]), static_cast<int32_t>(e)};
        if (k < count) std::nth_element(entries, entries + k, entries + count, before);
        std::sort(entries, entries + k, before);
      }
      for (int64_t j = 0; j < k; ++j) {
        const int64_t to = (outer * k + j) * v.inner + i;
        if (b.outputs[0]) static_cast<T*>(b.outputs[0])[to] = x[entries[j].at * v.inner];
        if (b.outputs.size() > 1 && b.outputs[1]) static_cast<int64_t*>(b.outputs[1])[to] = entries[j].at;
      }
    }
  }

 private:
  bool largest_;
};

// --- Hardmax ------------------------------------------------------------------------------------------------------

class HardmaxKernel final : public LineKernel<HardmaxKernel> {
 public:
  HardmaxKernel(const Lines& lines, int threads) : LineKernel(lines, 2, threads) {}

  template <class T> void run_band(const Buffers& b, int64_t outer, int64_t first, int64_t n, void*) const {
    const AxisView& v = lines().view;
    for (int64_t i = first; i < first + n; ++i) {
      const int64_t start = outer * v.extent * v.inner + i;
      const T* x = static_cast<const T*>(b.inputs[0]) + start;
      T* y = static_cast<T*>(b.outputs[0]) + start;
      int64_t top = 0;
      for (int64_t k = 1; k < v.extent; ++k)
        if (is_larger(wide(x[k * v.inner]), wide(x[top * v.inner]))) top = k;
      for (int64_t k = 0; k < v.extent; ++k) y[k * v.inner] = static_cast<T>(k == top ? 1.0f : 0.0f);
    }
  }
};

// --- CumSum, CumProd ----------------------------------------------------------------------------------------------

class ScanKernel final : public LineKernel<ScanKernel> {
 public:
  ScanKernel(const Lines& lines, bool product, bool exclusive, bool reverse, int threads)
      : LineKernel(lines, 2, threads), product_(product), exclusive_(exclusive), reverse_(reverse) {}

  template <class T> void run_band(const Buffers& b, int64_t outer, int64_t first, int64_t n, void*) const {
    using C = decltype(wide(T{}));
    // Floating-point totals in double; integers wrap.
    if constexpr (std::is_floating_point_v<C>)
      scan<T, double>(b, outer, first, n);
    else
      scan<T, uint64_t>(b, outer, first, n);
  }

 private:
  /// An element as a term of A; a signed byte keeps its sign.
  template <class A, class T> static A widened(T x) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<int64_t>(wide(x)));
    else
      return static_cast<A>(wide(x));
  }

  template <class T, class A> void scan(const Buffers& b, int64_t outer, int64_t first, int64_t n) const {
    const AxisView& v = lines().view;
    A totals[band];
    std::fill_n(totals, n, A(product_ ? 1 : 0));
    for (int64_t i = 0; i < v.extent; ++i) {
      const int64_t at = (outer * v.extent + (reverse_ ? v.extent - 1 - i : i)) * v.inner + first;
      const T* x = static_cast<const T*>(b.inputs[0]) + at;
      T* y = static_cast<T*>(b.outputs[0]) + at;
      for (int64_t k = 0; k < n; ++k) {
        const A e = widened<A>(x[k]), after = product_ ? totals[k] * e : totals[k] + e;
        y[k] = stored<T>(exclusive_ ? totals[k] : after);
        totals[k] = after;
      }
    }
  }
  template <class T, class A> static T stored(A v) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>)
      return T(static_cast<float>(v));
    else
      return static_cast<T>(v);
  }

  bool product_, exclusive_, reverse_;
};

/// The lines along `axis`; refused for what no kernel of this file takes.
Result<Lines> lines_of(const BoundNode& b, int64_t axis) {
  const BoundTensor& x = b.inputs[0];
  if (!is_known(x.type)) return refuse(Reason::wrong_type, "lines of {}", smelt::name(x.type));
  if (auto why = rejects_layouts(b)) return *why;
  if (x.shape.empty()) return refuse(Reason::wrong_rank, "a scalar");
  if (elements(x.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const int64_t at = normalize_axis(axis, static_cast<int64_t>(x.shape.size()));
  Lines l{around_axis(x.shape, at), 1, x.type};
  if (l.view.extent >= int64_t{1} << 31)
    return refuse(Reason::too_large, "lines of {} elements; it counts to 2^31", l.view.extent);
  return l;
}

template <class K, class... A> void add(Offer& offer, const Lines& l, const Machine& machine, double per_us, A... arguments) {
  const double count = static_cast<double>(l.view.outer * l.view.extent * l.view.inner);
  offer.candidates.push_back({"cpu", "", 1 + count / per_us / machine.threads, [l, arguments..., threads = machine.threads] {
                                return std::make_unique<K>(l, arguments..., threads);
                              }});
}

}  // namespace

void offer_arg_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Lines> l = lines_of(b, b.node->get_int("axis", 0));
  if (!l) return offer.refuse("cpu", l.refusal());
  add<ArgKernel>(offer, *l, machine, 1e3, b.node->op == "ArgMax", b.node->get_int("select_last_index", 0) != 0);
}

void offer_top_k_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  Result<Lines> l = lines_of(b, b.node->get_int("axis", -1));
  if (!l) return offer.refuse("cpu", l.refusal());
  const BoundTensor& y = b.outputs[0].type != DType::undefined ? b.outputs[0] : b.outputs.back();
  l->results =
      y.shape[static_cast<size_t>(normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(b.inputs[0].shape.size())))];
  add<TopKKernel>(offer, *l, machine, 100, b.node->get_int("largest", 1) != 0);
}

void offer_hardmax_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Lines> l = lines_of(b, b.node->get_int("axis", -1));
  if (!l) return offer.refuse("cpu", l.refusal());
  add<HardmaxKernel>(offer, *l, machine, 500);
}

void offer_scan_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!b.constant(1)) return offer.refuse("cpu", Reason::not_constant, "its axis is computed");
  const std::vector<int64_t> axis = b.constant(1)->to_ints();
  if (axis.size() != 1) return offer.refuse("cpu", Reason::wrong_shape, "{} axes", axis.size());
  const Result<Lines> l = lines_of(b, axis[0]);
  if (!l) return offer.refuse("cpu", l.refusal());
  if (b.inputs[0].type == DType::boolean) return offer.refuse("cpu", Reason::wrong_type, "running totals of bool");
  add<ScanKernel>(offer, *l, machine, 500, b.node->op == "CumProd", b.node->get_int("exclusive", 0) != 0,
                  b.node->get_int("reverse", 0) != 0);
}

}  // namespace smelt::ops
