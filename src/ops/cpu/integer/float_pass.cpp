#include "ops/cpu/integer/float_pass.h"

#include <algorithm>

#include "base/value_of.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/program.h"
#include "ops/cpu/integer/simd/floats.h"
#include "ops/cpu/program_end.h"

namespace smelt::ops::integer {

std::shared_ptr<const FloatPass> FloatPass::match(const BoundNode& node, size_t first_operand, size_t column_axis,
                                                  std::span<const float> scales) {
  using expr::Fn;
  const expr::Program& p = value_of(node.node->program, "the program over 32-bit sums");
  const BoundTensor& y = node.outputs[0];
  const int64_t columns = y.shape[column_axis];
  if (p.outputs().size() != 1 || p.type(0) != DType::f32 || y.type != DType::f32) return nullptr;
  if (broadcast_strides(y, y.shape.size())[column_axis] != 1 && columns != 1) return nullptr;

  const auto pass = std::make_shared<FloatPass>();
  const ProgramEnd end = program_end(p);
  pass->end_ = end.end;
  expr::Ref r = end.argument;
  // The operand that the instruction `fn` has beside its argument, to which r moves; -1: it is another instruction.
  const auto step_back = [&](Fn fn) {
    const expr::Instruction& i = at(p, r);
    if (r == 0 || i.fn != fn || i.type != DType::f32) return -1;
    for (int side : {1, 0}) {
      const expr::Ref operand = i.args[side];
      if (operand == 0 || at(p, operand).fn != Fn::input || at(p, operand).type != DType::f32) continue;
      r = i.args[1 - side];
      return static_cast<int>(first_operand) + at(p, operand).index - 1;
    }
    return -1;
  };
  const auto operand = [&](int input) -> const BoundTensor& { return node.inputs[static_cast<size_t>(input)]; };
  const auto is_by_column = [&](int input) {
    if (input < 0 || !varies_along_only(operand(input), y.shape, column_axis)) return false;
    const Shape steps = broadcast_strides(operand(input), y.shape.size());
    return elements(operand(input).shape) == 1 || steps[column_axis] == 1;
  };
  int add = step_back(Fn::add);
  if (add >= 0 && elements(operand(add).shape) == elements(y.shape) && !is_by_column(add)) {
    const Shape steps = broadcast_strides(operand(add), y.shape.size());
    if (steps[column_axis] != 1 && columns != 1) return nullptr;
    pass->residual_ = add;
    pass->residual_rows_ = igemm::RowMap(without(y.shape, column_axis), without(steps, column_axis));
    add = step_back(Fn::add);
  }
  if (add >= 0) {
    // One addend for all columns is a constant's: the pass reads as many as there are columns.
    const Tensor* constant = node.constant(static_cast<size_t>(add));
    if (!is_by_column(add) || (!constant && elements(operand(add).shape) != columns)) return nullptr;
    pass->addend_ = add;
    if (constant) {
      const auto values = constant->span<float>();
      pass->addends_.assign(static_cast<size_t>(columns), values[0]);
      if (values.size() > 1) pass->addends_.assign(values.begin(), values.end());
    }
  }
  if (const int factor = step_back(Fn::mul); factor >= 0) {
    if (!is_by_column(factor)) return nullptr;
    pass->factor_ = factor;
    pass->has_one_factor_ = elements(operand(factor).shape) == 1;
  }
  if (r != 0) return nullptr;
  if (std::ranges::all_of(scales, [](float s) { return s == 1; })) return pass;
  pass->scales_.assign(static_cast<size_t>(columns), scales[0]);
  if (scales.size() > 1) pass->scales_.assign(scales.begin(), scales.end());
  return pass;
}

void FloatPass::run(const igemm::Sums& s, const int32_t* start, int64_t first_column, const igemm::RowMap& output_rows,
                    const Buffers& b) const {
  const int64_t column = first_column + s.column;
  const auto input = [&](int i) { return i < 0 ? nullptr : static_cast<const float*>(b.inputs[static_cast<size_t>(i)]); };
  FloatRows all{};
  all.sums = reinterpret_cast<const int32_t*>(s.sums);
  all.start = start ? start + s.column : nullptr;
  all.rows = s.rows, all.columns = s.columns, all.sums_step = s.stride;
  if (!scales_.empty()) all.scales = scales_.data() + column;
  all.has_one_factor = has_one_factor_;
  if (factor_ >= 0) all.factors = input(factor_) + (has_one_factor_ ? 0 : column);
  if (addend_ >= 0) all.addends = (addends_.empty() ? input(addend_) : addends_.data()) + column;
  all.end = end_;
  float* y = static_cast<float*>(b.outputs[0]) + column;
  const float* residual = residual_ < 0 ? nullptr : input(residual_) + column;
  if (output_rows.linear() && (!residual || residual_rows_.linear())) {
    all.to_step = output_rows.step();
    all.to = y + s.row * all.to_step;
    if (residual) all.residual_step = residual_rows_.step();
    if (residual) all.residual = residual + s.row * all.residual_step;
    return avx2::floats_of_sums(all);
  }
  igemm::RowMap::Walk to(output_rows, s.row), from(residual_rows_, s.row);
  all.rows = 1;
  for (int64_t r = 0; r < s.rows; ++r, to.next(), from.next(), all.sums += s.stride) {
    all.to = y + to.offset();
    if (residual) all.residual = residual + from.offset();
    avx2::floats_of_sums(all);
  }
}

}  // namespace smelt::ops::integer
