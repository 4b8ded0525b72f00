#include "ops/cpu/integer/row_program.h"

namespace smelt::ops::integer {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

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

std::optional<RowProgram> RowProgram::match(const Program& p) {
  if (simd::best() != simd::Isa::avx2 || p.outputs().size() != 1) return std::nullopt;
  const Ref out = p.outputs()[0];
  RowProgram m;
  if (p.input_count() == 1) {
    if (const auto table = out == 0 || has_fast_loops(p) ? std::nullopt : table_between(p, 0, out)) {
      m.table_ = *table;
      return m;
    }
  }
  const auto q = as_quantize_step(p, out);
  if (!q || at(p, q->x).fn != Fn::input || p.type(q->x) != DType::f32) return std::nullopt;
  m.quantizes_ = true;
  m.input_ = static_cast<size_t>(at(p, q->x).index);
  m.row_.divisor = q->divisor;
  m.row_.low = q->low;
  m.row_.high = q->high;
  m.row_.zero = q->zero;
  return m;
}

void RowProgram::run(int64_t n, std::span<const expr::Operand> inputs, void* output) const {
  const RowFunctions& rows = avx2::integer_rows();
  uint8_t* bytes = static_cast<uint8_t*>(output);
  if (quantizes_) return rows.quantize(row_, static_cast<const float*>(inputs[input_].data), n, bytes);
  rows.look_up(bytes, static_cast<const uint8_t*>(inputs[0].data), n, table_.data());
}

}  // namespace smelt::ops::integer
