// A run of an epilogue over sums in memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/value_of.h"
#include "ops/core/align.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/integer/float_pass.h"
#include "ops/cpu/integer/requantize_pass.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/short_lines.h"

namespace smelt::ops {

void CpuEpilogue::Runner::end(igemm::Run& run) const {
  if (!e_.bias_.empty()) run.bias = e_.bias_.data();
  run.c = static_cast<float*>(b_.outputs[0]);
  run.c_rows = &e_.output_.rows;
  if (!e_.simple_) {
    run.finish = this;
    return;
  }
  const Simple& simple = *e_.simple_;
  run.end = simple.end;
  if (simple.residual < 0) return;
  run.residual = static_cast<const float*>(b_.inputs[static_cast<size_t>(simple.residual)]);
  run.residual_rows = &e_.residual_rows();
}

/// Some rows of sums, their operands and their results, each side as one row of all elements: a row of few columns costs more than
/// its elements. A side whose rows do not lie one behind the other is copied to scratch memory of its own.
class CpuEpilogue::RowsAtOnce {
 public:
  /// `scratch`: bytes() of it.
  RowsAtOnce(const CpuEpilogue& e, const igemm::Sums& sums, char* scratch) : e_(e), sums_(sums), scratch_(scratch) {
    const bool is_whole = sums.stride == sums.columns && follows(e.output_) &&
                          std::ranges::all_of(e.operands_, [&](const Operand& o) { return follows(o); });
    rows_ = is_whole ? sums.rows : std::clamp<int64_t>(elements / sums.columns, 1, sums.rows);
  }
  static int64_t bytes(const CpuEpilogue& e) { return (static_cast<int64_t>(e.operands_.size()) + 2) * slot; }

  /// How many rows at a time.
  int64_t rows() const { return rows_; }
  /// Rows [first, first + count) of in0.
  expr::Operand sums(int64_t first, int64_t count) const {
    const float* from = sums_.sums + first * sums_.stride;
    if (count == 1 || sums_.stride == sums_.columns) return {from, 1};
    auto* to = reinterpret_cast<float*>(scratch_);
    constexpr int64_t size = sizeof(float);
    copy_lines(to, from, count, sums_.columns * size, sums_.columns * size, sums_.stride * size);
    return {to, 1};
  }
  /// Of the operand `i`, whose element (0, 0) is at `data`.
  expr::Operand operand(size_t i, const void* data, int64_t first, int64_t count) const {
    const Operand& o = e_.operands_[i];
    const auto at = [&](int64_t row) { return static_cast<const char*>(data) + (row + sums_.column * o.column) * o.bytes; };
    if (count == 1 || follows(o)) return {at(o.rows.offset(sums_.row + first)), o.column};
    char* to = scratch_ + static_cast<int64_t>(i + 1) * slot;
    const bool is_same_for_all = o.rows.linear() && o.rows.step() == 0;
    if (is_same_for_all && first > 0) return {to, 1};  // it lies there
    if (is_same_for_all) {
      const int64_t row_bytes = sums_.columns * o.bytes;
      expr::gather(to, at(o.rows.offset(sums_.row)), o.column, sums_.columns, o.bytes);
      for (int64_t made = 1; made < count; made *= 2)
        std::memcpy(to + made * row_bytes, to, static_cast<size_t>(std::min(made, count - made) * row_bytes));
      return {to, 1};
    }
    igemm::RowMap::Walk row(o.rows, sums_.row + first);
    for (int64_t r = 0; r < count; ++r, row.next())
      expr::gather(to + r * sums_.columns * o.bytes, at(row.offset()), o.column, sums_.columns, o.bytes);
    return {to, 1};
  }
  /// Where results go; put() moves them from there.
  void* results(void* data, int64_t first, int64_t count) const {
    return count == 1 || follows(e_.output_) ? output_at(data, e_.output_.rows.offset(sums_.row + first)) : results_slot();
  }
  void put(void* data, int64_t first, int64_t count) const {
    if (count == 1 || follows(e_.output_)) return;
    const auto row_bytes = static_cast<size_t>(sums_.columns * e_.output_.bytes);
    igemm::RowMap::Walk row(e_.output_.rows, sums_.row + first);
    const char* from = results_slot();
    for (int64_t r = 0; r < count; ++r, row.next(), from += row_bytes)
      std::memcpy(output_at(data, row.offset()), from, row_bytes);
  }

 private:
  static constexpr int64_t elements = 512, slot = elements * 8;

  bool follows(const Side& s) const {
    return s.rows.linear() && ((s.column == 1 && s.rows.step() == sums_.columns) || (s.column == 0 && s.rows.step() == 0));
  }
  char* results_slot() const { return scratch_ + (bytes(e_) - slot); }
  char* output_at(void* data, int64_t row) const {
    return static_cast<char*>(data) + (row + sums_.column * e_.output_.column) * e_.output_.bytes;
  }

  const CpuEpilogue& e_;
  const igemm::Sums& sums_;
  char* scratch_;
  int64_t rows_ = 1;
};

void CpuEpilogue::Runner::take(const igemm::Sums& sums) const {
  if (e_.requantize_) return e_.requantize_->run(sums, start_, first_column_, e_.output_.rows, b_);
  if (e_.floats_) return e_.floats_->run(sums, start_, first_column_, e_.output_.rows, b_);
  if (e_.scales_.empty()) return evaluate(sums);
  const int32_t* start = start_ ? start_ + sums.column : nullptr;
  igemm::Sums floats = sums;
  floats.column += first_column_;
  floats.stride = floats.columns;
  avx2::integer_rows().to_floats(const_cast<float*>(sums.sums), sums.rows, sums.columns, sums.stride, start,
                                 e_.scales_.data() + floats.column);
  evaluate(floats);
}

int64_t CpuEpilogue::general_scratch() const {
  return aligned(value_of(evaluator_, "the evaluator of an epilogue").scratch()) + RowsAtOnce::bytes(*this);
}

void CpuEpilogue::Runner::evaluate(const igemm::Sums& sums) const {
  std::array<expr::Operand, 16> in;
  const expr::Evaluator& evaluator = value_of(e_.evaluator_, "the evaluator of an epilogue");
  char* scratch = scratch_ + sums.thread * e_.scratch();
  const RowsAtOnce at_once(e_, sums, scratch + aligned(evaluator.scratch()));
  const size_t count = e_.operands_.size();
  for (int64_t first = 0; first < sums.rows; first += at_once.rows()) {
    const int64_t rows = std::min(at_once.rows(), sums.rows - first);
    in[0] = at_once.sums(first, rows);
    for (size_t i = 0; i < count; ++i) in[i + 1] = at_once.operand(i, b_.inputs[e_.operands_[i].input], first, rows);
    void* out = at_once.results(b_.outputs[0], first, rows);
    evaluator.run(rows * sums.columns, std::span(in.data(), count + 1), std::span(&out, 1), scratch);
    at_once.put(b_.outputs[0], first, rows);
  }
}

}  // namespace smelt::ops
