// Before   silu(gate) * up, gate and up products of matrices (with or without bias)
// After    the gate's ai.smelt.MatMul with silu(in0) * in1 in its program and up as operand
// Unless   up is not a product of matrices
//          the gate, or its activation, has another reader or is a graph output
//          what else stands between does not fit an epilogue
#include <algorithm>

#include "fuse/match/compose.h"
#include "fuse/rewrites/recognise/activation.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool is_product(const Node& n) { return n.is("MatMul") || n.is("Gemm") || n.is("MatMul", smelt_domain); }

bool is_silu(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.is("Swish") && node.get_float("alpha", 1) == 1) return true;
  return node.is("Pointwise", smelt_domain) && node.inputs.size() == 1 &&
         node.program == unary_program(expr::Fn::silu, g.value(node.in(0)).type);
}

/// The product behind v, looking through the addition of a bias.
NodeId product_of(const Graph& g, ValueId v) {
  NodeId n = g.value(v).producer;
  if (n != NodeId::none && g.node(n).is("Add"))
    for (ValueId u : g.node(n).inputs)
      if (!g.value(u).is_constant() && g.value(u).producer != NodeId::none && is_product(g.node(g.value(u).producer)))
        n = g.value(u).producer;
  return n != NodeId::none && is_product(g.node(n)) ? n : NodeId::none;
}

}  // namespace

Outcome recognise_swiglu(const Graph& g, NodeId silu) {
  if (!is_silu(g, silu)) return NotHere{};
  auto next = reader_of(g, g.node(silu).out());
  if (!next) return next.refusal();
  const NodeId mul = *next;
  const ValueId up = other_input(g, mul, g.node(silu).out());
  if (!g.node(mul).is("Mul") || up == ValueId::none) return NotHere{};
  const NodeId gate = product_of(g, g.node(silu).in(0));
  if (gate == NodeId::none) return refuse(Reason::wrong_producer, g.producer(silu, 0), "the gate is not a product of matrices");
  if (product_of(g, up) == NodeId::none)
    return refuse(Reason::wrong_producer, g.value(up).producer, "{} is not a product of matrices", g.value(up).name);
  Outcome epilogue = matmul_epilogue(g, gate);
  auto* match = std::get_if<Match>(&epilogue);
  if (match && std::find(match->nodes.begin(), match->nodes.end(), mul) != match->nodes.end()) return epilogue;
  if (const auto* no = std::get_if<Refusal>(&epilogue)) return *no;
  return refuse(Reason::extra_reader, gate, "{} cannot take the activation and the product into its epilogue", describe(g, gate));
}

}  // namespace smelt::fuse
