// Graphs of nodes with bodies, whose steps a profile sees inside of them.
#pragma once

#include <cmath>

#include "support/graphs.h"

namespace smelt::test {

/// y = x · w · w · …, `trips` times, each product through a Relu; then, where its sum is above 0, y + y, else |y|. Neither the trips
/// nor the condition are known before a run.
inline Graph loop_and_if(int64_t width) {
  const SymShape shape = to_sym({width, width});
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean), carried = body.input("carried", shape);
  Tensor weights = random_tensor({width, width}, 3);
  for (float& v : weights.span<float>()) v *= std::sqrt(3.0f / static_cast<float>(width));  // what passes keeps its size
  const ValueId w = body.constant("w", std::move(weights));
  body.output(body.node("again", "Identity", {keep}, SymShape{}, DType::boolean));
  body.output(body.node("bounded", "Relu", {body.node("product", "MatMul", {carried, w}, shape)}, shape));
  const auto branch = [&](const char* name, const char* op, size_t reads) {
    Builder b;
    const ValueId in = b.input("in", shape);
    b.output(b.node(name, op, std::vector<ValueId>(reads, in), shape));
    return std::make_shared<Graph>(std::move(b.g));
  };
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64), x = b.input("x", shape);
  const ValueId go = b.g.add_constant("go", Tensor::scalar(true));
  const ValueId last = b.node("loop", "Loop", {trips, go, x}, shape, DType::f32,
                              {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}});
  const ValueId sum = b.node("sum", "ReduceSum", {last}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId above = b.node("above", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  b.output(b.node(
      "if", "If", {above, last}, shape, DType::f32,
      {{"then_branch", branch("doubled", "Add", 2)}, {"else_branch", branch("positive", "Abs", 1)}, {"captured", int64_t{1}}}));
  return std::move(b.g);
}

}  // namespace smelt::test
