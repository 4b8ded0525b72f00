// Before   DequantizeLinear of a computed tensor, read by several nodes
// After    one DequantizeLinear for each of them, to be taken in by whoever reads it: 8 bits cross memory instead of 32
// Unless   it has one reader
#include <algorithm>

#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome split_dequantize(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("DequantizeLinear") || node.in(0) == ValueId::none || g.value(node.in(0)).is_constant()) return NotHere{};
  const ValueId y = node.out();
  std::vector<NodeId> readers;
  for (const Use& u : g.readers(y))
    if (std::find(readers.begin(), readers.end(), u.node) == readers.end()) readers.push_back(u.node);
  if (!g.is_output(y) && !readers.empty()) readers.erase(readers.begin());  // the first keeps this one
  if (readers.empty()) return NotHere{};
  return Match{{n}, [n, readers](Graph& graph) {
                 const Node first = graph.node(n);
                 for (NodeId reader : readers) {
                   Node own = first;
                   const Value old = graph.value(first.out());
                   own.outputs = {graph.add_value(old.name + "_for_" + graph.node(reader).name, old.type, old.shape)};
                   for (size_t i = 0; i < graph.node(reader).inputs.size(); ++i)
                     if (graph.node(reader).inputs[i] == first.out()) graph.set_input(reader, i, own.outputs[0]);
                   graph.add_node(std::move(own));
                 }
                 return n;
               }};
}

}  // namespace smelt::fuse
