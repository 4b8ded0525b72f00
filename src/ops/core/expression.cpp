#include "ops/core/expression.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "base/value_of.h"

namespace smelt::ops {

using expr::Fn;
using expr::Ref;

namespace {

DType unsigned_of(DType t) {
  return bits(t) == 8 ? DType::u8 : bits(t) == 16 ? DType::u16 : bits(t) == 32 ? DType::u32 : DType::u64;
}

/// The language shifts numbers without a sign. To the right, a negative number's complement is shifted; a negative count is
/// beyond the width of its unsigned form, as it should be.
Ref signed_shift(const Writer& w, bool left) {
  const DType raw = unsigned_of(w.type);
  const Ref a = w.in(0), by = w.program.cast(w.in(1), raw);
  if (left) return w.program.cast(w.call(Fn::shift_left, {w.program.cast(a, raw), by}), w.type);
  const Ref zero = w.number(0), ones = w.number(-1);
  const Ref mask = w.call(Fn::select, {w.call(Fn::less, {a, zero}), ones, zero});
  const Ref shifted = w.call(Fn::shift_right, {w.program.cast(w.call(Fn::bit_xor, {a, mask}), raw), by});
  return w.call(Fn::bit_xor, {w.program.cast(shifted, w.type), mask});
}

/// The remainder with the sign of the divisor.
Ref floor_mod(const Writer& w) {
  const Ref a = w.in(0), b = w.in(1), zero = w.number(0), r = w.call(Fn::fmod, {a, b});
  const Ref divisor_below = w.call(Fn::less, {b, zero}), below = w.call(Fn::less, {r, zero});
  const Ref other_sign = w.call(Fn::logical_xor, {below, divisor_below}), whole = w.call(Fn::equal, {r, zero});
  const Ref moved = w.call(Fn::add, {r, b}), same_sign = w.call(Fn::logical_not, {other_sign});
  return w.call(Fn::select, {w.call(Fn::logical_or, {whole, same_sign}), r, moved});
}

Ref swish(const Writer& w, float otherwise) {
  const Ref x = w.in(0);
  const float alpha = w.node.get_float("alpha", otherwise);
  return w.in_region && alpha == 1 ? w.call(Fn::silu, {x}) : w.call(Fn::swish, {x, w.number(alpha)});
}

/// Integers to the power of integers. An exponent that the base's type may not hold is an i64, and so is the base then: the low
/// bits of a power are those of the base's low bits.
Ref integer_power(const Writer& w, DType exponent) {
  const bool as_signed = is_signed(w.type) || !is_signed(exponent);
  if (exponent == w.type || (bits(exponent) < bits(w.type) && as_signed)) return w.call(Fn::pow, {w.in(0), w.in(1)});
  const auto wide = [&](Ref r) { return w.program.cast(r, DType::i64); };
  const Ref a = wide(w.in(0)), b = w.inputs[1].ref;
  if (exponent != DType::u64) return w.program.cast(w.call(Fn::pow, {a, wide(b)}), w.type);
  // No signed type holds these: a ^ b is (a ^ (b / 2)) ^ 2 * a ^ (b % 2).
  const Ref two = w.program.constant(exponent, 2);
  const Ref half = w.call(Fn::pow, {a, wide(w.call(Fn::div, {b, two}))});
  const Ref rest = w.call(Fn::pow, {a, wide(w.call(Fn::mod, {b, two}))});
  return w.program.cast(w.call(Fn::mul, {w.call(Fn::mul, {half, half}), rest}), w.type);
}

/// Whether the floats that a power is computed in hold the exponent: f32 does not hold each i32, of which (-1) ^ n wants the last bit.
bool holds_exponents(const Writer& w, DType exponent) {
  if (is_integer(w.type)) return false;  // 4 ^ 0.5 is 2: the exponent is not cut off
  if (w.type == DType::f64) return true;
  if (const auto known = w.inputs[1].value) return static_cast<double>(static_cast<float>(*known)) == *known;
  return bits(exponent) <= (is_integer(exponent) ? 16 : 32);
}

}  // namespace

size_t Expression::operands() const {
  if (write || fn == Fn::input) return static_cast<size_t>(least);
  const auto own = std::ranges::count_if(parameters, [](const FloatAttribute& p) { return !p.name.empty(); });
  return static_cast<size_t>(expr::info(fn).arity - own);
}

bool Expression::accepts(DType computing) const {
  if (of_node) return true;
  return expr::accepts(parameters[0].name.empty() ? fn : Fn::exp, computing);  // parameters are floats
}

Ref Writer::in(size_t i, DType as) const {
  const Operand& o = inputs[i];
  const bool written = program.code()[static_cast<size_t>(o.ref)].fn == Fn::constant;
  if (written ? program.type(o.ref) != as : o.value && is_float(as))
    return program.constant(as, value_of(o.value, "the value of a constant operand"));
  return program.cast(o.ref, as);
}

Ref Writer::call(Fn fn, std::initializer_list<Ref> arguments) const {
  const Ref* a = arguments.begin();
  switch (arguments.size()) {
    case 1: return program.call(fn, a[0]);
    case 2: return program.call(fn, a[0], a[1]);
    default: return program.call(fn, a[0], a[1], a[2]);
  }
}

std::optional<DType> computing_type(DType t) {
  if (t == DType::f16 || t == DType::bf16) return DType::f32;
  return expr::is_computing(t) ? std::optional(t) : std::nullopt;
}

DType required_computing_type(DType t) { return value_of(computing_type(t), "a computing type"); }

std::optional<Ref> express(const Writer& w) {
  const Expression& e = facts(w.node).expression;
  if (!e.exists() || e.of_node || !e.accepts(w.type)) return std::nullopt;
  if (!e.write && w.inputs.size() != e.operands()) return std::nullopt;
  for (size_t i = 0; i < e.operands(); ++i)
    if (!w.has(i)) return std::nullopt;
  if (e.write) {
    const Ref r = e.write(w);
    return r < 0 ? std::nullopt : std::optional(r);
  }
  std::vector<Ref> a;
  for (size_t i = 0; i < e.operands(); ++i) a.push_back(i < e.lead() ? w.in(i, DType::boolean) : w.in(i));
  for (const auto& p : e.parameters)
    if (!p.name.empty()) a.push_back(w.attribute(p.name, p.otherwise));
  switch (a.size()) {
    case 1: return w.program.call(e.fn, a[0]);
    case 2: return w.program.call(e.fn, a[0], a[1]);
    default: return w.program.call(e.fn, a[0], a[1], a[2]);
  }
}

Ref write_identity(const Writer& w) { return w.in(0); }

Ref write_cast(const Writer& w) {
  return w.program.cast(w.inputs[0].ref, w.in_region ? required_computing_type(w.result) : w.result);
}

/// Of an inference, or with nothing to drop.
Ref write_dropout(const Writer& w) {
  const auto is = [&](size_t i, double v) { return w.inputs[i].value == v; };
  const bool asked_to = w.inputs.size() > 2 && w.inputs[2].present;
  return !asked_to || is(2, 0) || is(1, 0) ? w.in(0) : -1;
}

Ref write_mod(const Writer& w) {
  if (w.node.get_int("fmod", 0) == 0 && is_float(w.type)) return floor_mod(w);
  return w.call(w.node.get_int("fmod", 0) ? Fn::fmod : Fn::mod, {w.in(0), w.in(1)});
}

Ref write_pow(const Writer& w) {
  const Ref x = w.in(0);
  const DType exponent = w.program.type(w.inputs[1].ref);
  const bool rounds =
      is_integer(w.type) && is_float(exponent);  // what does not fit is the largest then, as a product would not be
  if (const auto known = w.inputs[1].value; known && w.in_region && !rounds) {
    if (known == 1) return x;
    if (known == 2) return w.call(Fn::mul, {x, x});
    if (known == 3) return w.call(Fn::mul, {w.call(Fn::mul, {x, x}), x});
    if (known == -1 && is_float(w.type)) return w.call(Fn::reciprocal, {x});
  }
  if (is_integer(w.type) && is_integer(exponent)) return integer_power(w, exponent);
  if (holds_exponents(w, exponent)) return w.call(Fn::pow, {x, w.in(1)});
  return w.program.cast(w.call(Fn::pow, {w.in(0, DType::f64), w.in(1, DType::f64)}), w.type);
}

/// Bounds are inputs 1 and 2, or the attributes min and max of opsets below 11.
Ref write_clip(const Writer& w) {
  Ref r = w.in(0);
  const bool low = w.has(1) || w.node.has("min"), high = w.has(2) || w.node.has("max");
  const Ref a = !low ? -1 : w.has(1) ? w.in(1) : w.attribute("min", 0);
  const Ref b = !high ? -1 : w.has(2) ? w.in(2) : w.attribute("max", 0);
  if (w.in_region && low && high) return w.call(Fn::clip, {r, a, b});
  if (low) r = w.call(Fn::max, {r, a});
  return high ? w.call(Fn::min, {r, b}) : r;
}

Ref write_bit_shift(const Writer& w) {
  const bool left = w.node.get_string("direction", "") == "LEFT";
  return is_signed(w.type) ? signed_shift(w, left) : w.call(left ? Fn::shift_left : Fn::shift_right, {w.in(0), w.in(1)});
}

template <Fn fn> Ref write_fold(const Writer& w) {
  std::vector<Ref> a;
  for (size_t i = 0; i < w.inputs.size(); ++i) {
    if (!w.has(i)) return -1;
    a.push_back(w.in(i));
  }
  Ref r = a[0];
  for (size_t i = 1; i < a.size(); ++i) r = w.call(fn, {r, a[i]});
  return r;
}
template Ref write_fold<Fn::add>(const Writer& w);
template Ref write_fold<Fn::min>(const Writer& w);
template Ref write_fold<Fn::max>(const Writer& w);

Ref write_mean(const Writer& w) {
  const Ref sum = write_fold<Fn::add>(w);
  return sum < 0 ? sum : w.call(Fn::div, {sum, w.number(static_cast<double>(w.inputs.size()))});
}

Ref write_is_inf(const Writer& w) {
  const bool negative = w.node.get_int("detect_negative", 1) != 0, positive = w.node.get_int("detect_positive", 1) != 0;
  const Ref x = w.in(0);
  if (w.in_region) {
    const double largest = w.type == DType::f64 ? DBL_MAX : FLT_MAX;
    if (negative && positive) return w.call(Fn::is_inf, {x});
    if (positive) return w.call(Fn::greater, {x, w.number(largest)});
    if (negative) return w.call(Fn::less, {x, w.number(-largest)});
    return w.program.constant(DType::boolean, 0);
  }
  const Ref zero = w.number(0);
  Ref r = w.call(Fn::is_inf, {x});
  if (!negative) r = w.call(Fn::logical_and, {r, w.call(Fn::greater, {x, zero})});
  if (!positive) r = w.call(Fn::logical_and, {r, w.call(Fn::less, {x, zero})});
  return r;
}

namespace {

/// A whole number; beyond 2^53, where a program has no constants, a multiple of 2^18.
Ref whole(const Writer& w, double v) {
  constexpr double step = 0x1p18, most = 0x1p53;
  return std::abs(v) <= most ? w.number(v) : w.call(Fn::mul, {w.number(v / step), w.number(step)});
}

/// a + by, or a - by: by a whole number, as ONNX computes in the element type, whose bits may be fewer.
Ref shifted(const Writer& w, Ref a, double by, bool up) {
  const bool adds = up == (by >= 0);
  const double most = std::isnan(by) ? 0 : std::min(std::trunc(std::abs(by)), 1e18), range = std::ldexp(1, bits(w.type));
  const double moved = bits(w.type) < 64 ? std::fmod(most, range) : most, high = is_signed(w.type) ? range / 2 : range;
  const Ref number = whole(w, moved < high ? moved : moved - range);  // of narrow types: a number of the type
  return w.call(adds ? Fn::add : Fn::sub, {a, number});
}

/// Shrink of integers, which the whole numbers below lambd bound.
Ref shrink_integers(const Writer& w) {
  const double limit = std::floor(static_cast<double>(w.node.get_float("lambd", 0.5f))),
               bias = static_cast<double>(w.node.get_float("bias", 0));
  const double high = std::ldexp(1, bits(w.type) - (is_signed(w.type) ? 1 : 0)), low = is_signed(w.type) ? -high : 0;
  const Ref x = w.in(0);
  Ref r = w.call(Fn::sub, {x, x});
  if (limit < low)
    r = shifted(w, x, bias, false);
  else if (limit < high)
    r = w.call(Fn::select, {w.call(Fn::greater, {x, whole(w, limit)}), shifted(w, x, bias, false), r});
  if (-limit >= high) return shifted(w, x, bias, true);
  if (-limit > low) r = w.call(Fn::select, {w.call(Fn::less, {x, whole(w, -limit)}), shifted(w, x, bias, true), r});
  return r;
}

}  // namespace

/// x < -lambd: x + bias; x > lambd: x - bias; NaN: itself; 0 between.
Ref write_shrink(const Writer& w) {
  if (is_integer(w.type)) return shrink_integers(w);
  const double lambd = w.node.get_float("lambd", 0.5f);
  const Ref x = w.in(0), zero = w.number(0), bias = w.attribute("bias", 0);
  const Ref lowered = w.call(Fn::sub, {x, bias}), is_above = w.call(Fn::greater, {x, w.number(lambd)});
  const Ref above = w.call(Fn::select, {is_above, lowered, zero});
  const Ref raised = w.call(Fn::add, {x, bias}), is_below = w.call(Fn::less, {x, w.number(-lambd)});
  const Ref r = w.call(Fn::select, {is_below, raised, above});
  return w.call(Fn::select, {w.call(Fn::is_nan, {x}), x, r});
}

Ref write_swish(const Writer& w) { return swish(w, 1.0f); }
Ref write_quick_gelu(const Writer& w) { return swish(w, 1.702f); }
Ref write_gelu(const Writer& w) {
  return w.call(w.node.get_string("approximate", "none") == "tanh" ? Fn::gelu_tanh : Fn::gelu, {w.in(0)});
}
Ref write_bias_gelu(const Writer& w) { return w.call(Fn::gelu, {w.call(Fn::add, {w.in(0), w.in(1)})}); }
Ref write_fast_gelu(const Writer& w) { return w.call(Fn::gelu_tanh, {w.has(1) ? w.call(Fn::add, {w.in(0), w.in(1)}) : w.in(0)}); }

/// saturate(round(x / scale) + zero point). Of integers, too, the quotient is a float.
Ref write_quantize(const Writer& w) {
  const DType real = is_float(w.type) ? w.type : DType::f32;
  const int width = bits(w.result);
  const bool has_sign = is_signed(w.result);
  const double low = has_sign ? -std::ldexp(1, width - 1) : 0, high = std::ldexp(1, has_sign ? width - 1 : width) - 1;
  Ref r = w.call(Fn::round, {w.call(Fn::div, {w.in(0, real), w.in(1, real)})});
  if (w.has(2)) r = w.call(Fn::add, {r, w.in(2, real)});
  const Ref within = w.call(Fn::clip, {r, w.program.constant(real, low), w.program.constant(real, high)});
  return w.program.cast(within, w.result);
}

/// (x - zero point) * scale. i32 holds the difference of what is narrower than it, f64 that of two i32.
Ref write_dequantize(const Writer& w) {
  const DType to = required_computing_type(w.result);
  const DType real = w.has(2) && bits(w.type) >= 32 ? DType::f64 : to, whole = real == DType::f64 ? real : DType::i32;
  Ref x = w.inputs[0].ref;
  if (w.has(2)) x = w.call(Fn::sub, {w.program.cast(x, whole), w.in(2, whole)});
  return w.program.cast(w.call(Fn::mul, {w.program.cast(x, real), w.in(1, real)}), to);
}

}  // namespace smelt::ops
