#include "ops/cpu/integer/program.h"

#include <cmath>

#include "base/number.h"
#include "expr/quantized.h"

namespace smelt::ops::integer {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

std::optional<double> constant(const Program& p, Ref r) {
  const Instruction& i = at(p, r);
  if (i.fn != Fn::constant) return std::nullopt;
  return i.value;
}

}  // namespace

std::optional<QuantizeStep> as_quantize_step(const Program& p, Ref r) {
  const auto parts = expr::quantize_parts(p, r);
  if (!parts || parts->zero < 0 || !is_byte(p.type(r))) return std::nullopt;
  const auto low = constant(p, parts->low), high = constant(p, parts->high), zero = constant(p, parts->zero);
  const double smallest = p.type(r) == DType::u8 ? 0 : -128;
  if (!low || !high || !zero || *low < smallest || *high > smallest + 255 || *low > *high) return std::nullopt;
  for (double whole : {*low, *high, *zero})
    if (whole != truncated<int>(whole)) return std::nullopt;
  QuantizeStep q;
  q.zero = static_cast<int32_t>(*zero);
  q.low = static_cast<float>(*low - *zero);
  q.high = static_cast<float>(*high - *zero);
  q.x = parts->x;
  if (parts->scale < 0) return q;
  const auto scale = constant(p, parts->scale);
  if (!scale) {
    q.x = parts->inside.back();  // the quotient
    return q;
  }
  q.divisor = static_cast<float>(*scale);
  // Neither it nor its inverse overflows or is denormal.
  return q.divisor > 1e-30f && q.divisor < 1e30f ? std::optional(q) : std::nullopt;
}

std::optional<DequantizeStep> as_dequantize_step(const Program& p, Ref r) {
  const auto parts = expr::dequantize_parts(p, r);
  if (!parts || !is_byte(p.type(parts->q))) return std::nullopt;
  const auto scale = constant(p, parts->scale), zero = parts->zero < 0 ? std::optional(0.0) : constant(p, parts->zero);
  if (!scale || !zero || *zero != truncated<int32_t>(*zero)) return std::nullopt;
  return DequantizeStep{parts->q, static_cast<int32_t>(*zero), static_cast<float>(*scale)};
}

}  // namespace smelt::ops::integer
