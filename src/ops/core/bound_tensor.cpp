#include <fmt/format.h>

#include "ops/core/tactic.h"

namespace smelt::ops {

std::string_view name(Layout layout) {
  switch (layout) {
    case Layout::plain: return "plain";
    case Layout::nhwc: return "nhwc";
    case Layout::nchw8c: return "nchw8c";
    case Layout::nchw16c: return "nchw16c";
  }
  return "?";
}

std::string print(const BoundTensor& t) {
  if (t.type == DType::undefined) return "-";
  std::string text = fmt::format("{}[{}]", smelt::name(t.type), fmt::join(t.shape, ","));
  if (t.layout != Layout::plain) text += fmt::format(":{}", name(t.layout));
  if (!t.strides.empty()) text += fmt::format(":strides={}", fmt::join(t.strides, "x"));
  return text;
}

int64_t channel_block(Layout layout) {
  switch (layout) {
    case Layout::nchw8c: return 8;
    case Layout::nchw16c: return 16;
    default: return 1;
  }
}

int64_t storage_bytes(const BoundTensor& t) {
  const int64_t count = elements(t.shape);
  if (count == 0) return 0;
  if (!t.strides.empty()) {
    int64_t last = 0;
    for (size_t i = 0; i < t.shape.size(); ++i) last += (t.shape[i] - 1) * t.strides[i];
    return bytes(t.type, last + 1);
  }
  const int64_t block = channel_block(t.layout);
  if (block == 1) return bytes(t.type, count);
  const int64_t channels = t.shape[1];
  return bytes(t.type, count / channels * ((channels + block - 1) / block * block));
}

}  // namespace smelt::ops
