#include "ops/cpu/integer/requantize_pass.h"

#include <algorithm>
#include <cmath>

#include "expr/byte_tables.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/program.h"
#include "ops/cpu/short_lines.h"

namespace smelt::ops::integer {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

std::vector<float> padded(std::span<const float> values, int64_t columns) {
  const int64_t panels = (columns + igemm::tile_columns - 1) / igemm::tile_columns;
  std::vector<float> v(static_cast<size_t>((panels + 1) * igemm::tile_columns), 0.0f);
  for (size_t c = 0; c < static_cast<size_t>(columns); ++c) v[c] = values[values.size() == 1 ? 0 : c];
  return v;
}

}  // namespace

/// Reads a program as the steps of one pass, and fills the pass with them.
class RequantizePass::Matcher {
 public:
  /// `is_plain`: lines along the last axes of what lies in row-major order, else rows along the columns' axis.
  Matcher(RequantizePass& pass, const BoundNode& node, size_t first_operand, size_t column_axis, bool is_plain)
      : pass_(pass),
        node_(node),
        p_(*node.node->program),
        y_(node.outputs[0]),
        first_(first_operand),
        axis_(column_axis),
        is_plain_(is_plain) {}

  bool match() {
    if (p_.outputs().size() != 1 || p_.type(0) != DType::f32 || !is_byte(y_.type)) return false;
    if (!lies_along(y_)) return false;
    for (float s : pass_.scales_)
      if (!std::isfinite(s)) return false;  // sums of 0 may become NaN
    const Ref out = p_.outputs()[0];
    if (product(out) || sum(out)) return true;
    for (Ref r = out - 1; r > 0; --r) {
      if (!is_byte(p_.type(r)) || !(product(r) || sum(r))) continue;
      const auto table = expr::table_between(p_, r, out);
      if (!table) return false;
      pass_.table_ = *table;
      pass_.row_.table = pass_.table_.data();
      return true;
    }
    return false;
  }

 private:
  /// Of as many elements as the output has: whether a row of them lies side by side.
  bool lies_along(const BoundTensor& t) const {
    if (is_plain_) return t.layout == Layout::plain && is_dense(t);
    return broadcast_strides(t, y_.shape.size())[axis_] == 1 || y_.shape[axis_] == 1;
  }
  const BoundTensor& operand(Ref in) const { return node_.inputs[first_ + static_cast<size_t>(at(p_, in).index) - 1]; }
  bool is_operand(Ref r) const { return at(p_, r).fn == Fn::input && r != 0; }

  /// r = quantized(in0), or of in0 plus a constant for each column; with relu or clip before it is quantized.
  bool product(Ref r) {
    auto q = as_quantize_step(p_, r);
    if (!q || !take_bounds(*q) || !takes_sums(q->x)) return false;
    set(*q);
    pass_.row_.adds_residual = false;
    pass_.residual_ = -1;
    return true;
  }

  /// Makes relu and clip before a quantization bounds of what is quantized: division and rounding are monotonic.
  bool take_bounds(QuantizeStep& q) const {
    for (;;) {
      const Instruction& i = at(p_, q.x);
      const bool clips = i.fn == Fn::clip;
      if (!clips && i.fn != Fn::relu) return true;
      const auto value = [&](int a) {
        return at(p_, i.args[a]).fn == Fn::constant ? static_cast<float>(at(p_, i.args[a]).value) : NAN;
      };
      const float low = clips ? value(1) : 0, high = clips ? value(2) : INFINITY;
      if (!(low <= high)) return false;
      q.low = std::clamp(std::nearbyint(low / q.divisor), q.low, q.high);
      q.high = std::clamp(std::nearbyint(high / q.divisor), q.low, q.high);
      q.x = i.args[0];
    }
  }

  /// x = in0, or in0 plus a constant for each column, which becomes the pass's.
  bool takes_sums(Ref x) {
    std::vector<float> addends;
    if (x != 0) {
      const Instruction& add = at(p_, x);
      if (add.fn != Fn::add || (add.args[0] != 0 && add.args[1] != 0)) return false;
      const Ref other = add.args[add.args[0] == 0 ? 1 : 0];
      if (!is_operand(other) || !columns(operand(other), addends)) return false;
    }
    pass_.addends_ = std::move(addends);
    pass_.row_.addends = pass_.addends_.empty() ? nullptr : pass_.addends_.data();
    return true;
  }

  /// r = quantized(x + dequantized(an operand of the output's shape)), with relu or clip before it is quantized. x: a dequantized product, or
  /// in0, or in0 plus a constant for each column.
  bool sum(Ref r) {
    auto q = as_quantize_step(p_, r);
    if (!q || !take_bounds(*q) || at(p_, q->x).fn != Fn::add) return false;
    for (int side = 0; side < 2; ++side) {
      const Ref x = at(p_, q->x).args[side];
      const auto own = as_dequantize_step(p_, x), other = as_dequantize_step(p_, at(p_, q->x).args[1 - side]);
      if (!other || !is_operand(other->q) || !(own ? product(own->q) : takes_sums(x))) continue;
      // What is added is q less its zero point, which the row's first step has not added yet.
      const BoundTensor& residual = operand(other->q);
      const Shape steps = broadcast_strides(residual, y_.shape.size());
      if (own && own->zero != pass_.row_.zero) return false;
      if (residual.constant.valid() || elements(residual.shape) != elements(y_.shape)) return false;
      if (!lies_along(residual)) return false;
      pass_.residual_ = static_cast<int>(first_) + at(p_, other->q).index - 1;
      pass_.residual_rows_ = igemm::RowMap(without(y_.shape, axis_), without(steps, axis_));
      Requantization& row = pass_.row_;
      row.adds_residual = true;
      row.rounds_before = own.has_value();
      row.residual_signed = residual.type == DType::i8;
      if (own) row.scale2 = own->scale;
      row.residual_scale = other->scale;
      row.residual_zero = other->zero;
      row.divisor2 = q->divisor;
      row.low2 = q->low;
      row.high2 = q->high;
      row.zero = q->zero;
      return true;
    }
    return false;
  }

  void set(const QuantizeStep& q) {
    pass_.row_.divisor = q.divisor;
    pass_.row_.low = q.low;
    pass_.row_.high = q.high;
    pass_.row_.zero = q.zero;
  }

  /// The values of a constant f32 operand that differs from column to column only.
  bool columns(const BoundTensor& t, std::vector<float>& to) const {
    if (!t.constant.valid() || t.type != DType::f32 || !varies_along_only(t, y_.shape, axis_)) return false;
    to = padded(t.constant.span<float>(), y_.shape[axis_]);
    return true;
  }

  RequantizePass& pass_;
  const BoundNode& node_;
  const Program& p_;
  const BoundTensor& y_;
  size_t first_, axis_;
  bool is_plain_;
};

std::shared_ptr<RequantizePass> RequantizePass::match_any(const BoundNode& node, size_t first_operand, size_t column_axis,
                                                          bool is_plain, std::span<const float> scales) {
  std::shared_ptr<RequantizePass> pass(new RequantizePass);
  pass->scales_ = padded(scales, node.outputs[0].shape[column_axis]);
  if (!Matcher(*pass, node, first_operand, column_axis, is_plain).match()) return nullptr;
  Requantization& row = pass->row_;
  row.scales = pass->scales_.data();
  row.inverse = 1 / row.divisor;
  row.inverse2 = 1 / row.divisor2;
  pass->multipliers_ = pass->scales_;
  for (float& m : pass->multipliers_) m *= row.inverse;
  row.multipliers = pass->multipliers_.data();
  return pass;
}

std::shared_ptr<const RequantizePass> RequantizePass::match(const BoundNode& node, size_t first_operand, size_t column_axis,
                                                            std::span<const float> scales) {
  auto pass = match_any(node, first_operand, column_axis, false, scales);
  if (pass) pass->repeat_for_few_columns(node.outputs[0].shape[column_axis]);
  return pass;
}

std::shared_ptr<const RequantizePass> RequantizePass::match_channels(const BoundNode& node, size_t first_operand,
                                                                     std::span<const float> scales) {
  return match_any(node, first_operand, 1, true, scales);
}

void RequantizePass::repeat_for_few_columns(int64_t columns) {
  columns_ = columns;
  if (columns >= few_columns) return;
  const auto all = static_cast<size_t>(columns * rows_as_one);
  for (std::vector<float>* v : {&scales_, &addends_, &multipliers_}) {
    if (v->empty()) continue;
    v->resize(all + igemm::tile_columns);
    for (size_t i = static_cast<size_t>(columns); i < all; ++i) (*v)[i] = (*v)[i - static_cast<size_t>(columns)];
    std::fill(v->begin() + static_cast<std::ptrdiff_t>(all), v->end(), 0.0f);
  }
  row_.scales = scales_.data(), row_.multipliers = multipliers_.data();
  if (row_.addends) row_.addends = addends_.data();
}

void RequantizePass::run_few_columns(const igemm::Sums& s, const int32_t* start, uint8_t* y, const uint8_t* residual) const {
  constexpr int64_t most = few_columns * rows_as_one + igemm::tile_columns;
  std::array<int32_t, most> starts, dense;
  const int64_t rows_here = std::min(s.rows, rows_as_one);
  if (start) {
    for (int64_t r = 0; r < rows_here; ++r) std::copy_n(start, columns_, starts.data() + r * columns_);
  }
  const RowFunctions& rows = avx2::integer_rows();
  const auto* sums = reinterpret_cast<const int32_t*>(s.sums);
  for (int64_t row = 0; row < s.rows; row += rows_as_one) {
    const int64_t count = std::min(rows_as_one, s.rows - row), at = (s.row + row) * columns_;
    const int32_t* from = sums + row * s.stride;
    if (s.stride != columns_) {
      copy_lines(dense.data(), from, count, columns_ * 4, columns_ * 4, s.stride * 4);
      std::fill_n(dense.data() + count * columns_, igemm::tile_columns, 0);
      from = dense.data();
    }
    rows.requantize(row_, {from, start ? starts.data() : nullptr, 1, 0, count * columns_, residual ? residual + at : nullptr,
                           y + at, 0, 0, 0});
  }
}

void RequantizePass::run(const igemm::Sums& s, const int32_t* start, int64_t first_column, const igemm::RowMap& output_rows,
                         const Buffers& b) const {
  const RowFunctions& rows = avx2::integer_rows();
  const int64_t column = first_column + s.column;
  uint8_t* y = static_cast<uint8_t*>(b.outputs[0]) + column;
  const uint8_t* residual =
      residual_ < 0 ? nullptr : static_cast<const uint8_t*>(b.inputs[static_cast<size_t>(residual_)]) + column;
  if (start) start += s.column;
  const auto is_dense = [&](const igemm::RowMap& rows) { return rows.linear() && rows.step() == columns_; };
  if (columns_ < few_columns && s.columns == columns_ && s.rows > 1 && is_dense(output_rows) &&
      (!residual || is_dense(residual_rows_)))
    return run_few_columns(s, start, y, residual);
  SumRows all{reinterpret_cast<const int32_t*>(s.sums), start, s.rows, column, s.columns, residual, y, s.stride, 0, 0};
  if (output_rows.linear() && (!residual || residual_rows_.linear())) {
    all.to_step = output_rows.step();
    all.to += s.row * all.to_step;
    if (residual) all.residual_step = residual_rows_.step();
    if (residual) all.residual += s.row * all.residual_step;
    return rows.requantize(row_, all);
  }
  igemm::RowMap::Walk to(output_rows, s.row), from(residual_rows_, s.row);
  all.rows = 1;
  for (int64_t r = 0; r < s.rows; ++r, to.next(), from.next(), all.sums += s.stride) {
    all.to = y + to.offset();
    if (residual) all.residual = residual + from.offset();
    rows.requantize(row_, all);
  }
}

void RequantizePass::run_channel(const int32_t* sums, int64_t count, int64_t channel, int64_t at, const Buffers& b) const {
  const auto c = static_cast<size_t>(channel);
  std::array<float, igemm::tile_columns> scales, multipliers, addends;
  scales.fill(scales_[c]), multipliers.fill(multipliers_[c]);
  Requantization row = row_;
  row.same_for_all = true;
  row.scales = scales.data(), row.multipliers = multipliers.data();
  if (row.addends) {
    addends.fill(addends_[c]);
    row.addends = addends.data();
  }
  auto* y = static_cast<uint8_t*>(b.outputs[0]) + at;
  const auto* residual = residual_ < 0 ? nullptr : static_cast<const uint8_t*>(b.inputs[static_cast<size_t>(residual_)]) + at;
  avx2::integer_rows().requantize(row, {sums, nullptr, 1, 0, count, residual, y, 0, 0, 0});
}

}  // namespace smelt::ops::integer
