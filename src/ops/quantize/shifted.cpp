#include "ops/quantize/shifted.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/broadcast_operand.h"

namespace smelt::ops {

std::vector<int32_t> shifted(const Tensor& x, const Tensor& zero_point, size_t trailing) {
  const Tensor wide = x.type() == DType::i32 ? x : x.cast(DType::i32);
  std::vector<int32_t> v(wide.data<int32_t>(), wide.data<int32_t>() + wide.size());
  if (!zero_point.valid()) return v;
  const Tensor zero = zero_point.cast(DType::i32);
  const BroadcastOperand<int32_t> at(zero, x.shape(), zero.size() == 1 ? Shape{} : along(zero.shape(), trailing));
  for (size_t i = 0; i < v.size(); ++i)  // as kernels do: modulo 2^32
    v[i] = static_cast<int32_t>(static_cast<uint32_t>(v[i]) - static_cast<uint32_t>(at.at(static_cast<int64_t>(i), 0)));
  return v;
}

IntRange int_range(DType t) {
  if (!is_integer(t) || bits(t) > 32) fail("{} is no quantized integer type", name(t));
  const int n = bits(t);
  return is_signed(t) ? IntRange{-(int64_t{1} << (n - 1)), (int64_t{1} << (n - 1)) - 1} : IntRange{0, (int64_t{1} << n) - 1};
}

int32_t saturate(float q, int32_t zero_point, const IntRange& range) {
  if (std::isnan(q)) return 0;
  const double v = std::nearbyint(static_cast<double>(q)) + zero_point;
  const double within = std::clamp(v, static_cast<double>(range.low), static_cast<double>(range.high));
  return static_cast<int32_t>(static_cast<int64_t>(within));  // of u32 the bits
}

uint8_t dynamic_zero_point(float low, float scale) { return static_cast<uint8_t>(saturate(-low / scale, 0, {0, 255})); }

float scalar_float(const Tensor& t, const char* what) {
  if (!t.valid() || t.size() != 1) fail("{} has shape {}, expected one element", what, t.valid() ? to_string(t.shape()) : "none");
  return static_cast<float>(t.to_doubles()[0]);
}

}  // namespace smelt::ops
