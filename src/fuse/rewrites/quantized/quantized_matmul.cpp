// Before   MatMul or Gemm of DequantizeLinear(a) and DequantizeLinear(b), Gemm with or without C
// After    ai.smelt.QLinearMatMul(a, b), with C added behind it
// Unless   a or b is not dequantized, or not from 8 bits
//          a has more than one scale, b has scales along another axis than its columns'
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome quantized_matmul(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool gemm = node.is("Gemm");
  if (!node.is("MatMul") && !gemm) return NotHere{};
  if (!made_by(g, node.in(0), "DequantizeLinear") && !made_by(g, node.in(1), "DequantizeLinear")) return NotHere{};
  const int r = rank(g, node.in(1));
  if (r < 2) return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(node.in(1)).name, r);
  const int64_t columns = gemm && node.get_int("transB", 0) ? r - 2 : r - 1;
  const auto a = dequantized(g, node.in(0)), b = dequantized(g, node.in(1), columns);
  for (const auto* side : {&a, &b})
    if (!*side) return side->refusal();
  const Dequantized &qa = *a, &qb = *b;

  Node fused = fused_node("QLinearMatMul", {qa.x, qb.x, qa.scale, qa.zero_point, qb.scale, needed_zero_point(g, qb.zero_point)},
                          node.outputs);
  for (const char* attr : {"transA", "transB"})
    if (node.get_int(attr, 0)) fused.attrs[attr] = int64_t{1};
  const float alpha = node.get_float("alpha", 1), beta = node.get_float("beta", 1);
  const ValueId c = gemm ? node.in(2) : ValueId::none;
  if (alpha != 1 || c != ValueId::none || g.value(node.out()).type != DType::f32) {
    expr::Program p;
    expr::Ref y = p.input(DType::f32), addend = c == ValueId::none ? -1 : p.input(g.value(c).type);
    if (alpha != 1) y = p.call(expr::Fn::mul, y, p.constant(DType::f32, alpha));
    if (addend >= 0) addend = p.cast(addend, DType::f32);
    if (addend >= 0 && beta != 1) addend = p.call(expr::Fn::mul, addend, p.constant(DType::f32, beta));
    if (addend >= 0) y = p.call(expr::Fn::add, y, addend);
    p.output(p.cast(y, g.value(node.out()).type));
    fused.program = std::move(p);
    fused.inputs.resize(6, ValueId::none);
    if (c != ValueId::none) fused.inputs.push_back(c);
  }
  return Match{in_order(g, {qa.node, qb.node, n}), [n, fused](Graph& graph) { return replace(graph, {n}, fused); }};
}

}  // namespace smelt::fuse
