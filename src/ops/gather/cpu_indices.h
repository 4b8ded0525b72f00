// Where indices point in the data, as GatherElements, GatherND and the Scatter family say it: what their kernels share.
#pragma once

#include <fmt/core.h>

#include <atomic>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/gather/offer.h"

namespace smelt::ops {

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

/// The place that an index says, one from the end where it is negative; 0, and `wrong` set, for one outside of the extent. Without a
/// branch, for loops over elements.
template <class I> int64_t place_of(I given, int64_t extent, bool& wrong) {
  const int64_t wide = given, index = wide + (wide < 0 ? extent : 0);
  const bool outside = static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent);
  wrong |= outside;
  return outside ? 0 : index;
}

/// Calls f with indices of their type.
template <class F> void with_indices(const void* data, bool wide, F&& f) {
  if (wide)
    f(static_cast<const int64_t*>(data));
  else
    f(static_cast<const int32_t*>(data));
}

inline std::optional<Refusal> rejects(const BoundNode& b) {
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
    // Axes of one place are none, and axes that lie in the data as they do in the indices are one.
    for (size_t d = 0; d < steps.size(); ++d) {
      const int64_t count = indices.shape[d];
      if (count == 1) continue;
      if (!outer.empty() && outer_steps.back() == steps[d] * count) {
        outer.back() *= count, outer_steps.back() = steps[d];
      } else {
        outer.push_back(count), outer_steps.push_back(steps[d]);
      }
    }
    if (outer.empty()) return;
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

inline std::optional<Refusal> rejects_elements(const BoundNode& b) {
  if (auto why = rejects(b)) return why;
  const Shape &s = b.inputs[0].shape, &indices = b.inputs[1].shape;
  if (s.empty() || s.size() != indices.size()) return refuse(Reason::wrong_rank, "{} and {} axes", s.size(), indices.size());
  const int64_t axis = normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(s.size()));
  for (size_t a = 0; a < s.size(); ++a)
    if (static_cast<int64_t>(a) != axis && indices[a] > s[a])
      return refuse(Reason::wrong_shape, "indices beyond axis {} of the data", a);
  return std::nullopt;
}

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

  /// f(row, place) of rows [first, last), for slices that are short; false where an index is outside.
  template <class I, class F> bool each(const I* index, int64_t first, int64_t last, F&& f) const {
    bool wrong = false;
    if (depth == 1 && rows == rows_per_batch) {
      const int64_t extent = extents[0], step = steps[0];
      for (int64_t r = first; r < last; ++r) f(r, place_of(index[r], extent, wrong) * step);
      return !wrong;
    }
    int64_t batch = first / rows_per_batch, next = (batch + 1) * rows_per_batch;
    for (int64_t r = first; r < last; ++r) {
      if (r == next) ++batch, next += rows_per_batch;
      int64_t at = batch * batch_size;
      for (int64_t d = 0; d < depth; ++d)
        at += place_of(index[r * depth + d], extents[static_cast<size_t>(d)], wrong) * steps[static_cast<size_t>(d)];
      f(r, at);
    }
    return !wrong;
  }
  /// Keeps the wrong index of rows [first, last).
  void find_wrong(Indices& indices, int64_t first, int64_t last) const {
    for (int64_t r = first; r < last; ++r) offset(indices, r);
  }
};

inline std::optional<Refusal> rejects_slices(const BoundNode& b, int64_t batch_dims) {
  if (auto why = rejects(b)) return why;
  const Shape &s = b.inputs[0].shape, &indices = b.inputs[1].shape;
  if (indices.empty() || batch_dims < 0 || batch_dims >= static_cast<int64_t>(indices.size()) ||
      indices.back() + batch_dims > static_cast<int64_t>(s.size()))
    return refuse(Reason::wrong_shape, "indices that do not fit the data");
  if (elements(indices) == 0 && indices.back() != 0) return refuse(Reason::wrong_shape, "no indices");
  return std::nullopt;
}

template <class Make> void add(const BoundNode& b, const Machine& machine, Offer& offer, Make make) {
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine), [b, node = *b.node, make, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return make(bound, threads);
                              }});
}

}  // namespace smelt::ops
