#include "ops/core/strides.h"

#include <algorithm>

#include "ops/core/channels_last.h"

namespace smelt::ops {

Shape memory_strides(const BoundTensor& t) {
  if (!t.strides.empty()) return t.strides;
  if (t.layout == Layout::plain) return strides(t.shape);
  return channels_last_strides(t.shape);
}

Shape broadcast_strides(const BoundTensor& t, size_t rank) {
  const Shape own = memory_strides(t);
  Shape s(rank, 0);
  const size_t shift = rank - own.size();
  for (size_t i = 0; i < own.size(); ++i) s[i + shift] = t.shape[i] == 1 ? 0 : own[i];
  return s;
}

Views merged(const Shape& shape, const std::vector<Shape>& strides, size_t leader) {
  std::vector<size_t> order;
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] != 1) order.push_back(a);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[leader][a] > strides[leader][b]; });
  Views v;
  v.strides.resize(strides.size());
  for (size_t a : order) {
    bool merges = !v.extents.empty();
    for (size_t k = 0; k < strides.size() && merges; ++k) merges = v.strides[k].back() == strides[k][a] * shape[a];
    if (merges)
      v.extents.back() *= shape[a];
    else
      v.extents.push_back(shape[a]);
    for (size_t k = 0; k < strides.size(); ++k) {
      if (merges)
        v.strides[k].back() = strides[k][a];
      else
        v.strides[k].push_back(strides[k][a]);
    }
  }
  if (v.extents.empty()) {
    v.extents.push_back(1);
    for (Shape& s : v.strides) s.push_back(0);
  }
  return v;
}

bool all_plain(const BoundNode& b) {
  const auto plain = [](const BoundTensor& t) { return t.layout == Layout::plain && t.strides.empty(); };
  return std::ranges::all_of(b.inputs, plain) && std::ranges::all_of(b.outputs, plain);
}

std::optional<Refusal> rejects_layouts(const BoundNode& b) {
  const auto row_major = [](const BoundTensor& t) { return t.layout == Layout::plain && is_dense(t); };
  if (std::ranges::all_of(b.inputs, row_major) && std::ranges::all_of(b.outputs, row_major)) return std::nullopt;
  return refuse(Reason::wrong_layout, "tensors that are not dense and row-major");
}

Shape without(Shape s, size_t axis) {
  s.erase(s.begin() + static_cast<int64_t>(axis));
  return s;
}

bool varies_along_only(const BoundTensor& operand, const Shape& shape, size_t axis) {
  const size_t shift = shape.size() - operand.shape.size();
  for (size_t a = 0; a < operand.shape.size(); ++a)
    if (a + shift != axis && operand.shape[a] != 1) return false;
  return true;
}

bool is_dense(const BoundTensor& t) {
  if (t.strides.empty()) return true;
  BoundTensor dense = t;
  dense.strides.clear();
  const Shape want = memory_strides(dense);
  for (size_t i = 0; i < want.size(); ++i) {
    if (t.shape[i] != 1 && t.strides[i] != want[i]) return false;
  }
  return true;
}

}  // namespace smelt::ops
