#include "base/booleans.h"

#include <algorithm>

namespace smelt {

bool has_other_booleans(const Tensor& t) {
  if (t.type() != DType::boolean) return false;
  const auto* b = static_cast<const uint8_t*>(t.raw());
  uint8_t any = 0;
  for (int64_t i = 0; i < t.size(); ++i) any |= b[i];  // no early end: 32 bytes an instruction
  return any > 1;
}

void make_booleans_0_or_1(Tensor& t) {
  if (t.type() != DType::boolean) return;
  auto* b = static_cast<uint8_t*>(t.raw());
  std::transform(b, b + t.size(), b, [](uint8_t v) { return static_cast<uint8_t>(v != 0); });
}

}  // namespace smelt
