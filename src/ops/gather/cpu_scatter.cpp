// ScatterElements and ScatterND on the processor: the data copied, then the updates in their order. Elements are moved as so many
// bytes; a reduction computes in the type itself, of f16 and bf16 in f32. Threads share the places that no two updates of different
// threads can meet at: lines along the axis, or columns.
#include <algorithm>
#include <cstring>

#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/gather/cpu_indices.h"

namespace smelt::ops {
namespace {

enum class Combine : uint8_t { none, add, mul, max, min };

std::optional<Combine> combine_of(const Node& n) {
  constexpr std::string_view names[] = {"none", "add", "mul", "max", "min"};
  const auto at = std::ranges::find(names, std::string_view(n.get_string("reduction", "none")));
  if (at == std::end(names)) return std::nullopt;
  return static_cast<Combine>(at - names);
}

template <Combine how, class T> T combined(T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // integers wrap
  if constexpr (how == Combine::add) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (how == Combine::mul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (how == Combine::none) return b;
  const T further = (how == Combine::max ? a < b : b < a) ? b : a;  // a NaN stays, and comes
  return b != b ? b : further;
}

/// Calls f.operator()<how>().
template <class F> void with_combine(Combine how, F&& f) {
  switch (how) {
    case Combine::add: return f.template operator()<Combine::add>();
    case Combine::mul: return f.template operator()<Combine::mul>();
    case Combine::max: return f.template operator()<Combine::max>();
    case Combine::min: return f.template operator()<Combine::min>();
    default: return f.template operator()<Combine::none>();
  }
}

struct ScatteredElements : IndexedElements {
  using IndexedElements::IndexedElements;

  /// Updates [i, last) of row `r`; false where an index is outside.
  template <Combine how, class T, class I>
  bool row(T* y, const T* updates, const I* index, int64_t r, int64_t i, int64_t last) const {
    bool wrong = false;
    T* to = y + offset(r);
    updates += r * run, index += r * run;
    for (; i < last; ++i) {
      T& target = to[i * run_step + place_of(index[i], extent, wrong) * step];
      target = combined<how>(target, updates[i]);
    }
    return !wrong;
  }

  /// Rows whose own axis is the last one lie apart; of others, the places within a row do.
  template <Combine how, class T> void apply(const void* given, T* y, const T* updates, int threads, Indices& indices) const {
    const bool by_rows = run_step == 0;
    with_indices(given, wide, [&]<class I>(const I* index) {
      const auto part = [&](int64_t first, int64_t last, int64_t i, int64_t end) {
        for (int64_t r = first; r < last; ++r)
          if (!row<how>(y, updates, index, r, i, end))
            for (int64_t k = i; k < end; ++k) indices.at(r * run + k, extent);
      };
      if (by_rows)
        parallel(threads, rows(), 1, [&](int64_t first, int64_t last, int) { part(first, last, 0, run); });
      else
        parallel(threads, run, columns_each(run, threads), [&](int64_t i, int64_t end, int) { part(0, rows(), i, end); });
    });
  }

  /// So many that each thread has one part, which goes through all rows.
  static int64_t columns_each(int64_t columns, int threads) {
    return std::max<int64_t>(16, aligned((columns + threads - 1) / threads));
  }
};

struct ScatteredSlices : IndexedSlices {
  using IndexedSlices::IndexedSlices;

  template <Combine how, class T> void apply(const void* given, T* y, const T* updates, int threads, Indices& indices) const {
    if (slice == 1)
      return with_indices(given, wide, [&]<class I>(const I* index) {
        const auto update = [&](int64_t r, int64_t place) { y[place] = combined<how>(y[place], updates[r]); };
        if (!this->each(index, 0, rows, update)) find_wrong(indices, 0, rows);
      });
    const int64_t each = ScatteredElements::columns_each(slice, threads);
    parallel(threads, slice, each, [&](int64_t first, int64_t last, int) {
      for (int64_t r = 0; r < rows; ++r) {
        T* to = y + offset(indices, r) + first;
        const T* from = updates + r * slice + first;
        if constexpr (how == Combine::none)
          std::memcpy(to, from, static_cast<size_t>(last - first) * sizeof(T));
        else
          for (int64_t i = 0; i < last - first; ++i) to[i] = combined<how>(to[i], from[i]);
      }
    });
  }
};

/// `At` says where updates go.
template <class At> class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const BoundNode& b, At at, int threads)
      : at_(std::move(at)),
        how_(combine_of(*b.node).value_or(Combine::none)),
        type_(b.inputs[0].type),
        size_(element_bytes(type_)),
        count_(elements(b.inputs[0].shape)),
        updates_(elements(b.inputs[2].shape)),
        team_(threads),
        threads_(useful_threads(threads, 2 * count_ * size_)) {}
  int64_t workspace() const override { return is_widened() ? aligned(count_ * 4) + aligned(updates_ * 4) : 0; }
  bool in_place(size_t i) const override { return i == 0; }

  void run(const Buffers& b) override {
    Indices indices(b.inputs[1], at_.wide);
    if (is_widened()) {
      const FloatKind kind = required_float_kind(type_);
      auto* total = static_cast<float*>(b.workspace);
      auto* values = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + aligned(count_ * 4));
      row_simd().load(kind, b.inputs[0], nullptr, nullptr, total, count_);
      row_simd().load(kind, b.inputs[2], nullptr, nullptr, values, updates_);
      apply(b.inputs[1], indices, total, static_cast<const float*>(values));
      row_simd().scale(kind, total, nullptr, nullptr, b.outputs[0], count_);
      return indices.check();
    }
    if (b.outputs[0] != b.inputs[0]) {
      parallel(threads_, count_ * size_, 4096, [&](int64_t begin, int64_t end, int) {
        std::memcpy(static_cast<char*>(b.outputs[0]) + begin, static_cast<const char*>(b.inputs[0]) + begin,
                    static_cast<size_t>(end - begin));
      });
    }
    const auto as = [&]<class T>(T) {
      apply(b.inputs[1], indices, static_cast<T*>(b.outputs[0]), static_cast<const T*>(b.inputs[2]));
    };
    if (how_ == Combine::none) {
      with_bytes(size_, as);
    } else {
      switch (type_) {
        case DType::f32: as(float{}); break;
        case DType::f64: as(double{}); break;
        case DType::i8: as(int8_t{}); break;
        case DType::i16: as(int16_t{}); break;
        case DType::i32: as(int32_t{}); break;
        case DType::i64: as(int64_t{}); break;
        case DType::u16: as(uint16_t{}); break;
        case DType::u32: as(uint32_t{}); break;
        case DType::u64: as(uint64_t{}); break;
        default: as(uint8_t{});
      }
    }
    indices.check();
  }

 private:
  bool is_widened() const { return how_ != Combine::none && (type_ == DType::f16 || type_ == DType::bf16); }

  template <class T> void apply(const void* given, Indices& indices, T* y, const T* updates) const {
    const int threads = useful_threads(team_, 4 * updates_);
    with_combine(how_, [&]<Combine how>() { at_.template apply<how>(given, y, updates, threads, indices); });
  }

  At at_;
  Combine how_;
  DType type_;
  int64_t size_, count_, updates_;
  int team_, threads_;  // of the machine; for the copy
};

std::optional<Refusal> rejects_scatter(const BoundNode& b) {
  const auto how = combine_of(*b.node);
  if (!how) return refuse(Reason::wrong_attribute, "reduction = {}", b.node->get_string("reduction", ""));
  if (*how != Combine::none && b.inputs[0].type == DType::boolean) return refuse(Reason::wrong_type, "a reduction of bool");
  if (b.inputs[2].type != b.inputs[0].type) return refuse(Reason::wrong_type, "updates of another type");
  return std::nullopt;
}

}  // namespace

void offer_scatter_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_scatter(b)) return offer.refuse("cpu", *why);
  if (b.node->op == "ScatterND") {
    if (const auto why = rejects_slices(b, 0)) return offer.refuse("cpu", *why);
    const IndexedSlices at(b.inputs[0].shape, b.inputs[1], 0);
    if (elements(b.inputs[2].shape) != at.rows * at.slice)
      return offer.refuse("cpu", Reason::wrong_shape, "updates that are not {} slices of {}", at.rows, at.slice);
    add(b, machine, offer, [](const BoundNode& n, int threads) {
      return std::make_unique<ScatterKernel<ScatteredSlices>>(n, ScatteredSlices(n.inputs[0].shape, n.inputs[1], 0), threads);
    });
    return;
  }
  if (const auto why = rejects_elements(b)) return offer.refuse("cpu", *why);
  if (b.inputs[1].shape != b.inputs[2].shape) return offer.refuse("cpu", Reason::wrong_shape, "updates of another shape");
  add(b, machine, offer, [](const BoundNode& n, int threads) {
    return std::make_unique<ScatterKernel<ScatteredElements>>(
        n, ScatteredElements(n.inputs[0].shape, n.inputs[1], n.node->get_int("axis", 0)), threads);
  });
}

}  // namespace smelt::ops
