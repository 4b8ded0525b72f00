// GatherElements, GatherND and the Scatter family on the processor. Elements are moved as so many bytes; a reduction computes in
// the type itself, of f16 and bf16 in f32.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cpu/strided_copy.h"
#include "ops/gather/offer.h"

namespace smelt::ops {
namespace {

/// Indices as they lie in memory; a wrong one is kept until all threads have ended.
class Indices {
 public:
  Indices(const void* data, bool wide) : data_(data), wide_(wide) {}
  /// The index at `i` along an axis of `extent`; one from the end where it is negative. 0 for a wrong one.
  int64_t at(int64_t i, int64_t extent) {
    const int64_t given = wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
    const int64_t index = given < 0 ? given + extent : given;
    if (index >= 0 && index < extent) return index;
    wrong_.store(given, std::memory_order_relaxed);
    extent_.store(extent, std::memory_order_relaxed);
    return 0;
  }
  /// Throws Error for a wrong one.
  void check() const {
    if (extent_ >= 0) fail("index {} is outside [{}, {})", wrong_.load(), -extent_.load(), extent_.load());
  }

 private:
  const void* data_;
  bool wide_;
  std::atomic<int64_t> wrong_ = 0, extent_ = -1;
};

template <class F> void with_bytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

std::optional<Refusal> rejects(const BoundNode& b) {
  if (auto why = rejects_layouts(b)) return why;
  if (!StridedCopy::can_move(element_bytes(b.inputs[0].type)))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(b.inputs[0].type));
  const DType index = b.inputs[1].type;
  if (index != DType::i64 && index != DType::i32) return refuse(Reason::wrong_type, "indices of {}", smelt::name(index));
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  return std::nullopt;
}

/// Where the positions of indices lie in the data: along `axis` the index says it, elsewhere the position's own place.
struct IndexedElements {
  Shape outer, outer_steps;  // of the indices, all axes but the innermost
  int64_t run = 1, run_step = 1;
  int64_t extent = 1, step = 1;  // of the data along the axis
  bool wide = true;

  IndexedElements(const Shape& data, const BoundTensor& indices, int64_t axis) : wide(indices.type == DType::i64) {
    const auto a = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(data.size())));
    Shape steps = strides(data);
    extent = data[a], step = steps[a];
    steps[a] = 0;
    outer = indices.shape, outer_steps = steps;
    run = outer.back(), run_step = outer_steps.back();
    outer.pop_back(), outer_steps.pop_back();
  }
  int64_t rows() const { return elements(outer); }
  int64_t offset(int64_t row) const {
    int64_t at = 0;
    for (size_t a = outer.size(); a-- > 0; row /= outer[a]) at += row % outer[a] * outer_steps[a];
    return at;
  }
};

std::optional<Refusal> rejects_elements(const BoundNode& b) {
  if (auto why = rejects(b)) return why;
  const Shape &s = b.inputs[0].shape, &indices = b.inputs[1].shape;
  if (s.empty() || s.size() != indices.size()) return refuse(Reason::wrong_rank, "{} and {} axes", s.size(), indices.size());
  const int64_t axis = normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(s.size()));
  for (size_t a = 0; a < s.size(); ++a)
    if (static_cast<int64_t>(a) != axis && indices[a] > s[a])
      return refuse(Reason::wrong_shape, "indices beyond axis {} of the data", a);
  return std::nullopt;
}

class GatherElementsKernel final : public Kernel {
 public:
  GatherElementsKernel(const BoundNode& b, int threads)
      : at_(b.inputs[0].shape, b.inputs[1], b.node->get_int("axis", 0)),
        size_(element_bytes(b.inputs[0].type)),
        threads_(useful_threads(threads, 2 * elements(b.inputs[1].shape))) {}
  void run(const Buffers& b) override {
    Indices indices(b.inputs[1], at_.wide);
    with_bytes(size_, [&]<class T>(T) {
      const T* x = static_cast<const T*>(b.inputs[0]);
      T* y = static_cast<T*>(b.outputs[0]);
      parallel(threads_, at_.rows(), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const T* from = x + at_.offset(r);
          for (int64_t i = 0; i < at_.run; ++i)
            y[r * at_.run + i] = from[i * at_.run_step + indices.at(r * at_.run + i, at_.extent) * at_.step];
        }
      });
    });
    indices.check();
  }

 private:
  IndexedElements at_;
  int64_t size_;
  int threads_;
};

/// Indices [batch…, rows…, depth] into data [batch…, indexed (depth axes)…, slice…].
struct IndexedSlices {
  int64_t rows = 1, rows_per_batch = 1, depth = 0, slice = 1, batch_size = 1;
  Shape steps, extents;
  bool wide = true;

  IndexedSlices(const Shape& data, const BoundTensor& indices, size_t batch_dims) : wide(indices.type == DType::i64) {
    depth = indices.shape.back();
    const Shape all = strides(data);
    for (size_t a = 0; a + 1 < indices.shape.size(); ++a) {
      rows *= indices.shape[a];
      if (a >= batch_dims) rows_per_batch *= indices.shape[a];
    }
    for (size_t a = batch_dims; a < data.size(); ++a) {
      batch_size *= data[a];
      if (a < batch_dims + static_cast<size_t>(depth))
        steps.push_back(all[a]), extents.push_back(data[a]);
      else
        slice *= data[a];
    }
  }
  int64_t offset(Indices& indices, int64_t row) const {
    int64_t at = row / rows_per_batch * batch_size;
    for (int64_t d = 0; d < depth; ++d)
      at += indices.at(row * depth + d, extents[static_cast<size_t>(d)]) * steps[static_cast<size_t>(d)];
    return at;
  }
};

std::optional<Refusal> rejects_slices(const BoundNode& b, int64_t batch_dims) {
  if (auto why = rejects(b)) return why;
  const Shape &s = b.inputs[0].shape, &indices = b.inputs[1].shape;
  if (indices.empty() || batch_dims < 0 || batch_dims >= static_cast<int64_t>(indices.size()) ||
      indices.back() + batch_dims > static_cast<int64_t>(s.size()))
    return refuse(Reason::wrong_shape, "indices that do not fit the data");
  if (elements(indices) == 0 && indices.back() != 0) return refuse(Reason::wrong_shape, "no indices");
  return std::nullopt;
}

class GatherNdKernel final : public Kernel {
 public:
  GatherNdKernel(const BoundNode& b, int threads)
      : at_(b.inputs[0].shape, b.inputs[1], static_cast<size_t>(b.node->get_int("batch_dims", 0))),
        bytes_(at_.slice * element_bytes(b.inputs[0].type)),
        size_(element_bytes(b.inputs[0].type)),
        threads_(useful_threads(threads, 2 * at_.rows * (bytes_ + at_.depth))) {}
  void run(const Buffers& b) override {
    Indices indices(b.inputs[1], at_.wide);
    const char* x = static_cast<const char*>(b.inputs[0]);
    char* y = static_cast<char*>(b.outputs[0]);
    parallel(threads_, at_.rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r)
        std::memcpy(y + r * bytes_, x + at_.offset(indices, r) * size_, static_cast<size_t>(bytes_));
    });
    indices.check();
  }

 private:
  IndexedSlices at_;
  int64_t bytes_, size_;
  int threads_;
};

// --- Scatter ------------------------------------------------------------------------------------------------------

enum class Combine : uint8_t { none, add, mul, max, min };

std::optional<Combine> combine_of(const Node& n) {
  constexpr std::string_view names[] = {"none", "add", "mul", "max", "min"};
  const auto at = std::ranges::find(names, std::string_view(n.get_string("reduction", "none")));
  if (at == std::end(names)) return std::nullopt;
  return static_cast<Combine>(at - names);
}

template <class T> T combined(Combine how, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // integers wrap
  switch (how) {
    case Combine::add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Combine::mul: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Combine::max: return a < b || b != b ? b : a;
    case Combine::min: return b < a || b != b ? b : a;
    default: return b;
  }
}

/// The data copied, then the updates in their order: `At` says where each run of them goes.
template <class At> class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const BoundNode& b, At at, int threads)
      : at_(std::move(at)),
        how_(combine_of(*b.node).value_or(Combine::none)),
        type_(b.inputs[0].type),
        size_(element_bytes(type_)),
        count_(elements(b.inputs[0].shape)),
        updates_(elements(b.inputs[2].shape)),
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
      apply(indices, total, static_cast<const float*>(values));
      row_simd().scale(kind, total, nullptr, nullptr, b.outputs[0], count_);
      return indices.check();
    }
    if (b.outputs[0] != b.inputs[0]) {
      parallel(threads_, count_ * size_, 4096, [&](int64_t begin, int64_t end, int) {
        std::memcpy(static_cast<char*>(b.outputs[0]) + begin, static_cast<const char*>(b.inputs[0]) + begin,
                    static_cast<size_t>(end - begin));
      });
    }
    const auto as = [&]<class T>(T) { apply(indices, static_cast<T*>(b.outputs[0]), static_cast<const T*>(b.inputs[2])); };
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

  template <class T> void apply(Indices& indices, T* y, const T* updates) const {
    at_.for_runs(indices, [&](int64_t from, int64_t to, int64_t n) {
      if (how_ == Combine::none)
        std::memcpy(y + to, updates + from, static_cast<size_t>(n) * sizeof(T));
      else
        for (int64_t i = 0; i < n; ++i) y[to + i] = combined(how_, y[to + i], updates[from + i]);
    });
  }

  At at_;
  Combine how_;
  DType type_;
  int64_t size_, count_, updates_;
  int threads_;
};

struct ScatteredElements : IndexedElements {
  using IndexedElements::IndexedElements;
  template <class F> void for_runs(Indices& indices, F&& f) const {
    for (int64_t r = 0; r < rows(); ++r) {
      const int64_t base = offset(r);
      for (int64_t i = 0; i < run; ++i) f(r * run + i, base + i * run_step + indices.at(r * run + i, extent) * step, int64_t{1});
    }
  }
};
struct ScatteredSlices : IndexedSlices {
  using IndexedSlices::IndexedSlices;
  template <class F> void for_runs(Indices& indices, F&& f) const {
    for (int64_t r = 0; r < rows; ++r) f(r * slice, offset(indices, r), slice);
  }
};

std::optional<Refusal> rejects_scatter(const BoundNode& b) {
  const auto how = combine_of(*b.node);
  if (!how) return refuse(Reason::wrong_attribute, "reduction = {}", b.node->get_string("reduction", ""));
  if (*how != Combine::none && b.inputs[0].type == DType::boolean) return refuse(Reason::wrong_type, "a reduction of bool");
  if (b.inputs[2].type != b.inputs[0].type) return refuse(Reason::wrong_type, "updates of another type");
  return std::nullopt;
}

// --- TensorScatter ------------------------------------------------------------------------------------------------

class TensorScatterKernel final : public Kernel {
 public:
  TensorScatterKernel(const BoundNode& b, int64_t axis, int threads)
      : view_(around_axis(b.inputs[0].shape, axis)),
        length_(b.inputs[1].shape[static_cast<size_t>(axis)]),
        per_sample_(view_.outer / b.inputs[0].shape[0]),
        row_(view_.inner * element_bytes(b.inputs[0].type)),
        circular_(b.node->get_string("mode", "linear") == "circular"),
        threads_(useful_threads(threads, 2 * view_.outer * view_.extent * row_)) {}
  bool in_place(size_t i) const override { return i == 0; }
  void run(const Buffers& b) override {
    const int64_t* begin = b.inputs.size() > 2 ? static_cast<const int64_t*>(b.inputs[2]) : nullptr;
    for (int64_t n = 0; begin && !circular_ && n < view_.outer / per_sample_; ++n)
      if (begin[n] < 0 || begin[n] > view_.extent - length_)
        fail("{} places from write index {} on are outside the cache's {}", length_, begin[n], view_.extent);
    const char *past = static_cast<const char*>(b.inputs[0]), *update = static_cast<const char*>(b.inputs[1]);
    char* y = static_cast<char*>(b.outputs[0]);
    const int64_t whole = view_.extent * row_;
    parallel(threads_, view_.outer, 1, [&](int64_t first, int64_t last, int) {
      if (y != past) std::memcpy(y + first * whole, past + first * whole, static_cast<size_t>((last - first) * whole));
      for (int64_t o = first; o < last; ++o) {
        const int64_t given = begin ? begin[o / per_sample_] : 0, start = (given % view_.extent + view_.extent) % view_.extent;
        const int64_t n = std::min(length_, view_.extent - start);
        std::memcpy(y + o * whole + start * row_, update + o * length_ * row_, static_cast<size_t>(n * row_));
        std::memcpy(y + o * whole, update + (o * length_ + n) * row_, static_cast<size_t>((length_ - n) * row_));
      }
    });
  }

 private:
  AxisView view_;
  int64_t length_, per_sample_, row_;
  bool circular_;
  int threads_;
};

std::optional<Refusal> rejects_cache(const BoundNode& b, int64_t axis) {
  const BoundTensor &past = b.inputs[0], &update = b.inputs[1];
  if (auto why = rejects_layouts(b)) return why;
  if (element_bytes(past.type) == 0) return refuse(Reason::wrong_type, "elements of {}", smelt::name(past.type));
  if (b.has(2) && (b.inputs[2].type != DType::i64 || elements(b.inputs[2].shape) != past.shape[0]))
    return refuse(Reason::wrong_type, "write indices that are not one i64 a sample");
  Shape expected = past.shape;
  const auto a = static_cast<size_t>(axis);
  if (axis == 0 || update.shape.size() != past.shape.size() || elements(past.shape) == 0)
    return refuse(Reason::wrong_shape, "an update of the batch, or an empty cache");
  expected[a] = update.shape[a];
  if (update.shape != expected || expected[a] > past.shape[a]) return refuse(Reason::wrong_shape, "an update that does not fit");
  return std::nullopt;
}

template <class Make> void add(const BoundNode& b, const Machine& machine, Offer& offer, Make make) {
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine), [b, node = *b.node, make, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return make(bound, threads);
                              }});
}

}  // namespace

void offer_indexed_gather_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const std::string& op = b.node->op;
  if (op == "GatherElements") {
    if (const auto why = rejects_elements(b)) return offer.refuse("cpu", *why);
    add(b, machine, offer, [](const BoundNode& n, int threads) { return std::make_unique<GatherElementsKernel>(n, threads); });
  } else if (op == "GatherND") {
    if (const auto why = rejects_slices(b, b.node->get_int("batch_dims", 0))) return offer.refuse("cpu", *why);
    add(b, machine, offer, [](const BoundNode& n, int threads) { return std::make_unique<GatherNdKernel>(n, threads); });
  } else {
    const int64_t axis = normalize_axis(b.node->get_int("axis", -2), static_cast<int64_t>(b.inputs[0].shape.size()));
    if (const auto why = rejects_cache(b, axis)) return offer.refuse("cpu", *why);
    add(b, machine, offer,
        [axis](const BoundNode& n, int threads) { return std::make_unique<TensorScatterKernel>(n, axis, threads); });
  }
}

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
