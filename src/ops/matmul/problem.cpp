#include "ops/matmul/problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/matmul/matmul.h"

namespace smelt::ops::matmul {
namespace {

/// program(in0, c) of a Gemm of integers that alpha or beta scale, in double: alpha · in0 + beta · c.
expr::Program scaled_integers(const BoundNode& node, float alpha, float beta) {
  const DType type = node.outputs[0].type;
  expr::Program p;
  const expr::Ref sum = p.input(type), c = node.has(2) ? p.input(node.inputs[2].type) : sum;
  const auto scaled = [&](expr::Ref v, float by) {
    return p.call(expr::Fn::mul, p.constant(DType::f64, static_cast<double>(by)), p.cast(v, DType::f64));
  };
  expr::Ref result = scaled(sum, alpha);
  if (node.has(2)) result = p.call(expr::Fn::add, result, scaled(c, beta));
  p.output(p.cast(p.call(expr::Fn::select, p.call(expr::Fn::is_nan, result), p.constant(DType::f64, 0), result), type));
  return p;
}

/// program(in0, c) of Gemm: in0 + beta · c.
expr::Program gemm_program(const BoundNode& node, float beta) {
  const DType type = node.outputs[0].type, wide = is_float(type) && type != DType::f64 ? DType::f32 : type;
  expr::Program p;
  const expr::Ref sum = p.input(wide);
  expr::Ref result = sum;
  if (node.inputs.size() > 2 && node.inputs[2].type != DType::undefined) {
    expr::Ref c = p.cast(p.input(node.inputs[2].type), wide);
    if (beta != 1) c = p.call(expr::Fn::mul, c, p.constant(wide, beta));
    result = p.call(expr::Fn::add, sum, c);
  }
  p.output(p.cast(result, node.outputs[0].type));
  return p;
}

}  // namespace

int64_t Problem::batch() const {
  int64_t count = 1;
  for (size_t i = 0; i < a_batch.size(); ++i) count *= std::max(a_batch[i], b_batch[i]);
  return count;
}

std::string print(const Problem& p) {
  Key key("gemm");
  key.field(p.input).to(p.output).field("");
  if (!p.a_batch.empty()) key.option("", p.a_batch).option(",", p.b_batch, p.a_batch).flag("*", true);
  key.option("", Shape{p.m, p.n, p.k}).field(p.a_columns ? 'c' : 'r').option("", p.b_columns ? 'c' : 'r').flag("r", true);
  return key.flag(",computed", p.b_computed).field(p.epilogue).text();
}

Product product(const BoundNode& b) {
  const Node& from = *b.node;
  Product r;
  r.bound = b;
  const bool trans_a = from.get_int("transA", 0) != 0, trans_b = from.get_int("transB", 0) != 0;
  r.alpha = from.get_float("alpha", 1);
  auto node = std::make_shared<Node>(from);
  node->domain = smelt_domain;
  node->op = "MatMul";
  if (from.op == "Gemm") {
    const float beta = from.get_float("beta", 1);
    const bool scales = is_integer(b.outputs[0].type) && (r.alpha != 1 || beta != 1);
    node->program = scales ? scaled_integers(b, static_cast<float>(r.alpha), beta) : gemm_program(b, beta);
    if (scales) r.alpha = 1;
  }
  r.node = node;
  r.bound.node = r.node.get();

  const MatMulProblem g = matmul_problem(b.inputs[0].shape, b.inputs[1].shape, trans_a, trans_b);
  r.batch = g.batch;
  r.a_steps = g.a_batch;
  r.b_steps = g.b_batch;
  r.a_row = g.a_row, r.a_column = g.a_col, r.b_row = g.b_row, r.b_column = g.b_col;
  r.problem.input = b.inputs[0].type;
  r.problem.output = b.outputs[0].type;
  r.problem.m = g.m, r.problem.n = g.n, r.problem.k = g.k;
  r.problem.a_columns = trans_a && b.inputs[0].shape.size() > 1;
  r.problem.b_columns = trans_b && b.inputs[1].shape.size() > 1;
  r.problem.b_computed = !b.inputs[1].constant.valid();
  const bool shared_b = std::ranges::all_of(g.b_batch, [](int64_t step) { return step == 0; });
  if (shared_b && !r.problem.a_columns) {
    r.problem.m *= elements(g.batch);  // one tall matrix
  } else {
    for (size_t i = 0; i < g.batch.size(); ++i) {
      r.problem.a_batch.push_back(g.a_batch[i] == 0 ? 1 : g.batch[i]);
      r.problem.b_batch.push_back(g.b_batch[i] == 0 ? 1 : g.batch[i]);
    }
  }
  return r;
}

}  // namespace smelt::ops::matmul
