#include "ops/cpu/integer/row_program.h"

#include <algorithm>
#include <cmath>

namespace smelt::ops::integer {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

constexpr int64_t block = 256;  // elements dequantized at a time

/// Whether the evaluator's loops take less than a table: those over bytes take a tenth of a look-up each, but not where a byte is
/// divided, multiplied by itself or widened.
bool has_fast_loops(const Program& p) {
  constexpr int most = 6;
  for (const Instruction& i : p.code()) {
    if (bits(i.type) > 8) return false;
    if (i.fn == Fn::div || i.fn == Fn::mod || i.fn == Fn::fmod || i.fn == Fn::pow) return false;
  }
  return p.operations() <= most;
}

}  // namespace

std::optional<RowProgram::Side> RowProgram::side(const Program& p, Ref r) {
  const Instruction& i = at(p, r);
  if (i.fn == Fn::input && i.type == DType::f32) return Side{i.index, DType::f32};
  const auto d = as_dequantize_step(p, r);
  if (!d || at(p, d->q).fn != Fn::input || !std::isfinite(d->scale)) return std::nullopt;
  return Side{at(p, d->q).index, p.type(d->q), d->zero, d->scale};
}

std::optional<RowProgram> RowProgram::match(const Program& p) {
  if (simd::best() != simd::Isa::avx2 || p.outputs().size() != 1) return std::nullopt;
  const Ref out = p.outputs()[0];
  RowProgram m;
  if (p.input_count() == 1) {
    if (const auto table = out == 0 || has_fast_loops(p) ? std::nullopt : table_between(p, 0, out)) {
      m.table_ = *table;
      return m;
    }
    if (const auto s = side(p, out); s && s->type != DType::f32) {
      m.kind_ = Kind::dequantize;
      m.a_ = *s;
      return m;
    }
  }
  const auto q = as_quantize_step(p, out);
  if (!q) return std::nullopt;
  m.row_.divisor = q->divisor;
  m.row_.low = q->low;
  m.row_.high = q->high;
  m.row_.zero = q->zero;
  const Instruction& x = at(p, q->x);
  if (const auto s = side(p, q->x); s && s->type == DType::f32) {
    m.kind_ = Kind::quantize;
    m.a_ = *s;
    return m;
  }
  if (x.fn != Fn::add && x.fn != Fn::mul) return std::nullopt;
  const auto a = side(p, x.args[0]), b = side(p, x.args[1]);
  if (!a || !b) return std::nullopt;
  m.kind_ = Kind::combine;
  m.op_ = x.fn == Fn::add ? Combine::add : Combine::mul;
  m.a_ = *a;
  m.b_ = *b;
  return m;
}

const float* RowProgram::numbers(const Side& s, std::span<const expr::Operand> inputs, int64_t at, int64_t n, float* to) const {
  const void* data = inputs[static_cast<size_t>(s.input)].data;
  if (s.type == DType::f32) return static_cast<const float*>(data) + at;
  const RowFunctions& rows = avx2::integer_rows();
  (s.type == DType::i8 ? rows.dequantize_i8 : rows.dequantize_u8)(to, static_cast<const uint8_t*>(data) + at, n, s.zero, s.scale);
  return to;
}

void RowProgram::run(int64_t n, std::span<const expr::Operand> inputs, void* output) const {
  const RowFunctions& rows = avx2::integer_rows();
  uint8_t* bytes = static_cast<uint8_t*>(output);
  switch (kind_) {
    case Kind::table: return rows.look_up(bytes, static_cast<const uint8_t*>(inputs[0].data), n, table_.data());
    case Kind::dequantize: {
      const auto dequantize = a_.type == DType::i8 ? rows.dequantize_i8 : rows.dequantize_u8;
      return dequantize(static_cast<float*>(output), static_cast<const uint8_t*>(inputs[0].data), n, a_.zero, a_.scale);
    }
    case Kind::quantize:
      return rows.quantize(row_, static_cast<const float*>(inputs[static_cast<size_t>(a_.input)].data), n, bytes);
    case Kind::combine: break;
  }
  alignas(32) float a[block], b[block];
  for (int64_t i = 0; i < n; i += block) {
    const int64_t count = std::min(block, n - i);
    const float *x = numbers(a_, inputs, i, count, a), *y = numbers(b_, inputs, i, count, b);
    rows.combine(op_, row_, x, y, count, bytes + i);
  }
}

}  // namespace smelt::ops::integer
