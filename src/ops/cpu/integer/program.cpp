#include "ops/cpu/integer/program.h"

#include <cmath>
#include <vector>

#include "expr/cpu.h"

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
  const Instruction& cast = at(p, r);
  if (cast.fn != Fn::cast || !is_byte(cast.type)) return std::nullopt;
  const Instruction& clip = at(p, cast.args[0]);
  if (clip.fn != Fn::clip || clip.type != DType::f32) return std::nullopt;
  const auto low = constant(p, clip.args[1]), high = constant(p, clip.args[2]);
  const Instruction& add = at(p, clip.args[0]);
  if (!low || !high || add.fn != Fn::add) return std::nullopt;
  const auto zero = constant(p, add.args[1]);
  const Instruction& round = at(p, add.args[0]);
  const double smallest = cast.type == DType::u8 ? 0 : -128;
  if (!zero || round.fn != Fn::round || *low < smallest || *high > smallest + 255 || *low > *high) return std::nullopt;
  for (double whole : {*low, *high, *zero})
    if (whole != static_cast<int>(whole)) return std::nullopt;
  QuantizeStep q;
  q.zero = static_cast<int32_t>(*zero);
  q.low = static_cast<float>(*low - *zero);
  q.high = static_cast<float>(*high - *zero);
  q.x = round.args[0];
  if (const Instruction& div = at(p, q.x); div.fn == Fn::div) {
    if (const auto scale = constant(p, div.args[1])) {
      q.divisor = static_cast<float>(*scale);
      q.x = div.args[0];
      // Neither it nor its inverse overflows or is denormal.
      if (!(q.divisor > 1e-30f) || !(q.divisor < 1e30f)) return std::nullopt;
    }
  }
  return q;
}

std::optional<DequantizeStep> as_dequantize_step(const Program& p, Ref r) {
  const Instruction& mul = at(p, r);
  if (mul.fn != Fn::mul || mul.type != DType::f32) return std::nullopt;
  const auto scale = constant(p, mul.args[1]);
  const Instruction& cast = at(p, mul.args[0]);
  if (!scale || cast.fn != Fn::cast) return std::nullopt;
  DequantizeStep d;
  d.scale = static_cast<float>(*scale);
  d.q = cast.args[0];
  if (const Instruction& sub = at(p, d.q); sub.fn == Fn::sub && sub.type == DType::i32) {
    const auto zero = constant(p, sub.args[1]);
    if (!zero) return std::nullopt;
    d.zero = static_cast<int32_t>(*zero);
    d.q = sub.args[0];
  }
  if (const Instruction& widen = at(p, d.q); widen.fn == Fn::cast && widen.type == DType::i32) d.q = widen.args[0];
  if (!is_byte(at(p, d.q).type)) return std::nullopt;
  return d;
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
