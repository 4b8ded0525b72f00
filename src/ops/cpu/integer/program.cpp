#include "ops/cpu/integer/program.h"

#include <cmath>
#include <vector>

#include "base/number.h"
#include "expr/cpu.h"
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

std::optional<std::array<uint8_t, 256>> table_between(const Program& p, Ref from, Ref to) {
  if (!is_byte(p.type(from)) || !is_byte(p.type(to))) return std::nullopt;
  // Instructions that `to` needs, `from` standing for what it needs itself.
  std::vector<bool> needed(p.code().size(), false);
  needed[static_cast<size_t>(to)] = true;
  for (Ref r = to; r > from; --r) {
    if (!needed[static_cast<size_t>(r)]) continue;
    const Instruction& i = at(p, r);
    if (i.fn == Fn::input) return std::nullopt;
    for (Ref a : i.args)
      if (a >= 0) needed[static_cast<size_t>(a)] = true;
  }
  Program table;
  std::vector<Ref> moved(p.code().size(), -1);
  moved[static_cast<size_t>(from)] = table.input(p.type(from));
  for (Ref r = 0; r <= to; ++r) {
    const size_t k = static_cast<size_t>(r);
    if (!needed[k] || r == from) continue;
    const Instruction& i = at(p, r);
    if (i.fn == Fn::constant) {
      moved[k] = table.constant(i.type, i.value);
      continue;
    }
    if (r < from) return std::nullopt;  // computed from something else
    Ref a[3];
    int arguments = 0;
    while (arguments < 3 && i.args[arguments] >= 0) {
      a[arguments] = moved[static_cast<size_t>(i.args[arguments])];
      ++arguments;
    }
    switch (arguments) {
      case 1: moved[k] = i.fn == Fn::cast ? table.cast(a[0], i.type) : table.call(i.fn, a[0]); break;
      case 2: moved[k] = table.call(i.fn, a[0], a[1]); break;
      default: moved[k] = table.call(i.fn, a[0], a[1], a[2]); break;
    }
  }
  table.output(moved[static_cast<size_t>(to)]);
  std::array<uint8_t, 256> bytes, values;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  const expr::Evaluator evaluator(table);
  std::vector<uint8_t> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
  void* memory = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const expr::Operand in{bytes.data(), 1};
  void* out = values.data();
  evaluator.run(256, std::span(&in, 1), std::span(&out, 1), memory);
  return values;
}

}  // namespace smelt::ops::integer
