// Before   DequantizeLinear of a constant that no int8 operator took
// After    its numbers as a constant
// Unless   they take much memory
#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"

namespace smelt::fuse {

Outcome fold_dequantized(const Graph& g, NodeId n) {
  constexpr int64_t at_most = 64 << 20;  // bytes; the integers themselves are mapped from the model's file
  const Node& node = g.node(n);
  if (!node.is("DequantizeLinear")) return NotHere{};
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(g.constant(n, i));
    if (node.inputs[i] != ValueId::none && !inputs.back().valid()) return NotHere{};
  }
  const int64_t size = bytes(g.value(node.out()).type, inputs[0].size());
  if (size > at_most)
    return refuse(Reason::too_large, n, "{} gives {} bytes, at most {} are kept", describe(g, n), size, at_most);
  try {
    return become_constant(g, n, ops::evaluate(node, inputs)[0]);
  } catch (const Error& e) {
    return refuse(Reason::unsupported, n, "{}", e.what());
  }
}

}  // namespace smelt::fuse
