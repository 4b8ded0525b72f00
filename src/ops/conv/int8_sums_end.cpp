#include "ops/conv/int8_sums_end.h"

#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

const expr::Program& program_of(const Request& q) { return value_of(q.own->program, "the program of an int8 convolution"); }

bool adds_bias(DType sums) { return sums == DType::i32; }

/// in0: the sum, in1: its channel's scale, in2 of integers: its bias, then the program's operands.
expr::Program ending(const Request& q, DType sums) {
  const expr::Program& own = program_of(q);
  expr::Program p;
  expr::Ref sum = p.input(sums);
  const expr::Ref scale = p.input(DType::f32), bias = adds_bias(sums) ? p.input(DType::i32) : -1;
  std::vector<expr::Ref> inputs = {-1};
  for (int i = 1; i < own.input_count(); ++i) inputs.push_back(p.input(own.type(static_cast<expr::Ref>(i))));
  if (adds_bias(sums)) sum = p.cast(p.call(expr::Fn::add, sum, bias), DType::f32);
  inputs[0] = p.call(expr::Fn::mul, sum, scale);
  for (const expr::Ref r : p.splice(own, inputs)) p.output(r);
  return p;
}

/// Where all of them and the result lie, in the result's shape.
std::vector<Shape> views(const Request& q, const BoundTensor& sums) {
  const BoundTensor& y = q.node.outputs[0];
  Shape by_channel(y.shape.size(), 0);
  by_channel[1] = 1;
  std::vector<Shape> all = {memory_strides(sums), by_channel};
  if (adds_bias(sums.type)) all.push_back(by_channel);
  for (int i = 1; i < program_of(q).input_count(); ++i)
    all.push_back(broadcast_strides(q.node.inputs[q.at.operands + static_cast<size_t>(i) - 1], y.shape.size()));
  all.push_back(memory_strides(y));
  return all;
}

}  // namespace

Int8SumsEnd::Int8SumsEnd(const Request& q, const BoundTensor& sums)
    : sweep_(ending(q, sums.type), q.node.outputs[0].shape, views(q, sums), q.threads),
      operands_(q.at.operands),
      first_(adds_bias(sums.type) ? 3 : 2),
      scales_(q.quantization().scales),
      bias_(q.quantization().bias) {
  const auto channels = static_cast<size_t>(q.problem.outputs());
  if (scales_.size() == 1) scales_.resize(channels, scales_[0]);
  bias_.resize(channels, 0);
  inputs_.resize(first_ + static_cast<size_t>(program_of(q).input_count()) - 1);
  inputs_[1] = scales_.data();
  if (adds_bias(sums.type)) inputs_[2] = bias_.data();
}

std::optional<Refusal> Int8SumsEnd::rejects(const Request& q, DType sums) {
  const BoundTensor& y = q.node.outputs[0];
  const Shape steps[] = {memory_strides(y)};
  return Sweep::rejects(ending(q, sums), y.shape, steps);
}

void Int8SumsEnd::run(const void* sums, const Buffers& b, void* scratch) {
  inputs_[0] = sums;
  for (size_t i = first_; i < inputs_.size(); ++i) inputs_[i] = b.inputs[operands_ + i - first_];
  sweep_.run(inputs_, b.outputs, scratch);
}

}  // namespace smelt::ops::conv
