#include "graph/fused.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {
namespace {

/// One row for each fused operator. Operands follow `own` inputs, of which the first `required` must be there.
struct Definition {
  std::string_view op;
  size_t own, required, min_outputs, max_outputs;
  bool operands, in0;  // in0: the program's first input is the operator's own result
};

constexpr Definition definitions[] = {
    {"Conv", 3, 2, 1, 1, true, true},         // with k segments, k - 1 more of both
    {"QLinearConv", 7, 6, 1, 1, true, true},  // likewise
    {"ConvTranspose", 3, 2, 1, 1, true, true},
    {"StemConv", 3, 2, 1, 1, true, true},
    {"StemQLinearConv", 7, 6, 1, 1, true, true},
    {"MatMul", 2, 2, 1, 1, true, true},
    {"QLinearMatMul", 6, 5, 1, 1, true, true},
    {"BlockMatMul", 4, 3, 1, 1, true, true},
    {"JoinedMatMul", 2, 2, 2, SIZE_MAX, true, true},  // of k products, k - 1 more of both, and each one's operands
    {"Norm", 4, 1, 1, 2, true, true},
    {"Attention", 3, 3, 1, 1, true, true},
    {"CachedAttention", 5, 5, 3, 3, true, true},
    {"RotaryEmbedding", 3, 3, 1, 1, false, false},
    {"JoinedRotary", 4, 4, 2, 2, false, false},
    {"Pointwise", 0, 0, 1, SIZE_MAX, true, false},
    {"Reduce", 0, 0, 1, 1, true, false},
};

const Definition& definition(const Node& n) {
  for (const Definition& d : definitions)
    if (d.op == n.op) return d;
  fail("node '{}': ai.smelt defines no operator {}", n.name, n.op);
}

size_t more_segments(const Node& n) {
  if (n.op == "JoinedMatMul") {
    if (n.outputs.size() < 2) fail("node '{}' (ai.smelt.JoinedMatMul): {} outputs, expected 2 or more", n.name, n.outputs.size());
    return n.outputs.size() - 1;
  }
  if (n.op != "Conv" && n.op != "QLinearConv") return 0;
  const int64_t segments = n.get_int("segments", 1);
  if (segments < 1) fail("node '{}' (ai.smelt.{}): segments = {}, expected 1 or more", n.name, n.op, segments);
  return static_cast<size_t>(segments) - 1;
}

/// Optional inputs may be left out; QLinear operators' scales stand between them and may not.
bool may_be_absent(const Node& n, size_t i) {
  if (n.op == "QLinearConv" || n.op == "StemQLinearConv") {
    const size_t more = more_segments(n);
    return i == more + 2 || i == more + 4 || i == more + 6;
  }
  if (n.op == "QLinearMatMul") return i == 3 || i == 5;
  return i >= definition(n).required + more_segments(n);
}

/// `n`: the node, or one of the products that it joins.
void verify_operands(const Graph& g, NodeId id, const Node& n, const expr::Program& p, const Definition& d, size_t first) {
  const size_t operands = n.inputs.size() > first ? n.inputs.size() - first : 0;
  const bool reduce = n.op == "Reduce";
  const size_t read = reduce ? static_cast<size_t>(n.get_int("inputs_before", static_cast<int64_t>(operands))) : operands;
  if (read > operands) fail("{}: inputs_before = {}, but there are {} operands", describe(g, id), read, operands);
  const size_t own = d.in0 ? 1 : 0;
  if (static_cast<size_t>(p.input_count()) != own + read)
    fail("{}: the program has {} inputs, expected {} (its own result: {}, operands: {})", describe(g, id), p.input_count(),
         own + read, own, read);

  const DType compute = accumulator(g.value(n.outputs[0]).type);
  if (d.in0 && p.type(0) != compute)
    fail("{}: the program's in0 is {}, expected {}", describe(g, id), name(p.type(0)), name(compute));
  for (size_t i = 0; i < read; ++i) {
    const DType given = g.value(n.inputs[first + i]).type, taken = p.type(static_cast<expr::Ref>(own + i));
    if (given != taken) fail("{}: operand {} is {}, the program takes {}", describe(g, id), i, name(given), name(taken));
  }
  const size_t results = n.op == "Pointwise" ? n.outputs.size() : 1;
  if (p.outputs().size() != results)
    fail("{}: the program has {} outputs, expected {}", describe(g, id), p.outputs().size(), results);
  if (reduce) return;  // its result is reduced, and `post` gives the type
  for (size_t i = 0; i < results; ++i) {
    const DType made = p.type(p.outputs()[i]);
    const DType wanted =
        n.op == "Attention" || n.op == "CachedAttention" ? compute : g.value(n.outputs[i]).type;  // attention's are the scores
    if (made != wanted) fail("{}: the program's output {} is {}, expected {}", describe(g, id), i, name(made), name(wanted));
  }
}

void verify_program(const Graph& g, NodeId id, const expr::Program& p, const Definition& d, size_t first) {
  const Node& n = g.node(id);
  if (n.op == "JoinedMatMul") {
    const size_t operands = n.inputs.size() - std::min(first, n.inputs.size());
    if (operands % n.outputs.size() != 0)
      fail("{}: {} operands for {} products, expected as many for each", describe(g, id), operands, n.outputs.size());
    for (ValueId v : n.outputs)
      if (v == ValueId::none || g.value(v).type != g.value(n.outputs[0]).type)
        fail("{}: every product needs a result, of one type", describe(g, id));
    for (size_t i = 0; i < n.outputs.size(); ++i) verify_operands(g, id, product_of_joined(n, i), p, d, 2);
    return;
  }
  verify_operands(g, id, n, p, d, first);
}

}  // namespace

bool is_fused_operator(std::string_view op) {
  return std::ranges::find(definitions, op, &Definition::op) != std::end(definitions);
}

size_t first_operand(const Node& n) { return definition(n).own + more_segments(n); }

Node product_of_joined(const Node& n, size_t i) {
  Node one = n;
  one.op = "MatMul";
  if (const std::vector<std::string> names = n.get_strings("names"); i < names.size()) one.name = names[i];
  one.attrs.erase("names");
  const size_t products = n.outputs.size(), first = products + 1;
  const size_t operands = (n.inputs.size() - std::min(first, n.inputs.size())) / products;
  one.inputs = {n.in(0), n.in(1 + i)};
  for (size_t k = 0; k < operands; ++k) one.inputs.push_back(n.inputs[first + i * operands + k]);
  one.outputs = {n.outputs[i]};
  return one;
}

void verify_fused(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const Definition& d = definition(n);
  const size_t first = first_operand(n), required = d.required + more_segments(n);
  if (n.inputs.size() < required) fail("{}: {} inputs, expected at least {}", describe(g, id), n.inputs.size(), required);
  if (n.inputs.size() > first && !d.operands) fail("{}: {} inputs, expected at most {}", describe(g, id), n.inputs.size(), first);
  if (n.outputs.size() < d.min_outputs || n.outputs.size() > d.max_outputs || n.outputs[0] == ValueId::none)
    fail("{}: {} outputs do not fit the operator", describe(g, id), n.outputs.size());
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i] == ValueId::none && (i >= first || !may_be_absent(n, i)))
      fail("{}: input {} is left out, but it is required", describe(g, id), i);
  if (n.program)
    verify_program(g, id, *n.program, d, first);
  else if (n.op == "Pointwise" || n.op == "Reduce")
    fail("{}: it needs a program", describe(g, id));
  else if (n.inputs.size() > first)
    fail("{}: operands need a program that reads them", describe(g, id));
}

}  // namespace smelt
