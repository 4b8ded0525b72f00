#include <fmt/format.h>

#include "ops/core/tactic.h"

namespace smelt::ops {

std::string_view name(Layout layout) { return layout == Layout::plain ? "plain" : "nhwc"; }

std::string print(const BoundTensor& t) {
  if (t.type == DType::undefined) return "-";
  std::string text = fmt::format("{}[{}]", smelt::name(t.type), fmt::join(t.shape, ","));
  if (t.layout != Layout::plain) text += fmt::format(":{}", name(t.layout));
  if (!t.strides.empty()) text += fmt::format(":strides={}", fmt::join(t.strides, "x"));
  return text;
}

int64_t storage_bytes(const BoundTensor& t) {
  const int64_t count = elements(t.shape);
  if (count == 0) return 0;
  if (t.strides.empty()) return bytes(t.type, count);
  int64_t last = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) last += (t.shape[i] - 1) * t.strides[i];
  return bytes(t.type, last + 1);
}

}  // namespace smelt::ops
