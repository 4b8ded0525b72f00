#include "ops/cpu/integer/row_program.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "expr/byte_tables.h"
#include "expr/simd/look_up.h"

namespace smelt::ops::integer {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

/// What `r` dequantizes, an input; nothing where it does not, or where its numbers may be above 2^9 or products leave the range of
/// normal floats.
std::optional<std::pair<size_t, Combination::Side>> side_of(const Program& p, Ref r) {
  constexpr int32_t most = 255;
  const auto d = as_dequantize_step(p, r);
  if (!d || at(p, d->q).fn != Fn::input || d->zero < -most || d->zero > most) return std::nullopt;
  if (const float size = std::abs(d->scale); !(size >= 1e-15f && size <= 1e15f)) return std::nullopt;
  return std::pair(static_cast<size_t>(at(p, d->q).index), Combination::Side{d->zero, d->scale, p.type(d->q) == DType::i8});
}

std::optional<Combination> as_combination(const Program& p, const QuantizeStep& q, size_t* inputs) {
  const bool clipped = at(p, q.x).fn == Fn::relu;  // numbers below 0 become 0, and these the zero point
  const Ref x = clipped ? at(p, q.x).args[0] : q.x;
  const Instruction& i = at(p, x);
  if ((i.fn != Fn::add && i.fn != Fn::mul) || i.type != DType::f32) return std::nullopt;
  const auto a = side_of(p, i.args[0]), b = side_of(p, i.args[1]);
  if (!a || !b) return std::nullopt;
  inputs[0] = a->first, inputs[1] = b->first;
  Combination c;
  c.sides[0] = a->second, c.sides[1] = b->second;
  c.multiplies = i.fn == Fn::mul;
  c.divisor = q.divisor, c.zero = q.zero;
  c.low = clipped ? std::max(q.low, 0.0f) : q.low, c.high = q.high;
  return c.low <= c.high ? std::optional(c) : std::nullopt;
}

Requantization row_of(const QuantizeStep& q) {
  Requantization row;
  row.divisor = q.divisor;
  row.low = q.low;
  row.high = q.high;
  row.zero = q.zero;
  return row;
}

/// What bytes become that are dequantized and quantized again.
ByteMap map_of(const Program& p, const DequantizeStep& d, const Requantization& to) { return {d, p.type(d.q) == DType::i8, to}; }

/// Of a program that dequantizes its input and quantizes it again.
std::optional<ByteMap> requantizing(const Program& p, Ref out) {
  const auto q = as_quantize_step(p, out);
  if (!q) return std::nullopt;
  const auto d = as_dequantize_step(p, q->x);
  return d && at(p, d->q).fn == Fn::input ? std::optional(map_of(p, *d, row_of(*q))) : std::nullopt;
}

}  // namespace

std::optional<RowProgram> RowProgram::match(const Program& p) {
  if (simd::best() != simd::Isa::avx2 || p.outputs().size() != 1) return std::nullopt;
  const Ref out = p.outputs()[0];
  RowProgram m;
  if (p.input_count() == 1) {
    if (const auto table = out == 0 || expr::has_fast_loops(p) ? std::nullopt : expr::table_between(p, 0, out)) {
      m.map_ = requantizing(p, out).value_or(ByteMap(*table));
      return m;
    }
  }
  const auto q = as_quantize_step(p, out);
  if (!q) return std::nullopt;
  size_t inputs[2];
  if (const auto c = as_combination(p, *q, inputs)) {
    m.combines_ = true;
    m.combination_ = *c;
    m.pairs_ = std::make_shared<Pairs>();
    m.input_ = inputs[0], m.second_ = inputs[1];
    return m;
  }
  m.row_ = row_of(*q);
  if (const Instruction& i = at(p, q->x); i.fn == Fn::select && i.type == DType::f32) {
    const auto a = as_dequantize_step(p, i.args[1]), b = as_dequantize_step(p, i.args[2]);
    if (!a || !b) return std::nullopt;
    const Instruction &condition = at(p, i.args[0]), &first = at(p, a->q), &second = at(p, b->q);
    if (condition.fn != Fn::input || first.fn != Fn::input || second.fn != Fn::input) return std::nullopt;
    m.selects_ = true;
    m.condition_ = static_cast<size_t>(condition.index);
    m.input_ = static_cast<size_t>(first.index), m.second_ = static_cast<size_t>(second.index);
    m.map_ = map_of(p, *a, m.row_), m.second_map_ = map_of(p, *b, m.row_);
    return m;
  }
  if (at(p, q->x).fn != Fn::input || p.type(q->x) != DType::f32) return std::nullopt;
  m.quantizes_ = true;
  m.input_ = static_cast<size_t>(at(p, q->x).index);
  return m;
}

bool RowProgram::is_sure(int64_t n) const {
  constexpr int64_t pays = 1 << 20;  // 65,536 pairs take as long as some 400,000 combined ones
  Pairs& p = *pairs_;
  if (p.is_tried.load(std::memory_order_relaxed)) return p.is_sure.load(std::memory_order_acquire);
  if (p.seen.fetch_add(n, std::memory_order_relaxed) + n < pays || p.is_tried.exchange(true)) return false;
  const bool is =
      simd::widest() == simd::Isa::avx512 ? avx512::combines_surely(combination_) : avx2::combines_surely(combination_);
  p.is_sure.store(is, std::memory_order_release);
  return is;
}

void RowProgram::select(int64_t n, std::span<const expr::Operand> inputs, uint8_t* to) const {
  constexpr int64_t block = 1024;
  uint8_t first[block], second[block];
  const auto find = [&](const expr::Operand& from, const ByteMap& map, int64_t at, int64_t count,
                        uint8_t* own) -> const uint8_t* {
    const uint8_t* bytes = static_cast<const uint8_t*>(from.data);
    if (from.stride == 0) {
      if (at == 0) std::fill_n(own, block, map(*bytes));
      return own;
    }
    if (map.is_same()) return bytes + at;
    map.run(own, bytes + at, count);
    return own;
  };
  const expr::Operand& condition = inputs[condition_];
  const uint8_t* chosen = static_cast<const uint8_t*>(condition.data);
  for (int64_t i = 0; i < n; i += block) {
    const int64_t count = std::min(block, n - i);
    const uint8_t* a = find(inputs[input_], map_, i, count, first);
    const uint8_t* b = find(inputs[second_], second_map_, i, count, second);
    if (condition.stride == 0)
      std::copy_n(*chosen ? a : b, count, to + i);
    else
      avx2::choose(to + i, chosen + i, a, b, count);
  }
}

void RowProgram::run(int64_t n, std::span<const expr::Operand> inputs, void* output) const {
  const RowFunctions& rows = avx2::integer_rows();
  uint8_t* bytes = static_cast<uint8_t*>(output);
  if (selects_) return select(n, inputs, bytes);
  if (combines_) {
    const auto row = [&](size_t i) { return CombinedRow{static_cast<const uint8_t*>(inputs[i].data), inputs[i].stride == 0}; };
    const auto combine = simd::widest() == simd::Isa::avx512 ? avx512::combine : avx2::combine;
    const CombinedRow a = row(input_), b = row(second_);
    // Of one number and all bytes there are 256 results; to look them up takes a fraction.
    constexpr int64_t least = 1024;
    if (n >= least && a.repeats != b.repeats) {
      uint8_t all[256], table[256];
      std::iota(std::begin(all), std::end(all), uint8_t{0});
      combine(combination_, a.repeats ? a : CombinedRow{all, false}, b.repeats ? b : CombinedRow{all, false}, 256, table);
      return avx2::best_look_up()(bytes, a.repeats ? b.bytes : a.bytes, n, table);
    }
    Combination c = combination_;
    c.is_sure = is_sure(n);
    return combine(c, a, b, n, bytes);
  }
  if (quantizes_) return rows.quantize(row_, static_cast<const float*>(inputs[input_].data), n, bytes);
  map_.run(bytes, static_cast<const uint8_t*>(inputs[0].data), n);
}

}  // namespace smelt::ops::integer
