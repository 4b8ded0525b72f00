#include "ops/matmul/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/matmul/matmul.h"

namespace smelt::ops::matmul {
namespace {

Shape extents(std::string_view text) {
  Shape s;
  while (!text.empty()) {
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc{}) fail("matrix product problem: '{}' is not a number", text);
    s.push_back(v);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] != 'x') fail("matrix product problem: '{}' in a shape", text);
    if (!text.empty()) text.remove_prefix(1);
  }
  return s;
}

/// The text up to `by`, which is removed with it.
std::string_view take(std::string_view& text, char by, std::string_view whole) {
  const size_t end = text.find(by);
  if (end == std::string_view::npos) fail("matrix product problem '{}': expected gemm:types:shape:storage:epilogue", whole);
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(end + 1);
  return head;
}

DType element_type(std::string_view text) {
  const auto t = parse_dtype(text);
  if (!t) fail("matrix product problem: no element type '{}'", text);
  return *t;
}

/// program(in0, c) of Gemm: in0 + beta · c.
expr::Program gemm_program(const BoundNode& node, float beta) {
  const DType wide = node.outputs[0].type == DType::f64 ? DType::f64 : DType::f32;
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
  std::string shape;
  if (!p.a_batch.empty()) {
    shape = to_text(p.a_batch);
    if (p.a_batch != p.b_batch) shape += "," + to_text(p.b_batch);
    shape += "*";
  }
  return fmt::format("gemm:{}>{}:{}{}x{}x{}:{}{}r{}:{}", smelt::name(p.input), smelt::name(p.output), shape, p.m, p.n, p.k,
                     p.a_columns ? 'c' : 'r', p.b_columns ? 'c' : 'r', p.b_computed ? ",computed" : "", p.epilogue);
}

Problem parse(std::string_view text) {
  const std::string_view whole = text;
  if (take(text, ':', whole) != "gemm") fail("matrix product problem '{}': expected gemm:…", whole);
  Problem p;
  std::string_view types = take(text, ':', whole), shape = take(text, ':', whole);
  p.input = element_type(take(types, '>', whole));
  p.output = element_type(types);
  if (shape.find('*') != std::string_view::npos) {
    std::string_view batch = take(shape, '*', whole);
    if (batch.find(',') != std::string_view::npos) p.a_batch = extents(take(batch, ',', whole));
    p.b_batch = extents(batch);
    if (p.a_batch.empty()) p.a_batch = p.b_batch;
    if (p.a_batch.size() != p.b_batch.size()) fail("matrix product problem '{}': batches of different rank", whole);
  }
  const Shape mnk = extents(shape);
  if (mnk.size() != 3) fail("matrix product problem '{}': expected MxNxK", whole);
  p.m = mnk[0], p.n = mnk[1], p.k = mnk[2];
  std::string_view storage = take(text, ':', whole);
  p.b_computed = storage.ends_with(",computed");
  if (p.b_computed) storage.remove_suffix(std::string_view(",computed").size());
  if (storage.size() != 3 || storage.find_first_not_of("rc") != std::string_view::npos)
    fail("matrix product problem '{}': storage '{}'", whole, storage);
  p.a_columns = storage[0] == 'c';
  p.b_columns = storage[1] == 'c';
  p.epilogue = std::string(text);
  return p;
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
    node->program = gemm_program(b, beta);
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
