#include "run/views.h"

#include <algorithm>
#include <numeric>

#include "ops/channels_last.h"

namespace smelt::run {
namespace {

using ops::Layout;

bool same_bytes(const BoundValue& a, const BoundValue& b) {
  return a.type == b.type && elements(a.shape) == elements(b.shape);
}

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

/// Axes from the slowest to the fastest in memory, the channel block apart.
std::vector<size_t> memory_order(Layout layout, size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (layout == Layout::nhwc) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

}  // namespace

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
      node.op == "Reshape" || node.op == "Squeeze" || node.op == "Unsqueeze" || node.op == "Flatten" || node.op == "Identity" ||
      (node.op == "Transpose" && keeps_order(x.shape, node.get_ints("perm"))) ||
      ((node.op == "Expand" || node.op == "Cast" || node.op == "Tile") && (x.shape == y.shape || node.op == "Expand")) ||
      (node.op == "Concat" && step.inputs.size() == 1);
  if (view) return std::vector<int64_t>{0};
  return node.op == "Slice" ? slice_offsets(s, step) : std::nullopt;
}

std::optional<ConcatShape> concat_shape(const Segment& s, const Step& step) {
  const BoundValue& y = s.tensor(step.outputs[0]);
  const size_t rank = y.shape.size();
  const size_t axis = static_cast<size_t>(normalize_axis(step.node->get_int("axis", 0), static_cast<int64_t>(rank)));
  const int64_t block = ops::channel_block(y.layout);
  const auto order = memory_order(y.layout, rank);
  const size_t depth = static_cast<size_t>(std::ranges::find(order, axis) - order.begin());

  ConcatShape shape;
  const auto padded = [&](const Shape& extents, size_t a) {
    return a == 1 ? (extents[a] + block - 1) / block * block : extents[a];
  };
  for (size_t i = 0; i < depth; ++i) shape.outer *= padded(y.shape, order[i]);
  // In a blocked layout the block is the innermost axis, so that an axis behind the channels sees the blocks' count outside.
  if (block > 1 && axis > 1) shape.outer /= block;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const BoundValue& x = s.tensor(step.inputs[i]);
    if (x.layout != y.layout && !ops::is_same_either_way(x.shape)) return std::nullopt;
    if (block > 1 && axis == 1 && x.shape[1] % block != 0 && i + 1 < step.inputs.size()) return std::nullopt;
    int64_t inner = block > 1 && axis > 1 ? block : 1;
    for (size_t d = depth; d < rank; ++d) inner *= padded(x.shape, order[d]);
    shape.chunks.push_back(bytes(y.type, inner));
    shape.row += shape.chunks.back();
  }
  // A slice of another tensor: its rows are as far apart as that tensor's.
  if (!y.strides.empty() && depth > 0) shape.row = bytes(y.type, y.strides[order[depth - 1]]);
  return shape;
}

Shape slice_strides(const ops::BoundTensor& whole) {
  if (!whole.strides.empty()) return whole.strides;
  if (whole.layout == Layout::plain) return strides(whole.shape);
  if (whole.layout != Layout::nhwc) return {};
  Shape physical = whole.shape;
  std::rotate(physical.begin() + 1, physical.begin() + 2, physical.end());
  Shape steps = strides(physical);
  std::rotate(steps.begin() + 1, steps.end() - 1, steps.end());
  return steps;
}

}  // namespace smelt::run
