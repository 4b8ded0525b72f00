#include "fuse/match/product_behind.h"

#include "fuse/match/compose.h"
#include "fuse/match/extents.h"
#include "fuse/match/match.h"

namespace smelt::fuse {

NodeId product_behind(const Graph& g, ValueId v) {
  for (int step = 0; step < 8; ++step) {
    NodeId n = g.value(v).producer;
    if (n == NodeId::none || !reader_of(g, v)) return NodeId::none;
    const Node& node = g.node(n);
    for (std::string_view op : {"MatMul", "Gemm", "Conv", "FusedMatMul", "BlockMatMul", "QLinearMatMul", "QLinearConv"})
      if (node.op == op) return n;
    if (!is_pointwise(g, n)) return NodeId::none;
    // On along the operand of the result's shape: bias, scale and activation of the product.
    ValueId next = ValueId::none;
    for (ValueId u : operands_of(g, n))
      if (same_shape(g, u, v)) next = next == ValueId::none ? u : next;
    if (next == ValueId::none) return NodeId::none;
    v = next;
  }
  return NodeId::none;
}

}  // namespace smelt::fuse
