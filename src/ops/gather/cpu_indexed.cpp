// GatherElements, GatherND and TensorScatter on the processor. Elements are moved as so many bytes.
#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/cpu/parallel.h"
#include "ops/gather/cpu_indices.h"

namespace smelt::ops {
namespace {

constexpr int64_t several = 16;  // indices that are looked at together

/// Whether `several` indices are places as they are, by the signs of them and of what they leave of the extent: in registers.
template <class I> bool are_places(const I* index, int64_t extent) {
  using U = std::make_unsigned_t<I>;
  const U last = static_cast<U>(std::min<int64_t>(extent - 1, std::numeric_limits<I>::max()));
  U signs = 0;
  for (int64_t i = 0; i < several; ++i) signs |= static_cast<U>(index[i]) | (last - static_cast<U>(index[i]));
  return static_cast<I>(signs) >= 0;
}

/// y[i] = from[i · run_step + index[i] · step] for i < n; false where an index is outside.
template <class T, class I> bool gather_run(T* y, const T* from, const I* index, int64_t n, const IndexedElements& at) {
  bool wrong = false;
  const auto run = [&](int64_t run_step, int64_t step) __attribute__((always_inline)) {
    int64_t i = 0;
    const auto take = [&](const auto* places) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < several; ++k) y[i + k] = from[(i + k) * run_step + int64_t{places[k]} * step];
    };
    for (; i + several <= n; i += several) {
      if (are_places(index + i, at.extent)) {
        take(index + i);
        continue;
      }
      int64_t places[several];
      for (int64_t k = 0; k < several; ++k) places[k] = index[i + k] + (index[i + k] < 0 ? at.extent : 0);
      if (!are_places(places, at.extent)) return wrong = true, void();
      take(places);
    }
    for (; i < n; ++i) y[i] = from[i * run_step + place_of(index[i], at.extent, wrong) * step];
  };
  if (at.run_step == 0 && at.step == 1)
    run(0, 1);
  else
    run(at.run_step, at.step);
  return !wrong;
}

/// `rows` runs of n elements, whose data begin `row_step` apart: loops of a known length, one after the other.
template <int64_t n, class T, class I>
bool gather_short_runs(T* y, const T* from, const I* index, int64_t rows, int64_t row_step, const IndexedElements& at) {
  bool wrong = false;
  for (int64_t r = 0; r < rows; ++r, y += n, index += n, from += row_step)
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) y[i] = from[i * at.run_step + place_of(index[i], at.extent, wrong) * at.step];
  return !wrong;
}

template <class T, class I>
bool gather_runs(T* y, const T* from, const I* index, int64_t rows, int64_t row_step, const IndexedElements& at) {
  switch (at.run) {
    case 1: return gather_short_runs<1>(y, from, index, rows, row_step, at);
    case 2: return gather_short_runs<2>(y, from, index, rows, row_step, at);
    case 3: return gather_short_runs<3>(y, from, index, rows, row_step, at);
    case 4: return gather_short_runs<4>(y, from, index, rows, row_step, at);
    case 5: return gather_short_runs<5>(y, from, index, rows, row_step, at);
    case 6: return gather_short_runs<6>(y, from, index, rows, row_step, at);
    case 7: return gather_short_runs<7>(y, from, index, rows, row_step, at);
    case 8: return gather_short_runs<8>(y, from, index, rows, row_step, at);
  }
  bool right = true;
  for (int64_t r = 0; r < rows; ++r) right &= gather_run(y + r * at.run, from + r * row_step, index + r * at.run, at.run, at);
  return right;
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
      with_indices(b.inputs[1], at_.wide, [&]<class I>(const I* index) {
        parallel(threads_, at_.rows() * at_.run, 64, [&](int64_t begin, int64_t end, int) {
          while (begin < end) {
            const int64_t row = begin / at_.run, i = begin % at_.run;
            // Whole runs up to the end of the axis around them, or part of one.
            const int64_t around = at_.outer.empty() ? 1 : at_.outer.back(),
                          step = at_.outer.empty() ? 0 : at_.outer_steps.back();
            const int64_t rows = i > 0 ? 0 : std::min(around - row % around, (end - begin) / at_.run);
            const int64_t n = rows > 0 ? rows * at_.run : std::min(at_.run - i, end - begin);
            const T* from = static_cast<const T*>(b.inputs[0]) + at_.offset(row) + i * at_.run_step;
            T* to = static_cast<T*>(b.outputs[0]) + begin;
            const bool right =
                rows > 0 ? gather_runs(to, from, index + begin, rows, step, at_) : gather_run(to, from, index + begin, n, at_);
            for (int64_t k = begin; k < begin + n && !right; ++k) indices.at(k, at_.extent);
            begin += n;
          }
        });
      });
    });
    indices.check();
  }

 private:
  IndexedElements at_;
  int64_t size_;
  int threads_;
};

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
    if (at_.slice == 1) {
      with_bytes(size_, [&]<class T>(T) {
        with_indices(b.inputs[1], at_.wide, [&]<class I>(const I* index) {
          const T* from = static_cast<const T*>(b.inputs[0]);
          T* to = static_cast<T*>(b.outputs[0]);
          parallel(threads_, at_.rows, 64, [&](int64_t begin, int64_t end, int) {
            if (!at_.each(index, begin, end, [&](int64_t r, int64_t place) { to[r] = from[place]; }))
              at_.find_wrong(indices, begin, end);
          });
        });
      });
      return indices.check();
    }
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

}  // namespace smelt::ops
