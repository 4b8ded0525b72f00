#include "ops/conv/one_axis.h"

#include <algorithm>

namespace smelt::ops::conv {
namespace {

constexpr size_t rank_of_lines = 3;

/// A row's extent before the last axis. Operands of the program have fewer axes, and broadcast from the last.
BoundTensor with_row(BoundTensor t) {
  if (t.type == DType::undefined || t.shape.size() < 2) return t;
  const auto row = [](Shape& s, int64_t value) { s.insert(s.end() - 1, value); };
  if (!t.strides.empty()) row(t.strides, t.strides.back() * t.shape.back());
  row(t.shape, 1);
  if (t.constant.valid()) t.constant = t.constant.reshaped(t.shape);
  return t;
}

/// Lists of a value an axis, and of a begin and an end an axis.
void add_row(Node& node, const char* attribute, int64_t value, bool in_pairs = false) {
  if (!node.has(attribute)) return;
  std::vector<int64_t> list = node.get_ints(attribute);
  if (in_pairs && list.size() == 2) list.insert(list.begin() + 1, value);
  list.insert(list.begin(), value);
  node.attrs[attribute] = std::move(list);
}

}  // namespace

std::optional<ImageForm> as_images(const BoundNode& node) {
  if (node.outputs.empty() || node.outputs[0].shape.size() != rank_of_lines) return std::nullopt;
  const auto is_one = [](int64_t factor) { return factor == 1; };
  if (!std::ranges::all_of(node.node->get_ints("upsample"), is_one)) return std::nullopt;
  auto own = std::make_shared<Node>(*node.node);
  add_row(*own, "kernel_shape", 1);
  add_row(*own, "strides", 1);
  add_row(*own, "dilations", 1);
  add_row(*own, "pads", 0, true);
  add_row(*own, "output_padding", 0);
  add_row(*own, "output_shape", 1);
  ImageForm form{own, node};
  form.node.node = own.get();
  for (auto* tensors : {&form.node.inputs, &form.node.outputs}) std::ranges::transform(*tensors, tensors->begin(), with_row);
  return form;
}

}  // namespace smelt::ops::conv
