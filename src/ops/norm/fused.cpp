// ai.smelt's Norm: layer or root-mean-square normalisation of a sum, then the program.
#include <cmath>

#include "base/error.h"
#include "graph/fused.h"
#include "ops/core/function_body.h"
#include "ops/core/fused.h"
#include "ops/core/loops.h"
#include "ops/norm/family.h"

namespace smelt::ops {
namespace {

struct NormShape {
  NormShape(const Node& n, const Shape& x);
  std::string kind;  // "rms", "layer"
  double epsilon;
  int64_t rows = 0, width = 0;  // normalised over `width` elements at a time
};

NormShape::NormShape(const Node& n, const Shape& x) : kind(n.get_string("kind", "")), epsilon(n.get_float("epsilon", 1e-5f)) {
  if (kind != "rms" && kind != "layer") fail("kind = '{}', expected 'rms' or 'layer'", kind);
  const auto axis = static_cast<size_t>(normalize_axis(n.get_int("axis", -1), static_cast<int64_t>(x.size())));
  rows = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
  width = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end()));
}

void infer_fused_norm(InferContext& c) {
  const TensorDesc& x = c.in(0);
  if (!x.present()) fail("input 0 is required and was left out");
  const DType type = program_type(c.node, x.type);
  if (!x.shape_known) {
    c.set_type(0, type);
    return c.set_type(1, x.type);
  }
  const NormShape checked(c.node, x.shape);  // throws where the node does not fit x
  for (size_t i = 1; i < 4; ++i)
    if (c.has(i) && c.in(i).shape_known && broadcast(c.in(i).shape, x.shape) != x.shape)
      fail("input {} has shape {}, which does not broadcast to x's {}", i, to_string(c.in(i).shape), to_string(x.shape));
  check_operands(c, 4, x.shape);
  c.set(0, type, x.shape);
  c.set(1, x.type, x.shape);
}

/// x + residual rounded to x's type.
Tensor residual_sum(const Tensor& x, const Tensor& residual) {
  if (!residual.valid()) return x;
  return evaluate(plain_node("Add", 2), std::vector{x, residual})[0];
}

template <class C> void norm(ComputeContext& c, const Tensor& sum) {
  const NormShape s(c.node, sum.shape());
  Tensor in0 = Tensor::empty(dtype_of<C>::value, sum.shape());
  C* y = in0.data<C>();
  load(sum, 0, 1, sum.size(), y);
  for (int64_t row = 0; row < s.rows; ++row) {
    C* r = y + row * s.width;
    if (s.kind == "layer") {
      C total = 0;
      for (int64_t i = 0; i < s.width; ++i) total += r[i];
      const C mean = total / static_cast<C>(s.width);
      for (int64_t i = 0; i < s.width; ++i) r[i] -= mean;
    }
    C squares = 0;
    for (int64_t i = 0; i < s.width; ++i) squares += r[i] * r[i];
    const C deviation = std::sqrt(squares / static_cast<C>(s.width) + static_cast<C>(s.epsilon));
    for (int64_t i = 0; i < s.width; ++i) r[i] /= deviation;
  }
  if (c.has(2)) {
    const auto gamma = spread<C>(c.in(2), sum.shape());
    for (size_t i = 0; i < gamma.size(); ++i) y[i] *= gamma[i];
  }
  if (c.has(3)) {
    const auto beta = spread<C>(c.in(3), sum.shape());
    for (size_t i = 0; i < beta.size(); ++i) y[i] += beta[i];
  }
  c.outputs[0] = run_epilogue(c, in0, 4, c.outputs[0].type());
}

void run_fused_norm(ComputeContext& c) {
  const Tensor sum = residual_sum(c.in(0), c.in(1));
  if (accumulator(c.outputs[0].type()) == DType::f64)
    norm<double>(c, sum);
  else
    norm<float>(c, sum);
  if (c.outputs.size() > 1 && c.node.out(1) != ValueId::none) c.outputs[1] = sum.clone();
}

std::vector<ValueId> expand_norm(Body& b) {
  const Node& n = b.node();
  const std::string kind = n.get_string("kind", "");
  if (kind != "rms" && kind != "layer") fail("kind = '{}', expected 'rms' or 'layer'", kind);
  const DType c = b.accumulator();
  const int64_t axis = n.get_int("axis", -1), first = axis < 0 ? axis : normalize_axis(axis, b.rank(0)) - b.rank(0);
  constexpr int64_t most = 64;  // axes of any tensor
  if (first < -most || first >= 0) fail("axis = {}, which is none of the last {} axes", axis, most);
  std::vector<int64_t> axes;
  for (int64_t a = first; a < 0; ++a) axes.push_back(a);
  auto mean = [&](ValueId v) { return b.op("ReduceMean", {v, b.ints(axes)}, {{"keepdims", int64_t{1}}}); };

  const ValueId sum = b.has(1) ? b.op("Add", {b.in(0), b.in(1)}) : b.in(0);
  ValueId x = b.cast(sum, c);
  if (kind == "layer") x = b.op("Sub", {x, mean(x)});
  const ValueId variance = mean(b.op("Mul", {x, x}));
  const ValueId deviation = b.op("Sqrt", {b.op("Add", {variance, b.number(c, n.get_float("epsilon", 1e-5f))})});
  ValueId y = b.op("Div", {x, deviation});
  if (b.has(2)) y = b.op("Mul", {y, b.cast(b.in(2), c)});
  if (b.has(3)) y = b.op("Add", {y, b.cast(b.in(3), c)});
  std::vector<ValueId> outputs = {b.epilogue(y, 4)};
  if (n.outputs.size() > 1) outputs.push_back(n.outputs[1] == ValueId::none ? ValueId::none : sum);
  return outputs;
}

}  // namespace

std::span<const OpRow> fused_norm_ops() {
  static constexpr OpRow table[] = {
      {{"Norm", smelt_domain, infer_fused_norm, run_fused_norm, true, expand_norm},
       {.shape = OutShape::input_all, .flops = {.of_input = 8}}},
  };
  return table;
}

}  // namespace smelt::ops
