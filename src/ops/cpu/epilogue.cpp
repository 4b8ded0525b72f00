#include "ops/cpu/epilogue.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/value_of.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/float_pass.h"
#include "ops/cpu/integer/requantize_pass.h"
#include "ops/cpu/program_end.h"

namespace smelt::ops {
namespace {

/// True when the operand has an element of its own for each of the output's.
bool is_full(const BoundTensor& operand, const Shape& output) { return elements(operand.shape) == elements(output); }

int element_bytes(DType t) { return static_cast<int>(bytes(t, 1)); }

/// `input` where the node reads it once, else -1.
int read_once(const Node& node, int input) {
  return input >= 0 && std::ranges::count(node.inputs, node.inputs[static_cast<size_t>(input)]) == 1 ? input : -1;
}

/// The constant's numbers. f32, which nearly all are, is copied as it is: epilogues are made several times for each shape.
std::vector<float> floats_of(const Tensor& t) {
  if (t.type() == DType::f32) return {t.span<float>().begin(), t.span<float>().end()};
  const std::vector<double> values = t.to_doubles();
  return {values.begin(), values.end()};
}

/// Of a bias: the last panel, which may begin at any column, reads all of its width.
size_t bias_floats(int64_t columns) { return static_cast<size_t>(columns + igemm::tile_columns); }

}  // namespace

std::optional<Refusal> rejects_operands(size_t count) {
  constexpr size_t most = 14;
  if (count > most) return refuse(Reason::too_large, "{} operands; it takes {}", count, most);
  return std::nullopt;
}

CpuEpilogue::CpuEpilogue(const BoundNode& node, size_t first_operand, size_t column_axis, const Tensor& bias) {
  locate(node, first_operand, column_axis);
  if (bias.valid()) {
    bias_ = floats_of(bias);
    bias_.resize(std::max(bias_.size(), bias_floats(node.outputs[0].shape[column_axis])), 0.0f);
    text_ = "bias";
  }
  match_simple(node, first_operand, column_axis);
  if (simple_) in_place_ = read_once(*node.node, simple_->residual);
}

CpuEpilogue::CpuEpilogue(const BoundNode& node, size_t first_operand, size_t column_axis, std::span<const float> scales) {
  locate(node, first_operand, column_axis);
  requantize_ = integer::RequantizePass::match(node, first_operand, column_axis, scales);
  text_ = value_of(node.node->program, "the program over 32-bit sums").print();
  if (requantize_) {
    in_place_ = read_once(*node.node, requantize_->residual());
    return;
  }
  floats_ = integer::FloatPass::match(node, first_operand, column_axis, scales);
  if (floats_) {
    in_place_ = read_once(*node.node, floats_->residual());
    return;
  }
  match_general(node);
  scales_.assign(static_cast<size_t>(node.outputs[0].shape[column_axis]), scales[0]);
  if (scales.size() > 1) std::ranges::copy(scales, scales_.begin());
}

void CpuEpilogue::locate(const BoundNode& node, size_t first_operand, size_t column_axis) {
  const BoundTensor& y = node.outputs[0];
  const Shape grid = without(y.shape, column_axis);
  const auto side = [&](const BoundTensor& t, Side& s) {
    const Shape all = broadcast_strides(t, y.shape.size());
    s.rows = igemm::RowMap(grid, without(all, column_axis));
    s.column = all[column_axis];
    s.bytes = element_bytes(t.type);
  };
  side(y, output_);
  if (output_.column == 0) output_.column = 1;
  for (size_t i = first_operand; i < node.inputs.size(); ++i) {
    if (node.inputs[i].type == DType::undefined) continue;
    Operand o;
    side(node.inputs[i], o);
    o.input = i;
    operands_.push_back(o);
  }
}

void CpuEpilogue::match_general(const BoundNode& node) {
  const DType y = node.outputs[0].type;
  const expr::Program p =
      node.node->program ? *node.node->program : expr::conversion(y == DType::f64 ? DType::f64 : DType::f32, y);
  if (p.outputs().size() != 1 || p.input_count() < 1) fail("an epilogue has one output and at least the input in0");
  evaluator_.emplace(p);
  Key key((bias_.empty() ? "" : "bias+") + p.print());
  for (const Operand& o : operands_) key.option(";", node.inputs[o.input]);
  text_ = key.text();
  scratch_ = general_scratch();
}

void CpuEpilogue::match_simple(const BoundNode& node, size_t first_operand, size_t column_axis) {
  const BoundTensor& y = node.outputs[0];
  const auto say = [this](const std::string& what) { text_ += (text_.empty() ? "" : "+") + what; };
  if (!node.node->program) {
    if (y.type != DType::f32) return match_general(node);
    simple_ = Simple{};
    if (text_.empty()) text_ = "none";
    return;
  }
  const expr::Program& p = *node.node->program;
  if (p.outputs().size() != 1 || p.input_count() < 1) fail("an epilogue has one output and at least the input in0");
  if (y.type != DType::f32 || output_.column != 1 || p.type(0) != DType::f32) return match_general(node);

  const ProgramEnd end = program_end(p);
  Simple simple{-1, end.end};
  std::vector<float> bias = bias_;
  bool biased = false;
  expr::Ref at = end.argument;
  while (at != 0) {
    const expr::Instruction& add = p.code()[static_cast<size_t>(at)];
    if (add.fn != expr::Fn::add) return match_general(node);
    const int side = p.code()[static_cast<size_t>(add.args[1])].fn == expr::Fn::input && add.args[1] != 0 ? 1 : 0;
    const expr::Instruction& in = p.code()[static_cast<size_t>(add.args[side])];
    if (in.fn != expr::Fn::input || add.args[side] == 0 || in.type != DType::f32) return match_general(node);
    const size_t input = first_operand + static_cast<size_t>(in.index) - 1;
    const BoundTensor& operand = node.inputs[input];
    if (operand.constant.valid() && varies_along_only(operand, y.shape, column_axis)) {
      const std::vector<float> values = floats_of(operand.constant);
      const size_t columns = static_cast<size_t>(y.shape[column_axis]);
      bias.resize(bias_floats(y.shape[column_axis]), 0.0f);
      for (size_t c = 0; c < columns; ++c) bias[c] += values[values.size() == 1 ? 0 : c];
      biased = true;
    } else if (simple.residual < 0 && is_full(operand, y.shape)) {
      const auto o = std::ranges::find(operands_, input, &Operand::input);
      if (o->column != 1 && y.shape[column_axis] != 1) return match_general(node);
      simple.residual = static_cast<int>(input);
    } else {
      return match_general(node);
    }
    at = add.args[1 - side];
  }
  if (biased && bias_.empty()) say("bias");
  bias_ = std::move(bias);
  if (simple.residual >= 0) say("add");
  if (!end.text.empty()) say(end.text);
  if (text_.empty()) text_ = "none";
  simple_ = simple;
}

const igemm::RowMap& CpuEpilogue::residual_rows() const {
  const Simple& simple = value_of(simple_, "the epilogue that tiles apply");
  return std::ranges::find(operands_, static_cast<size_t>(simple.residual), &Operand::input)->rows;
}

}  // namespace smelt::ops
