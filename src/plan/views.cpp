#include "plan/views.h"

#include <algorithm>
#include <numeric>

#include "ops/core/channels_last.h"
#include "ops/core/facts.h"
#include "ops/movement/windows.h"

namespace smelt::plan {
namespace {

using ops::Layout;

bool same_bytes(const BoundValue& a, const BoundValue& b) { return a.type == b.type && elements(a.shape) == elements(b.shape); }

/// True when the axes longer than 1 keep their order.
bool keeps_order(const Shape& shape, std::vector<int64_t> perm) {
  if (perm.empty()) {
    for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) perm.push_back(i);
  }
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

/// The axis along which a part of `whole` with the extents `part` is contiguous, if it is: all axes before have extent 1.
/// -1 when the shapes are equal.
std::optional<int64_t> contiguous_axis(const Shape& whole, const Shape& part) {
  int64_t axis = -1;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == part[i]) continue;
    if (axis >= 0) return std::nullopt;
    axis = static_cast<int64_t>(i);
  }
  for (int64_t i = 0; i < axis; ++i) {
    if (whole[static_cast<size_t>(i)] != 1) return std::nullopt;
  }
  return axis;
}

int64_t inner_elements(const Shape& shape, int64_t axis) {
  return std::accumulate(shape.begin() + axis + 1, shape.end(), int64_t{1}, std::multiplies<>());
}

/// Opset 10 and later: starts, ends, axes and steps are inputs.
std::optional<std::vector<int64_t>> slice_offsets(const Segment& s, const Step& step) {
  const BoundValue& x = s.tensor(step.inputs[0]);
  const BoundValue& y = s.tensor(step.outputs[0]);
  if (step.inputs.size() < 3 || bits(x.type) % 8 != 0) return std::nullopt;
  const auto axis = contiguous_axis(x.shape, y.shape);
  const auto input = [&](size_t i) {
    return i < step.inputs.size() && step.inputs[i] != absent ? &s.tensor(step.inputs[i]).constant : nullptr;
  };
  const Tensor* starts = input(1);
  const Tensor* axes = input(3);
  const Tensor* steps = input(4);
  if (!axis || !starts || !starts->valid() || (axes && !axes->valid()) || (steps && !steps->valid())) return std::nullopt;
  if (steps && std::ranges::any_of(steps->to_ints(), [](int64_t n) { return n != 1; })) return std::nullopt;
  if (*axis < 0) return std::vector<int64_t>{0};
  const std::vector<int64_t> first = starts->to_ints();
  int64_t start = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const int64_t a = axes ? normalize_axis(axes->to_ints()[i], static_cast<int64_t>(x.shape.size())) : static_cast<int64_t>(i);
    if (a != *axis) continue;
    const int64_t extent = x.shape[static_cast<size_t>(a)];
    start = std::clamp(first[i] < 0 ? first[i] + extent : first[i], int64_t{0}, extent);
  }
  return std::vector<int64_t>{bytes(x.type, start * inner_elements(x.shape, *axis))};
}

std::optional<std::vector<int64_t>> split_offsets(const Segment& s, const Step& step) {
  const BoundValue& x = s.tensor(step.inputs[0]);
  if (bits(x.type) % 8 != 0) return std::nullopt;
  std::vector<int64_t> offsets;
  int64_t at = 0;
  for (TensorIndex t : step.outputs) {
    if (t == absent) return std::nullopt;
    if (!contiguous_axis(x.shape, s.tensor(t).shape)) return std::nullopt;
    offsets.push_back(at);
    at += bytes(x.type, elements(s.tensor(t).shape));
  }
  return offsets;
}

/// Axes from the slowest to the fastest in memory.
std::vector<size_t> memory_order(Layout layout, size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (layout == Layout::nhwc) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

/// Reshape and its like: the elements in their order, under other extents.
bool is_reshape(const Node& node) { return ops::facts(node).elements == ops::Elements::in_order; }

std::vector<int64_t> permutation(const Node& node, size_t rank) {
  std::vector<int64_t> perm = node.get_ints("perm");
  if (perm.empty())
    for (size_t a = rank; a > 0; --a) perm.push_back(static_cast<int64_t>(a) - 1);
  for (int64_t& a : perm) a = normalize_axis(a, static_cast<int64_t>(rank));
  return perm;
}

std::optional<std::vector<int64_t>> known_ints(const Segment& s, const Step& step, size_t i) {
  if (i >= step.inputs.size() || step.inputs[i] == absent || !s.tensor(step.inputs[i]).constant.valid()) return std::nullopt;
  return s.tensor(step.inputs[i]).constant.to_ints();
}

/// Opset 10 and later, steps of at least 1.
std::optional<View> slice_view(const Segment& s, const Step& step, const Shape& from) {
  for (size_t i = 1; i < step.inputs.size(); ++i)
    if (step.inputs[i] != absent && !known_ints(s, step, i)) return std::nullopt;
  const auto starts = known_ints(s, step, 1), ends = known_ints(s, step, 2);
  if (!starts || !ends) return std::nullopt;
  const std::vector<int64_t> steps = known_ints(s, step, 4).value_or(std::vector<int64_t>(starts->size(), 1));
  const ops::SliceRange range = ops::slice_range(s.tensor(step.inputs[0]).shape, *starts, *ends, known_ints(s, step, 3), steps);
  View v;
  for (size_t a = 0; a < from.size(); ++a) {
    if (range.step[a] < 1) return std::nullopt;
    v.strides.push_back(range.extent[a] > 1 ? from[a] * range.step[a] : from[a]);  // a huge step may overflow, and is not taken
    v.offset += from[a] * range.start[a];
  }
  return v;
}

/// Of a single constant index.
std::optional<View> gather_view(const Segment& s, const Step& step, const Shape& from) {
  const Shape& x = s.tensor(step.inputs[0]).shape;
  const auto index = known_ints(s, step, 1);
  if (!index || index->size() != 1) return std::nullopt;
  const auto axis = static_cast<size_t>(normalize_axis(step.node->get_int("axis", 0), static_cast<int64_t>(x.size())));
  const int64_t at = index->front() < 0 ? index->front() + x[axis] : index->front();
  if (at < 0 || at >= x[axis]) return std::nullopt;  // the kernel tells
  View v{from, at * from[axis]};
  const Shape ones(s.tensor(step.inputs[1]).shape.size(), from[axis]);
  v.strides.erase(v.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  v.strides.insert(v.strides.begin() + static_cast<std::ptrdiff_t>(axis), ones.begin(), ones.end());
  return v;
}

std::vector<View> split_views(const Segment& s, const Step& step, const Shape& from) {
  const size_t rank = from.size();
  const auto axis = static_cast<size_t>(normalize_axis(step.node->get_int("axis", 0), static_cast<int64_t>(rank)));
  std::vector<View> views;
  int64_t at = 0;
  for (TensorIndex t : step.outputs) {
    views.push_back({from, at * from[axis]});
    at += s.tensor(t).shape[axis];
  }
  return views;
}

}  // namespace

std::optional<Shape> reshaped_strides(const Shape& shape, const Shape& strides, const Shape& to) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] != 1) axes.push_back(a);
  Shape result(to.size(), 1);
  size_t next = 0, made = 0;
  while (next < axes.size()) {
    // As many axes on either side as hold the same number of elements.
    size_t end = next + 1, made_end = made;
    int64_t before = shape[axes[next]], after = 1;
    while (before != after || made_end == made) {
      if (after < before || made_end == made) {
        if (made_end == to.size()) return std::nullopt;
        after *= to[made_end++];
      } else {
        if (end == axes.size()) return std::nullopt;
        before *= shape[axes[end++]];
      }
    }
    for (size_t i = next; i + 1 < end; ++i)
      if (strides[axes[i]] != strides[axes[i + 1]] * shape[axes[i + 1]]) return std::nullopt;
    int64_t step = strides[axes[end - 1]];
    for (size_t a = made_end; a-- > made; step *= to[a]) result[a] = step;
    next = end, made = made_end;
  }
  return result;
}

std::optional<std::vector<View>> strided_views(const Segment& s, const Step& step, const Shape& from) {
  const Node& node = *step.node;
  const bool reorder = step.node->is("Reorder", smelt_domain);
  if ((!node.domain.empty() && !reorder) || step.inputs.empty() || step.inputs[0] == absent) return std::nullopt;
  if (std::ranges::find(step.outputs, absent) != step.outputs.end()) return std::nullopt;
  const BoundValue& x = s.tensor(step.inputs[0]);
  if (elements(x.shape) == 0 || bits(x.type) % 8 != 0) return std::nullopt;
  if (reorder) return std::vector{View{from, 0}};
  if (node.op == "Split") return split_views(s, step, from);
  if (step.outputs.size() != 1 || elements(s.tensor(step.outputs[0]).shape) == 0) return std::nullopt;
  const auto one = [](std::optional<View> v) { return v ? std::optional(std::vector{std::move(*v)}) : std::nullopt; };
  if (node.op == "Slice") return one(slice_view(s, step, from));
  if (node.op == "Gather") return one(gather_view(s, step, from));
  if (node.op == "Transpose") {
    View v;
    for (int64_t a : permutation(node, from.size())) v.strides.push_back(from[static_cast<size_t>(a)]);
    return std::vector{std::move(v)};
  }
  if (!is_reshape(node)) return std::nullopt;
  const auto strides = reshaped_strides(x.shape, from, s.tensor(step.outputs[0]).shape);
  return strides ? std::optional(std::vector{View{*strides, 0}}) : std::nullopt;
}

std::optional<Shape> strides_before(const Segment& s, const Step& step, const Shape& to) {
  const Node& node = *step.node;
  if (step.node->is("Reorder", smelt_domain)) return to;
  if (!node.domain.empty() || step.inputs.empty() || step.inputs[0] == absent || step.outputs.size() != 1) return std::nullopt;
  const Shape &x = s.tensor(step.inputs[0]).shape, &y = s.tensor(step.outputs[0]).shape;
  if (elements(x) == 0) return std::nullopt;
  if (is_reshape(node)) return reshaped_strides(y, to, x);
  if (node.op != "Transpose") return std::nullopt;
  Shape strides(x.size());
  const std::vector<int64_t> perm = permutation(node, x.size());
  for (size_t a = 0; a < perm.size(); ++a) strides[static_cast<size_t>(perm[a])] = to[a];
  return strides;
}

std::optional<std::vector<int64_t>> view_offsets(const Segment& s, const Step& step) {
  const Node& node = *step.node;
  if (!node.domain.empty() || step.inputs.empty() || step.inputs[0] == absent || step.outputs.empty() ||
      step.outputs[0] == absent) {
    return std::nullopt;
  }
  const BoundValue& x = s.tensor(step.inputs[0]);
  const BoundValue& y = s.tensor(step.outputs[0]);
  if (node.op == "Split") return split_offsets(s, step);
  if (step.outputs.size() > 1 || !same_bytes(x, y)) return node.op == "Slice" ? slice_offsets(s, step) : std::nullopt;
  const bool view =
      is_reshape(node) || (node.op == "Transpose" && keeps_order(x.shape, node.get_ints("perm"))) ||
      ((node.op == "Expand" || node.op == "Cast" || node.op == "Tile") && (x.shape == y.shape || node.op == "Expand")) ||
      (node.op == "Concat" && step.inputs.size() == 1);
  if (view) return std::vector<int64_t>{0};
  return node.op == "Slice" ? slice_offsets(s, step) : std::nullopt;
}

std::optional<ConcatShape> concat_shape(const Segment& s, const Step& step) {
  const BoundValue& y = s.tensor(step.outputs[0]);
  const size_t rank = y.shape.size();
  const size_t axis = static_cast<size_t>(normalize_axis(step.node->get_int("axis", 0), static_cast<int64_t>(rank)));
  const auto order = memory_order(y.layout, rank);
  const size_t depth = static_cast<size_t>(std::ranges::find(order, axis) - order.begin());

  ConcatShape shape;
  for (size_t i = 0; i < depth; ++i) shape.outer *= y.shape[order[i]];
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const BoundValue& x = s.tensor(step.inputs[i]);
    if (x.layout != y.layout && !ops::is_same_either_way(x.shape)) return std::nullopt;
    int64_t inner = 1;
    for (size_t d = depth; d < rank; ++d) inner *= x.shape[order[d]];
    shape.chunks.push_back(bytes(y.type, inner));
    shape.row += shape.chunks.back();
  }
  // A slice of another tensor: its rows are as far apart as that tensor's.
  if (!y.strides.empty() && depth > 0) shape.row = bytes(y.type, y.strides[order[depth - 1]]);
  return shape;
}

}  // namespace smelt::plan
