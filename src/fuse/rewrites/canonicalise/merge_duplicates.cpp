// Before   two nodes with the same operator, attributes and inputs (small constants compared by their values)
// After    the first of them, read by the readers of both
// Unless   the operator draws random numbers or has a subgraph
//          a result of the second is a graph output
//          they dequantize: split_dequantize has made them two
#include <cstring>

#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"

namespace smelt::fuse {
namespace {

constexpr int64_t small = 64;  // elements of constants that are compared

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (!a.valid() || !b.valid() || a.type() != b.type() || a.shape() != b.shape()) return false;
  return a.type() != DType::string && a.size() <= small && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

bool same_value(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a == ValueId::none || b == ValueId::none) return false;
  return same_tensor(g.value(a).constant, g.value(b).constant);
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, GraphPtr>)
          return false;
        else if constexpr (std::is_same_v<T, Tensor>)
          return same_tensor(x, std::get<T>(b));
        else
          return x == std::get<T>(b);
      },
      a);
}

bool is_deterministic(const Node& n) {
  if (n.domain == smelt_domain) return true;
  const ops::OpDef* def = ops::find(n.op, n.domain);
  return def && def->deterministic;
}

bool same(const Graph& g, const Node& a, const Node& b) {
  if (a.op != b.op || a.domain != b.domain) return false;
  if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) return false;
  if (a.attrs.size() != b.attrs.size() || a.program != b.program) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (!same_value(g, a.inputs[i], b.inputs[i])) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if ((a.outputs[i] == ValueId::none) != (b.outputs[i] == ValueId::none)) return false;
  for (auto& [key, value] : a.attrs)
    if (auto other = b.attrs.find(key); other == b.attrs.end() || !same_attribute(value, other->second)) return false;
  return true;
}

}  // namespace

Outcome merge_duplicates(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  ValueId anchor = ValueId::none;  // duplicates read the same computed value
  for (ValueId v : n.inputs)
    if (v != ValueId::none && !g.value(v).is_constant()) {
      anchor = v;
      break;
    }
  if (anchor == ValueId::none || g.readers(anchor).size() < 2 || !is_deterministic(n) || n.is("DequantizeLinear"))
    return NotHere{};
  for (const Use& u : g.readers(anchor)) {
    const Node& first = g.node(u.node);
    if (u.node == id || std::pair(first.order, index(u.node)) > std::pair(n.order, index(id)) || !same(g, first, n)) continue;
    for (ValueId v : n.outputs)
      if (v != ValueId::none && g.is_output(v)) return refuse(Reason::graph_output, id, "{} is a graph output", g.value(v).name);
    return Match{{u.node, id}, [keep = u.node, id](Graph& graph) {
                   const std::vector<ValueId> from = graph.node(id).outputs, to = graph.node(keep).outputs;
                   for (size_t i = 0; i < from.size(); ++i)
                     if (from[i] != ValueId::none) graph.replace_uses(from[i], to[i]);
                   graph.merge_sources(keep, id);
                   graph.remove_node(id);
                   return keep;
                 }};
  }
  return NotHere{};
}

}  // namespace smelt::fuse
