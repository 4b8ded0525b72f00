#include <fmt/core.h>

#include <algorithm>

#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/offer.h"

namespace smelt::ops {
namespace {

std::vector<StridedWindow> split_windows(const BoundNode& b) {
  const BoundTensor& x = b.inputs[0];
  const auto axis = static_cast<size_t>(normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.shape.size())));
  const Shape from = memory_strides(x);
  std::vector<StridedWindow> windows;
  int64_t begin = 0;
  for (const BoundTensor& y : b.outputs) {
    windows.push_back({begin * from[axis], from});
    begin += y.shape[axis];
  }
  return windows;
}

/// Constant integers of input i, or nothing where it is left out.
std::optional<std::vector<int64_t>> ints(const BoundNode& b, size_t i) {
  if (i >= b.inputs.size() || b.inputs[i].type == DType::undefined) return std::nullopt;
  return b.inputs[i].constant.to_ints();
}

}  // namespace

std::vector<StridedWindow> windows_of(const BoundNode& b) {
  const BoundTensor& x = b.inputs[0];
  if (b.node->op == "Transpose") return {transpose_window(*b.node, memory_strides(x))};
  if (b.node->op == "Expand") return {{0, broadcast_strides(x, b.outputs[0].shape.size())}};
  if (b.node->op == "Split") return split_windows(b);
  return {slice_window(slice_range(x.shape, ints(b, 1).value_or(std::vector<int64_t>{}),
                                   ints(b, 2).value_or(std::vector<int64_t>{}), ints(b, 3), ints(b, 4)),
                       memory_strides(x))};
}

std::optional<Refusal> rejects_windows(const BoundNode& b, bool any_strides) {
  const Node& node = *b.node;
  const bool any_layout = any_strides || node.op == "Slice" || node.op == "Split";
  const auto lies_well = [&](const BoundTensor& y) {
    return y.type == DType::undefined || any_strides ||
           (any_layout ? is_dense(y) : y.layout == Layout::plain && y.strides.empty());
  };
  if (!(any_layout || b.inputs[0].layout == Layout::plain) || !std::ranges::all_of(b.outputs, lies_well))
    return refuse(Reason::wrong_layout, "a result that is not dense{}", any_layout ? "" : " and row-major, or an image");
  if (!StridedCopy::can_move(element_bytes(b.inputs[0].type)))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(b.inputs[0].type));
  constexpr size_t most_axes = 8;
  if (b.inputs[0].shape.size() > most_axes || b.outputs[0].shape.size() > most_axes)
    return refuse(Reason::wrong_rank, "{} axes to {}; it knows {}", b.inputs[0].shape.size(), b.outputs[0].shape.size(),
                  most_axes);
  for (const BoundTensor& y : b.outputs) {
    if (y.type == DType::undefined) return refuse(Reason::unsupported, "an output is left out");
  }
  if (node.op == "Slice") {
    if (b.inputs.size() < 3) return refuse(Reason::wrong_attribute, "starts and ends are attributes");
    for (size_t i = 1; i < b.inputs.size(); ++i) {
      if (b.inputs[i].type != DType::undefined && !b.inputs[i].constant.valid())
        return refuse(Reason::not_constant, "the range is not known before the run");
    }
    if (elements(b.outputs[0].shape) == 0) return refuse(Reason::wrong_shape, "nothing to copy");
  }
  return std::nullopt;
}

}  // namespace smelt::ops
