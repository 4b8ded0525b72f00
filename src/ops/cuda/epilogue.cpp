#include "ops/cuda/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/strides.h"
#include "ops/core/tactic.h"

namespace smelt::ops {
namespace {

constexpr size_t most_operands = 30;

Shape select(const Shape& s, const std::vector<size_t>& axes) {
  Shape chosen;
  for (const size_t a : axes) chosen.push_back(s[a]);
  return chosen;
}

int64_t size_of(const BoundTensor& t) { return bytes(t.type, 1); }

}  // namespace

std::variant<CudaEpilogue, std::string> CudaEpilogue::make(const expr::Program& program, const BoundTensor& y,
                                                           std::vector<EpilogueOperand> operands, const EpilogueAxes& axes,
                                                           int64_t width) {
  if (program.outputs().size() != 1 || program.input_count() < 1) fail("an epilogue has one output and at least the input in0");
  if (static_cast<size_t>(program.input_count()) != operands.size() + 1)
    fail("an epilogue's program reads {} operands, the node has {}", program.input_count() - 1, operands.size());
  if (operands.size() > most_operands) return fmt::format("{} operands, an epilogue takes {}", operands.size(), most_operands);
  CudaEpilogue e;
  const size_t rank = y.shape.size();
  std::vector<size_t> rows;
  for (size_t a = 0; a < rank; ++a)
    if (a != axes.column && std::ranges::find(axes.batches, a) == axes.batches.end()) rows.push_back(a);
  std::vector<Shape> row_strides, batch_strides;
  const auto add = [&](const BoundTensor& t) {
    if (t.shape.size() > rank) return false;
    const Shape all = broadcast_strides(t, rank);
    row_strides.push_back(select(all, rows));
    batch_strides.push_back(select(all, axes.batches));
    e.column_steps_.push_back(&t == &y && t.shape[axes.column] == 1 ? 1 : all[axes.column]);
    // Only what moves the first of an access's elements counts for its alignment.
    Shape steps = row_strides.back();
    steps.insert(steps.end(), batch_strides.back().begin(), batch_strides.back().end());
    steps.push_back(e.column_steps_.back());
    e.access_.push_back(access_step(steps, size_of(t), t.alignment, width));
    e.moved_ += elements(t.shape) * size_of(t);
    return true;
  };
  add(y);
  for (const EpilogueOperand& o : operands)
    if (!add(o.tensor)) return fmt::format("an operand of rank {} for a result of rank {}", o.tensor.shape.size(), rank);
  const Shape row_extents = select(y.shape, rows), batch_extents = select(y.shape, axes.batches);
  e.row_count_ = elements(row_extents);
  e.batch_count_ = elements(batch_extents);
  e.row_views_ = in_order(row_extents, row_strides);
  e.batch_views_ = in_order(batch_extents, batch_strides);
  if (!WalkArgument::fits(e.row_views_, 1) || !WalkArgument::fits(e.batch_views_, 1))
    return fmt::format("{} batches of {} rows: 2^31 are counted", e.batch_count_, e.row_count_);
  e.program_ = program;
  e.y_ = y;
  e.operands_ = std::move(operands);
  e.axes_ = axes;
  e.width_ = width;

  const auto append = [&e](const void* from, size_t size) {
    const auto* p = static_cast<const std::byte*>(from);
    e.argument_.insert(e.argument_.end(), p, p + size);
  };
  e.argument_.resize(8 * (e.operands_.size() + 1));  // the addresses
  for (const Views* v : {&e.row_views_, &e.batch_views_}) {
    const WalkArgument walk(*v, 1);
    append(walk.data(), walk.size());
  }
  append(e.column_steps_.data(), 8 * e.column_steps_.size());
  return e;
}

std::string CudaEpilogue::source() const {
  const size_t views = operands_.size() + 1;
  const auto type = [&](size_t v) { return expr::cuda_type(v == 0 ? y_.type : operands_[v - 1].tensor.type); };
  std::string code = "#include \"common/expr.cuh\"\n#include \"pointwise/walk.cuh\"\n\n" + expr::to_cuda(program_, "Program");
  code += fmt::format("\nstruct Epilogue {{\n  using Sum = {};\n  static constexpr int width = {};\n",
                      expr::cuda_type(program_.type(0)), width_);
  for (size_t v = 0; v < views; ++v) code += fmt::format("  {}{}* view{};\n", v ? "const " : "", type(v), v);
  code += fmt::format("  Walk<{}, {}> rows;\n  Walk<{}, {}> batches;\n  i64 steps[{}];\n", row_views_.extents.size(), views,
                      batch_views_.extents.size(), views, views);
  code += fmt::format(
      "  struct Start {{ i64 at[{}]; }};\n"
      "  __device__ __forceinline__ Start start(u32 batch) const {{\n    Start s;\n    batches.locate<1>(batch, s.at);\n"
      "    return s;\n  }}\n",
      views);
  code += fmt::format(
      "  __device__ __forceinline__ void apply(const Start& s, u32 row, u32 column, u32 count, const Sum (&sums)[{}]) const {{\n"
      "    i64 at[{}];\n    rows.locate<1>(row, at);\n",
      width_, views);
  // Where the elements of an access lie side by side, or are one, their distance need not be read.
  const auto step = [&](size_t v) { return access_[v] >= 0 ? fmt::format("{}ll", access_[v]) : fmt::format("steps[{}]", v); };
  std::string arguments = "sums[i]";
  for (size_t v = 1; v < views; ++v) {
    code += fmt::format("    Vector<{}, {}> x{};\n    load<{}>(x{}, view{}, s.at[{}] + at[{}] + column * {}, {}, count);\n",
                        type(v), width_, v, access_[v], v, v, v, v, step(v), step(v));
    arguments += fmt::format(", x{}.at[i]", v);
  }
  code += fmt::format("    Vector<{}, {}> y;\n#pragma unroll\n    for (int i = 0; i < {}; ++i) Program::apply({}, y.at[i]);\n",
                      type(0), width_, width_, arguments);
  code += fmt::format("    store<{}>(view0, s.at[0] + at[0] + column * {}, {}, count, y);\n  }}\n}};\n", access_[0], step(0),
                      step(0));
  return code;
}

std::string CudaEpilogue::text() const {
  std::string text = program_.operations() == 0 && operands_.empty() ? "none" : program_.print();
  for (const EpilogueOperand& o : operands_) text += ";" + ops::print(o.tensor);
  for (const int a : access_) text += fmt::format("{}{}", &a == &access_[0] ? ";" : ",", a);
  return text;
}

bool CudaEpilogue::reads(size_t i) const { return std::ranges::find(operands_, i, &EpilogueOperand::input) != operands_.end(); }

bool CudaEpilogue::in_place(size_t i) const {
  size_t count = 0, at = 0;
  for (size_t o = 0; o < operands_.size(); ++o)
    if (operands_[o].input == i) ++count, at = o;
  return count == 1 && operands_[at].tensor.shape == y_.shape && memory_strides(operands_[at].tensor) == memory_strides(y_);
}

const void* CudaEpilogue::argument(const Buffers& b) {
  for (size_t v = 0; v <= operands_.size(); ++v) {
    const void* address = b.outputs[0];
    if (v > 0)
      address = operands_[v - 1].input == EpilogueOperand::no_input ? operands_[v - 1].memory : b.inputs[operands_[v - 1].input];
    std::memcpy(argument_.data() + 8 * v, &address, 8);
  }
  return argument_.data();
}

expr::Program epilogue_program(const Node& node, DType y, double alpha) {
  expr::Program p = node.program ? *node.program : expr::conversion(DType::f32, y);
  if (alpha == 1) return p;
  expr::Program scaled;
  std::vector<expr::Ref> inputs;
  for (int i = 0; i < p.input_count(); ++i) inputs.push_back(scaled.input(p.type(i)));
  const DType type = p.type(0);
  inputs[0] = scaled.call(expr::Fn::mul, inputs[0], scaled.constant(type, alpha));
  for (const expr::Ref r : scaled.splice(p, inputs)) scaled.output(r);
  return scaled;
}

std::vector<EpilogueOperand> epilogue_operands(const BoundNode& node, size_t first) {
  std::vector<EpilogueOperand> operands;
  for (size_t i = first; i < node.inputs.size(); ++i)
    if (node.inputs[i].type != DType::undefined) operands.push_back({node.inputs[i], i, nullptr});
  return operands;
}

}  // namespace smelt::ops
