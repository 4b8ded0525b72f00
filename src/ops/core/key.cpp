#include "ops/core/key.h"

#include <algorithm>

namespace smelt::ops {

namespace {

constexpr int64_t widest_access = 16;  // bytes

}  // namespace

Key& Key::aligned(const BoundTensor& t) {
  text_ += fmt::format(" {}@{}", print(t), std::min(widest_access, t.alignment));
  return *this;
}

Key& Key::begins(std::string_view name, const BoundTensor& t) {
  return option(fmt::format("{}@", name), std::min(widest_access, t.alignment), widest_access);
}

}  // namespace smelt::ops
