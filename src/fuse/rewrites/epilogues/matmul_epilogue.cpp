// Before   MatMul, Gemm, com.microsoft's FusedMatMul or ai.smelt.BlockMatMul; transposes of its inputs' last two axes; scalings by constants; bias,
//          activation, residual and other pointwise nodes that read its result
// After    ai.smelt.MatMul with transA, transB, alpha and the nodes as its program; BlockMatMul with them as its program
// Unless   an input is a vector, or of unknown rank
//          the type is not a float
//          and without what follows, where the result has another reader or is a graph output, a node is not pointwise, or
//          another operand enlarges the result or may do so (recorded for the product that takes in nothing)
#include "fuse/match/extents.h"
#include "fuse/match/product_parts.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

struct Product {
  ValueId a, b, c = ValueId::none;
  int64_t trans_a = 0, trans_b = 0;
  double alpha = 1, beta = 1;
  std::vector<NodeId> nodes;  // what it is made of
};

/// Looks through transposes and scalings that make an input.
void peel(const Graph& g, ValueId& v, int64_t& trans, double& alpha, std::vector<NodeId>& nodes) {
  Peeled p = peel_scale_and_transpose(g, v);
  v = p.value;
  trans ^= p.transposed;
  alpha *= p.scale;
  nodes.insert(nodes.end(), p.nodes.begin(), p.nodes.end());
}

std::optional<Product> product(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const bool fused = n.is("FusedMatMul", microsoft_domain) && !n.get_int("transBatchA", 0) && !n.get_int("transBatchB", 0);
  if (!n.is("MatMul") && !n.is("Gemm") && !fused) return {};
  Product p{n.in(0), n.in(1)};
  p.trans_a = n.get_int("transA", 0);
  p.trans_b = n.get_int("transB", 0);
  p.alpha = n.get_float("alpha", 1);
  if (n.is("Gemm")) {
    p.c = n.in(2);
    p.beta = n.get_float("beta", 1);
  }
  p.nodes = {id};
  return p;
}

/// beta * C as the first step of the program.
Base with_addend(const Graph& g, const Product& p, ValueId y) {
  const DType type = g.value(y).type, wide = accumulator(type);
  Base base{y, {}, {}};
  expr::Ref in0 = base.program.input(wide), result = in0;
  if (p.c != ValueId::none && p.beta != 0) {
    base.operands = {p.c};
    expr::Ref c = base.program.cast(base.program.input(g.value(p.c).type), wide);
    if (p.beta != 1) c = base.program.call(expr::Fn::mul, c, base.program.constant(wide, p.beta));
    result = base.program.call(expr::Fn::add, in0, c);
  }
  base.program.output(base.program.cast(result, type));
  return base;
}

/// Takes a scaling of the result by a constant into alpha.
ValueId take_scale(const Graph& g, ValueId y, Product& p) {
  NodeId n = g.only_reader(y);
  if (n == NodeId::none || p.c != ValueId::none || !(g.node(n).is("Mul") || g.node(n).is("Div"))) return y;
  auto c = constant_operand(g, n);
  if (!c || c->second != y || rank(g, g.node(n).out()) != rank(g, y)) return y;
  if (g.node(n).is("Div") && (g.node(n).in(0) != y || c->first == 0)) return y;
  const double alpha = g.node(n).is("Mul") ? p.alpha * c->first : p.alpha / c->first;
  if (g.value(y).type == DType::f64 && !fits_attribute(alpha)) return y;
  p.alpha = alpha;
  p.nodes.push_back(n);
  return g.node(n).out();
}

/// The program of a product that nothing follows.
expr::Program rounded(const Graph& g, ValueId y) {
  const DType type = g.value(y).type;
  return expr::conversion(accumulator(type), type);
}

}  // namespace

Outcome matmul_epilogue(const Graph& g, NodeId id) {
  if (g.node(id).is("MatMul", smelt_domain) || g.node(id).is("BlockMatMul", smelt_domain)) {  // nodes that became pointwise since
    const Base base = base_of(g, id);
    Epilogue e = absorb(g, base);
    if (e.nodes.empty()) {
      const bool alone = base.operands.empty() && base.program == rounded(g, base.value);
      if (alone) return e.refusal();
      return NotHere{};
    }
    Node fused = g.node(id);
    fused.sources.clear();
    return with_epilogue(g, {id}, fused, first_operand(fused), e);
  }
  auto p = product(g, id);
  if (!p) return NotHere{};
  ValueId y = g.node(id).out();
  const DType type = g.value(y).type;
  if (!is_real(type)) return refuse(Reason::wrong_type, id, "the product is {}", name(type));
  for (ValueId v : {p->a, p->b}) {
    if (rank(g, v) < 0) return refuse(Reason::unknown_shape, g.value(v).producer, "the rank of {} is not known", g.value(v).name);
    if (rank(g, v) < 2) return refuse(Reason::wrong_rank, g.value(v).producer, "{} is a vector", g.value(v).name);
  }
  if (type != DType::f64) {
    peel(g, p->a, p->trans_a, p->alpha, p->nodes);
    peel(g, p->b, p->trans_b, p->alpha, p->nodes);
  }
  y = take_scale(g, y, *p);
  Epilogue e = absorb(g, with_addend(g, *p, y));
  Node fused = fused_node("MatMul", {p->a, p->b}, {y});
  if (p->trans_a) fused.attrs["transA"] = p->trans_a;
  if (p->trans_b) fused.attrs["transB"] = p->trans_b;
  if (p->alpha != 1) fused.attrs["alpha"] = static_cast<float>(p->alpha);
  return with_epilogue(g, p->nodes, fused, 2, e);
}

}  // namespace smelt::fuse
