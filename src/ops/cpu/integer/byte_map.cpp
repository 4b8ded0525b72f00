#include "ops/cpu/integer/byte_map.h"

#include <cmath>
#include <numeric>

#include "expr/simd/look_up.h"

namespace smelt::ops::integer {
namespace {

float beside(float x, int steps) {
  for (; steps > 0; --steps) x = std::nextafter(x, INFINITY);
  for (; steps < 0; ++steps) x = std::nextafter(x, 0.0f);
  return x;
}

}  // namespace

ByteMap::ByteMap(const DequantizeStep& from, bool from_signed, const Requantization& to) {
  std::array<uint8_t, 256> all, found;
  std::iota(all.begin(), all.end(), uint8_t{0});
  float values[256];
  for (size_t i = 0; i < all.size(); ++i) {
    const int32_t q = from_signed ? static_cast<int8_t>(all[i]) : all[i];
    values[i] = static_cast<float>(q - from.zero) * from.scale;
  }
  avx2::integer_rows().quantize(to, values, 256, table_.data());
  is_same_ = table_ == all;
  if (avx2::best_look_up() != avx2::look_up) return;
  constexpr float most = 1 << 20;  // of 2^30, over differences of bytes
  const float by = from.scale / to.divisor;
  if (!(std::abs(by) < most) || std::abs(from.zero) > 255 || std::abs(to.zero) > 255) return;
  line_ = {by, from.zero, to.zero, from_signed, to.zero + static_cast<int32_t>(to.low) < 0};
  for (const int steps : {0, 1, -1, 2, -2}) {  // neighbours round other products next to halves
    line_.by = beside(by, steps);
    avx2::along(line_, found.data(), all.data(), 256);
    has_line_ = found == table_;
    if (has_line_) return;
  }
}

void ByteMap::run(uint8_t* to, const uint8_t* from, int64_t n) const {
  if (has_line_) return avx2::along(line_, to, from, n);
  avx2::best_look_up()(to, from, n, table_.data());
}

}  // namespace smelt::ops::integer
