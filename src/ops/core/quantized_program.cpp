#include "ops/core/quantized_program.h"

#include <fmt/core.h>

namespace smelt::ops {

std::vector<float> quantized_floats(const Tensor& t) {
  std::vector<float> v;
  for (double d : t.to_doubles()) v.push_back(static_cast<float>(d));
  return v;
}

std::vector<int32_t> quantized_integers(const Tensor& t) {
  std::vector<int32_t> v;
  for (int64_t i : t.to_ints()) v.push_back(static_cast<int32_t>(i));
  return v;
}

std::optional<Refusal> rejects_sums(DType a, DType b, int64_t k) {
  constexpr int64_t most = 33000;  // 255 · 255 · k stays below 2^31
  for (const DType t : {a, b})
    if (!is_byte(t)) return refuse(Reason::wrong_type, "elements of {}", name(t));
  if (k > most) return refuse(Reason::not_exact, "K = {} of 8-bit products may overflow 32 bits; at most {}", k, most);
  return std::nullopt;
}

expr::Program round_and_saturate(DType to, int32_t zero) {
  expr::Program p;
  const expr::Ref in0 = p.input(DType::f32), shift = p.constant(DType::f32, zero);
  const expr::Ref low = p.constant(DType::f32, to == DType::u8 ? 0 : -128),
                  high = p.constant(DType::f32, to == DType::u8 ? 255 : 127);
  const expr::Ref shifted = p.call(expr::Fn::add, p.call(expr::Fn::round, in0), shift);
  p.output(p.cast(p.call(expr::Fn::clip, shifted, low, high), to));
  return p;
}

}  // namespace smelt::ops
