#include "ops/core/key.h"

#include <algorithm>

namespace smelt::ops {

Key& Key::aligned(const BoundTensor& t) {
  text_ += fmt::format(" {}@{}", print(t), std::min<int64_t>(16, t.alignment));
  return *this;
}

Key& Key::tensors(std::string_view before, const std::vector<BoundTensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) after(i == 0 ? before : ",", tensors[i]);
  return *this;
}

}  // namespace smelt::ops
