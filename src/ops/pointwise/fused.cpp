// ai.smelt's Pointwise: the program over the broadcast operands.
#include "ops/pointwise/fused.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/program.h"
#include "ops/pointwise/family.h"

namespace smelt::ops {

std::optional<Shape> operand_shape(const InferContext& c, size_t from, size_t to) {
  std::vector<Shape> shapes;
  for (size_t i = from; i < to; ++i) {
    if (!c.in(i).present()) fail("operand {} is left out", i);
    if (!c.in(i).shape_known) return std::nullopt;
    shapes.push_back(c.in(i).shape);
  }
  return broadcast_all(shapes);
}

void check_program(const expr::Program& p, const InferContext& c, size_t from, size_t to, size_t own) {
  if (static_cast<size_t>(p.input_count()) != own + to - from)
    fail("the program has {} inputs, expected {}", p.input_count(), own + to - from);
  for (size_t i = from; i < to; ++i) {
    const DType wanted = p.type(static_cast<expr::Ref>(own + i - from));
    if (c.in(i).present() && c.in(i).type != wanted)
      fail("operand {} is {}, the program takes {}", i, name(c.in(i).type), name(wanted));
  }
}

Shape broadcast_shape(std::span<const Tensor> tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& t : tensors) shapes.push_back(t.shape());
  return broadcast_all(shapes);
}

const expr::Program& required_program(const Node& n) {
  if (!n.program || n.program->outputs().empty()) fail("it needs a program with an output");
  return *n.program;
}

namespace {

/// Which of the program's inputs each of its outputs depends on.
std::vector<std::vector<bool>> dependences(const expr::Program& p) {
  std::vector<std::vector<bool>> of(p.code().size(), std::vector<bool>(static_cast<size_t>(p.input_count())));
  for (size_t i = 0; i < of.size(); ++i) {
    if (i < static_cast<size_t>(p.input_count())) of[i][i] = true;
    for (expr::Ref a : p.code()[i].args)
      if (a >= 0)
        for (size_t k = 0; k < of[i].size(); ++k)
          if (of[static_cast<size_t>(a)][k]) of[i][k] = true;
  }
  std::vector<std::vector<bool>> outputs;
  for (expr::Ref r : p.outputs()) outputs.push_back(of[static_cast<size_t>(r)]);
  return outputs;
}

/// True when `s` is known to be at least as large as `other` along every axis, so that broadcasting against it changes nothing.
bool covers(const std::optional<SymShape>& s, const std::optional<SymShape>& other) {
  if (!s || !other || other->size() > s->size()) return false;
  for (size_t i = 0; i < other->size(); ++i) {
    const Dim &mine = (*s)[s->size() - other->size() + i], &theirs = (*other)[i];
    const bool same = mine == theirs && (mine.known() || !mine.symbol.empty());
    if (!same && !(theirs.known() && theirs.value == 1)) return false;
  }
  return true;
}

}  // namespace

std::vector<ValueId> full_outputs(Body& b, const expr::Program& p, std::span<const ValueId> inputs) {
  std::vector<ValueId> outputs = b.program(p, inputs);
  const auto reads = dependences(p);
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (reads[o][i]) continue;
      bool covered = false;
      for (size_t k = 0; k < inputs.size() && !covered; ++k)
        covered = reads[o][k] && covers(b.shape_of(inputs[k]), b.shape_of(inputs[i]));
      if (!covered) outputs[o] = b.op("Expand", {outputs[o], b.op("Shape", {inputs[i]}, DType::i64)});
    }
  }
  return outputs;
}

namespace {

void infer_fused_pointwise(InferContext& c) {
  const expr::Program& p = required_program(c.node);
  check_program(p, c, 0, c.inputs.size(), 0);
  if (p.outputs().size() != c.outputs.size())
    fail("the program has {} outputs, the node {}", p.outputs().size(), c.outputs.size());
  const auto shape = operand_shape(c, 0, c.inputs.size());
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    const DType type = p.type(p.outputs()[o]);
    if (shape)
      c.set(o, type, *shape);
    else
      c.set_type(o, type);
  }
}

void run_fused_pointwise(ComputeContext& c) {
  const auto results = evaluate_program(required_program(c.node), c.inputs, broadcast_shape(c.inputs));
  for (size_t o = 0; o < c.outputs.size(); ++o) c.outputs[o] = results[o];
}

std::vector<ValueId> expand_pointwise(Body& b) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) inputs.push_back(b.in(i));
  return full_outputs(b, required_program(b.node()), inputs);
}

}  // namespace

std::span<const OpRow> fused_pointwise_ops() {
  static constexpr OpRow table[] = {
      {{"Pointwise", smelt_domain, infer_fused_pointwise, run_fused_pointwise, true, expand_pointwise},
       broadcasting(Expression::program_of_node(), {.flops = no_flops})},
  };
  return table;
}

}  // namespace smelt::ops
