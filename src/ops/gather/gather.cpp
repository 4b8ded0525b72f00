// Gather, GatherElements, GatherND and the Scatter family.
#include <algorithm>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/gather/family.h"

namespace smelt::ops {
namespace {

/// A negative index counts from the end.
int64_t checked_index(int64_t i, int64_t extent) {
  if (i < -extent || i >= extent) fail("index {} is outside [{}, {})", i, -extent, extent);
  return i < 0 ? i + extent : i;
}

// --- Gather -------------------------------------------------------------------------------------------------------

void infer_gather(InferContext& c) {
  const DType type = type_of(c, 0);
  type_of(c, 1);
  if (!c.in(0).shape_known || !c.in(1).shape_known) return c.set_type(0, type);
  const Shape &s = c.shape(0), &indices = c.shape(1);
  const int64_t axis = normalize_axis(c.node.get_int("axis", 0), static_cast<int64_t>(s.size()));
  Shape result(s.begin(), s.begin() + axis);
  result.insert(result.end(), indices.begin(), indices.end());
  result.insert(result.end(), s.begin() + axis + 1, s.end());
  c.set(0, type, std::move(result));
}

void run_gather(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const AxisView v = around_axis(x.shape(), normalize_axis(c.node.get_int("axis", 0), x.rank()));
  std::vector<int64_t> indices = c.in(1).to_ints();
  for (int64_t& i : indices) i = checked_index(i, v.extent);
  copy_slices(x, v, indices, c.outputs[0]);
}

// --- GatherElements, ScatterElements ------------------------------------------------------------------------------

/// Throws Error for indices whose own positions, on other axes than `axis`, lie outside of the data.
void check_positions(const Shape& indices, const Shape& data, int64_t axis) {
  if (indices.size() != data.size())
    fail("indices have shape {}, data {}: expected one rank", to_string(indices), to_string(data));
  for (size_t a = 0; a < data.size(); ++a) {
    if (static_cast<int64_t>(a) != axis && indices[a] > data[a])
      fail("indices of shape {} exceed the data's {}", to_string(indices), to_string(data));
  }
}

/// Calls f(position in indices, offset in a tensor of shape `s`) for every index: along `axis` the index value, elsewhere
/// its own position.
template <class F> void for_each_indexed(const Tensor& indices, const Shape& s, int64_t axis, F&& f) {
  const Shape& extents = indices.shape();
  const std::vector<int64_t> values = indices.to_ints();
  Shape elsewhere = strides(s);
  const int64_t step = elsewhere[static_cast<size_t>(axis)];
  elsewhere[static_cast<size_t>(axis)] = 0;
  const LoopNest nest(extents, {elsewhere});
  int64_t position = 0;
  nest.for_each_run([&](std::span<const int64_t> at) {
    for (int64_t i = 0; i < nest.run(); ++i, ++position) {
      const int64_t index = checked_index(values[static_cast<size_t>(position)], s[static_cast<size_t>(axis)]);
      f(position, at[0] + i * nest.stride(0) + index * step);
    }
  });
}

void infer_gather_elements(InferContext& c) {
  const DType type = type_of(c, 0);
  type_of(c, 1);
  if (c.in(0).shape_known) {
    const auto rank = static_cast<int64_t>(c.shape(0).size());
    const int64_t axis = normalize_axis(c.node.get_int("axis", 0), rank);
    if (c.in(1).shape_known) check_positions(c.shape(1), c.shape(0), axis);
  }
  if (c.in(1).shape_known)
    c.set(0, type, c.shape(1));
  else
    c.set_type(0, type);
}

void run_gather_elements(ComputeContext& c) {
  const Tensor& x = c.in(0);
  ElementCopier copier(x, c.outputs[0]);
  for_each_indexed(c.in(1), x.shape(), normalize_axis(c.node.get_int("axis", 0), x.rank()),
                   [&](int64_t position, int64_t offset) { copier.copy(offset, position); });
  copier.finish();
}

/// Copies the data to the output and applies updates: visit(put) calls put(from offset in updates, to offset, count).
template <class Visit> void scatter(ComputeContext& c, const Tensor& updates, Visit&& visit) {
  Tensor& y = c.outputs[0];
  copy_all(c.in(0), y);
  const std::string reduction = c.node.get_string("reduction", "none");
  if (reduction == "none") {
    ElementCopier copier(updates, y);
    visit([&](int64_t from, int64_t to, int64_t count) { copier.copy(from, to, count); });
    return copier.finish();
  }
  dispatch_compute(y.type(), "Scatter with a reduction", [&]<class C>(C) {
    std::vector<C> total(static_cast<size_t>(y.size())), values(static_cast<size_t>(updates.size()));
    load(y, 0, 1, y.size(), total.data());
    load(updates, 0, 1, updates.size(), values.data());
    const auto apply = [&](auto&& combine) {
      visit([&](int64_t from, int64_t to, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          C& t = total[static_cast<size_t>(to + i)];
          t = combine(t, values[static_cast<size_t>(from + i)]);
        }
      });
    };
    using Bits = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;  // integers wrap
    if (reduction == "add")
      apply([](C a, C b) { return static_cast<C>(static_cast<Bits>(a) + static_cast<Bits>(b)); });
    else if (reduction == "mul")
      apply([](C a, C b) { return static_cast<C>(static_cast<Bits>(a) * static_cast<Bits>(b)); });
    else if (reduction == "max")
      apply([](C a, C b) { return a < b || b != b ? b : a; });
    else if (reduction == "min")
      apply([](C a, C b) { return b < a || b != b ? b : a; });
    else
      fail("reduction is '{}', expected 'none', 'add', 'mul', 'max' or 'min'", reduction);
    store(y, 0, y.size(), total.data());
  });
}

void infer_scatter_elements(InferContext& c) {
  same_as(c, 0, 0);
  const Shape &data = c.shape(0), &indices = c.shape(1), &updates = c.shape(2);
  if (type_of(c, 2) != type_of(c, 0))
    fail("data and updates have the types {} and {}, expected one type", name(c.in(0).type), name(c.in(2).type));
  const int64_t axis = normalize_axis(c.node.get_int("axis", 0), static_cast<int64_t>(data.size()));
  if (indices != updates) fail("indices have shape {}, updates {}", to_string(indices), to_string(updates));
  check_positions(indices, data, axis);
}

void run_scatter_elements(ComputeContext& c) {
  const Tensor &indices = c.in(1), &updates = c.in(2);
  const int64_t axis = normalize_axis(c.node.get_int("axis", 0), c.in(0).rank());
  scatter(c, updates, [&](auto&& put) {
    for_each_indexed(indices, c.in(0).shape(), axis, [&](int64_t position, int64_t offset) { put(position, offset, 1); });
  });
}

// --- GatherND, ScatterND ------------------------------------------------------------------------------------------

/// Indices [batch…, rows…, depth] into data [batch…, indexed (depth axes)…, slice…].
struct NdIndices {
  int64_t batches = 1, rows = 1, depth = 0, slice = 1, batch_size = 1;
  Shape steps;  // element stride of each indexed axis
  Shape extents;

  NdIndices(const Shape& data, const Shape& indices, size_t batch_dims) {
    if (indices.empty()) fail("indices are a scalar, expected rank 1 or more");
    depth = indices.back();
    if (batch_dims >= indices.size() || static_cast<size_t>(depth) + batch_dims > data.size()) {
      fail("indices of shape {} with {} batch axes do not fit data of shape {}", to_string(indices), batch_dims, to_string(data));
    }
    const Shape all = strides(data);
    for (size_t a = 0; a < batch_dims; ++a) {
      if (indices[a] != data[a]) fail("batch axis {} has extent {} in indices and {} in data", a, indices[a], data[a]);
      batches *= data[a];
    }
    for (size_t a = batch_dims; a + 1 < indices.size(); ++a) rows *= indices[a];
    for (size_t a = batch_dims; a < data.size(); ++a) {
      batch_size *= data[a];
      if (a < batch_dims + static_cast<size_t>(depth)) {
        steps.push_back(all[a]);
        extents.push_back(data[a]);
      } else {
        slice *= data[a];
      }
    }
  }

  /// Calls f(row, offset of its slice in the data).
  template <class F> void for_each(const std::vector<int64_t>& values, F&& f) const {
    for (int64_t r = 0; r < batches * rows; ++r) {
      int64_t offset = r / rows * batch_size;
      for (int64_t d = 0; d < depth; ++d) {
        offset += checked_index(values[static_cast<size_t>(r * depth + d)], extents[static_cast<size_t>(d)]) *
                  steps[static_cast<size_t>(d)];
      }
      f(r, offset);
    }
  }
};

void infer_gather_nd(InferContext& c) {
  const DType type = type_of(c, 0);
  type_of(c, 1);
  if (!c.in(0).shape_known || !c.in(1).shape_known) return c.set_type(0, type);
  const size_t batch_dims = static_cast<size_t>(c.node.get_int("batch_dims", 0));
  const Shape &s = c.shape(0), &indices = c.shape(1);
  const NdIndices nd(s, indices, batch_dims);
  Shape result(indices.begin(), indices.end() - 1);
  result.insert(result.end(), s.begin() + static_cast<int64_t>(batch_dims) + nd.depth, s.end());
  c.set(0, type, std::move(result));
}

void run_gather_nd(ComputeContext& c) {
  const NdIndices nd(c.in(0).shape(), c.in(1).shape(), static_cast<size_t>(c.node.get_int("batch_dims", 0)));
  ElementCopier copier(c.in(0), c.outputs[0]);
  nd.for_each(c.in(1).to_ints(), [&](int64_t row, int64_t offset) { copier.copy(offset, row * nd.slice, nd.slice); });
  copier.finish();
}

void infer_scatter_nd(InferContext& c) {
  same_as(c, 0, 0);
  const Shape& updates = c.shape(2);
  if (type_of(c, 2) != type_of(c, 0))
    fail("data and updates have the types {} and {}, expected one type", name(c.in(0).type), name(c.in(2).type));
  const NdIndices nd(c.shape(0), c.shape(1), 0);
  if (elements(updates) != nd.rows * nd.slice)
    fail("updates have shape {}, expected {} slices of {}", to_string(updates), nd.rows, nd.slice);
}

void run_scatter_nd(ComputeContext& c) {
  const Tensor &indices = c.in(1), &updates = c.in(2);
  const NdIndices nd(c.in(0).shape(), indices.shape(), 0);
  const std::vector<int64_t> values = indices.to_ints();
  scatter(c, updates,
          [&](auto&& put) { nd.for_each(values, [&](int64_t row, int64_t offset) { put(row * nd.slice, offset, nd.slice); }); });
}

// --- TensorScatter ------------------------------------------------------------------------------------------------

/// A cache's update: along `axis`, sample b of the batch (axis 0) writes from write_indices[b] on.
void infer_tensor_scatter(InferContext& c) {
  same_as(c, 0, 0);
  const Shape &past = c.shape(0), &update = c.shape(1);
  if (type_of(c, 1) != type_of(c, 0))
    fail("the cache and the update have the types {} and {}, expected one type", name(c.in(0).type), name(c.in(1).type));
  const std::string mode = c.node.get_string("mode", "linear");
  if (mode != "linear" && mode != "circular") fail("mode is '{}', expected 'linear' or 'circular'", mode);
  const auto axis = static_cast<size_t>(normalize_axis(c.node.get_int("axis", -2), static_cast<int64_t>(past.size())));
  if (axis == 0) fail("axis is 0, which is the batch");
  Shape expected = past;
  if (update.size() == past.size()) expected[axis] = update[axis];
  if (update != expected)
    fail("the update has shape {}, the cache {}: they may differ on axis {} only", to_string(update), to_string(past), axis);
  if (update[axis] > past[axis]) fail("an update of {} places, the cache has {}", update[axis], past[axis]);
  if (c.has(2) && elements(c.shape(2)) != past[0]) fail("{} write indices for a batch of {}", elements(c.shape(2)), past[0]);
}

void run_tensor_scatter(ComputeContext& c) {
  const Tensor &past = c.in(0), &update = c.in(1);
  const std::string mode = c.node.get_string("mode", "linear");
  const int64_t axis = normalize_axis(c.node.get_int("axis", -2), past.rank());
  const AxisView v = around_axis(past.shape(), axis);
  const int64_t length = update.shape()[static_cast<size_t>(axis)], batch = past.shape()[0];
  const std::vector<int64_t> begin = c.has(2) ? c.in(2).to_ints() : std::vector<int64_t>(static_cast<size_t>(batch), 0);
  copy_all(past, c.outputs[0]);
  ElementCopier copier(update, c.outputs[0]);
  for (int64_t o = 0; o < v.outer; ++o) {
    int64_t first = begin[static_cast<size_t>(o / (v.outer / batch))];
    if (mode == "circular" && length > 0)
      first = (first % v.extent + v.extent) % v.extent;
    else if (first < 0 || first > v.extent - length)
      fail("{} places from write index {} on are outside the cache's {}", length, first, v.extent);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = first + i < v.extent ? first + i : first + i - v.extent;
      copier.copy((o * length + i) * v.inner, (o * v.extent + at) * v.inner, v.inner);
    }
  }
  copier.finish();
}

}  // namespace

std::span<const OpRow> gather_ops() {
  static constexpr OpRow table[] = {
      {{"Gather", onnx_domain, infer_gather, run_gather}, {.elements = Elements::moved, .reads_part = true}},
      {{"GatherElements", onnx_domain, infer_gather_elements, run_gather_elements},
       {.elements = Elements::moved, .reads_part = true}},
      {{"GatherND", onnx_domain, infer_gather_nd, run_gather_nd}, {.elements = Elements::moved, .reads_part = true}},
      {{"Scatter", onnx_domain, infer_scatter_elements, run_scatter_elements}, {.shape = OutShape::input}},
      {{"ScatterElements", onnx_domain, infer_scatter_elements, run_scatter_elements}, {.shape = OutShape::input}},
      {{"ScatterND", onnx_domain, infer_scatter_nd, run_scatter_nd}, {.shape = OutShape::input}},
      {{"TensorScatter", onnx_domain, infer_tensor_scatter, run_tensor_scatter}, {.shape = OutShape::input}},
  };
  return table;
}

}  // namespace smelt::ops
