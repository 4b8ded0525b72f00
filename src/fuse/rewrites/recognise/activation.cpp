#include "fuse/rewrites/recognise/activation.h"

#include <algorithm>

namespace smelt::fuse {

expr::Program unary_program(expr::Fn fn, DType type) {
  expr::Program p;
  expr::Ref x = p.input(type);
  p.output(p.cast(p.call(fn, p.cast(x, accumulator(type))), type));
  return p;
}

Outcome match_activation(const Graph& g, NodeId inner, ValueId x, const ActivationPattern& pattern) {
  DType type = g.value(x).type;
  if (!is_real(type)) return refuse(Reason::wrong_type, inner, "x is {}, not f16, bf16, f32 or f64", name(type));
  ValueId e = g.node(inner).out();
  // Forward over single readers until the formula is complete; at most 5 nodes follow in any spelling.
  ValueId at = e;
  bool same_terms = false;  // the formula is complete but for its constants
  for (int step = 0; step < 5; ++step) {
    auto next = reader_of(g, at);
    if (!next) {
      if (same_terms) break;
      return next.refusal();
    }
    const NodeId n = *next;
    if (g.node(n).outputs.size() != 1) return refuse(Reason::wrong_reader, n, "{} ends the formula", describe(g, n));
    at = g.node(n).out();
    Expansion expansion(g, x, e);
    auto p = expansion.of(at);
    if (!p)
      return refuse(Reason::wrong_reader, n, "{} does not complete {}(x) with x = {}", describe(g, n), pattern.name,
                    g.value(x).name);
    if (!equals(*p, pattern.outer, type)) {
      same_terms = p->size() == pattern.outer.size() &&
                   std::equal(p->begin(), p->end(), pattern.outer.begin(), [](auto& a, auto& b) { return a.first == b.first; });
      continue;
    }

    std::vector<NodeId> nodes = expansion.nodes();
    nodes.push_back(inner);
    nodes.insert(nodes.end(), pattern.argument.begin(), pattern.argument.end());
    nodes = in_order(g, std::move(nodes));
    if (auto no = escapes(g, nodes, {at})) return *no;
    if (rank(g, at) != rank(g, x))  // by a constant of more axes
      return refuse(Reason::wrong_rank, n, "the result has rank {}, x {}", rank(g, at), rank(g, x));
    if (g.value(at).type != type)
      return refuse(Reason::wrong_type, n, "the result is {}, x is {}", name(g.value(at).type), name(type));
    Node fused = fused_node("Pointwise", {x}, {at});
    fused.program = unary_program(pattern.fn, type);
    return replacement(nodes, fused);
  }
  return refuse(Reason::wrong_value, g.value(at).producer, "the constants around {} are not those of {}", describe(g, inner),
                pattern.name);
}

}  // namespace smelt::fuse
