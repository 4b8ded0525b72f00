#include "ops/cuda/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "kernels/pointwise/epilogue.h"
#include "ops/core/key.h"
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

Result<CudaEpilogue> CudaEpilogue::make(const expr::Program& program, const BoundTensor& y, std::vector<EpilogueOperand> operands,
                                        const EpilogueAxes& axes, int64_t width) {
  if (program.outputs().size() != 1 || program.input_count() < 1) fail("an epilogue has one output and at least the input in0");
  if (static_cast<size_t>(program.input_count()) != operands.size() + 1)
    fail("an epilogue's program reads {} operands, the node has {}", program.input_count() - 1, operands.size());
  if (operands.size() > most_operands)
    return refuse(Reason::too_large, "{} operands, an epilogue takes {}", operands.size(), most_operands);
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
  constexpr int at_an_index = 2;
  for (const EpilogueOperand& o : operands) {
    if (!add(o.tensor))
      return refuse(Reason::wrong_rank, "an operand of rank {} for a result of rank {}", o.tensor.shape.size(), rank);
    if (o.by_index) e.access_.back() = at_an_index;
  }
  const Shape row_extents = select(y.shape, rows), batch_extents = select(y.shape, axes.batches);
  e.row_count_ = elements(row_extents);
  e.batch_count_ = elements(batch_extents);
  e.row_views_ = in_order(row_extents, row_strides);
  e.batch_views_ = in_order(batch_extents, batch_strides);
  if (!WalkArgument::fits(e.row_views_, 1) || !WalkArgument::fits(e.batch_views_, 1))
    return refuse(Reason::too_large, "{} batches of {} rows: 2^31 are counted", e.batch_count_, e.row_count_);
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
  const auto count = [](size_t n) { return static_cast<int>(n); };
  const uint64_t expected =
      kernels::epilogue_bytes(count(e.row_views_.extents.size()), count(e.batch_views_.extents.size()), count(e.access_.size()));
  if (e.argument_.size() != expected) fail("EpilogueArgs of {} bytes, expected {}", e.argument_.size(), expected);
  return e;
}

CudaEpilogue CudaEpilogue::at_width(int64_t width) const {
  CudaEpilogue other = *make(program_, y_, operands_, axes_, width);
  other.sums_most_ = sums_most_;
  return other;
}

bool CudaEpilogue::varies_by_row(size_t tensor) const {
  if (tensor > 0 && operands_[tensor - 1].by_index) return true;
  for (size_t a = 0; a < row_views_.extents.size(); ++a)
    if (row_views_.extents[a] != 1 && row_views_.strides[tensor][a] != 0) return true;
  return false;
}

CudaEpilogue CudaEpilogue::widened(int64_t width) const {
  if (columns() % width != 0) return *this;
  const CudaEpilogue wide = at_width(width);
  return wide.access_ == access_ ? wide : *this;
}

std::string CudaEpilogue::source() const {
  const std::string config =
      config_source("EpilogueConfig",
                    {{"width", width_}, {"row_rank", row_views_.extents.size()}, {"batch_rank", batch_views_.extents.size()}});
  std::vector<double> most{sums_most_};
  for (const EpilogueOperand& o : operands_) most.push_back(o.most);
  std::string views;
  for (size_t t = 0; t < access_.size(); ++t)
    views += fmt::format(", View<{}, {}>", expr::cuda_type(t == 0 ? y_.type : operands_[t - 1].tensor.type), access_[t]);
  return fmt::format(
      "#include \"pointwise/epilogue.cuh\"\n\n{}\n"
      "struct Epilogue : ProgramEpilogue<{},\n                                  Program, {}{}> {{}};\n",
      expr::to_cuda(program_, "Program", most), config, expr::cuda_type(program_.type(0)), views);
}

std::string CudaEpilogue::source(KernelEntry entry, size_t bytes, size_t alignment) const {
  entry.arguments = fmt::format("WithEpilogue<{}, Epilogue>", entry.arguments);
  return source() + entry_source(entry, (bytes + this->bytes() + alignment - 1) / alignment * alignment);
}

std::string CudaEpilogue::text() const {
  Key key(program_.operations() == 0 && operands_.empty() ? "none" : program_.print());
  for (const EpilogueOperand& o : operands_) key.option(";", o.tensor).begins("", o.tensor);
  if (!is_dense(y_)) key.option(";y=", y_);
  for (const int a : access_) key.option(",", a);
  return key.text();
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
    if (v > 0) {
      const EpilogueOperand& o = operands_[v - 1];
      address = o.input != EpilogueOperand::no_input ? b.inputs[o.input]
                : o.memory                           ? reinterpret_cast<const void*>(o.memory->address())
                                                     : nullptr;
    }
    std::memcpy(argument_.data() + 8 * v, static_cast<const void*>(&address), 8);
  }
  return argument_.data();
}

expr::Program epilogue_program(const Node& node, DType sums, DType y, double alpha) {
  expr::Program p = node.program ? *node.program : expr::conversion(sums, y);
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
