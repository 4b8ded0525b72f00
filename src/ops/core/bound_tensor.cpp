#include "ops/core/tactic.h"

namespace smelt::ops {

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
