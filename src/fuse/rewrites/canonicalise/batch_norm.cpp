// Before   BatchNormalization(x, scale, shift, mean, var) that is part of no convolution
// After    ai.smelt.Pointwise x * factor + offset, one pair for each channel
// Unless   a parameter is computed
//          it is in training mode, or its running statistics are read
//          the rank of x is not known
#include "fuse/match/channels.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome batch_norm(const Graph& g, NodeId norm) {
  const Node& node = g.node(norm);
  if (!node.is("BatchNormalization")) return NotHere{};
  const Value& x = g.value(node.in(0));
  if (!is_real(x.type)) return refuse(Reason::wrong_type, norm, "{} is {}", x.name, name(x.type));
  if (!x.shape) return refuse(Reason::unknown_shape, norm, "the rank of {} is not known", x.name);
  const auto parameters = batch_norm_affine(g, norm);
  if (!parameters) return parameters.refusal();
  const Affine& a = *parameters;

  const DType compute = accumulator(x.type);
  Shape shape(x.shape->size() > 1 ? x.shape->size() - 1 : 1, 1);  // [C, 1, 1] for x [N, C, H, W]
  shape[0] = static_cast<int64_t>(a.factor.size());
  expr::Program p;
  const expr::Ref in = p.input(x.type), factor = p.input(compute), offset = p.input(compute);
  const expr::Ref product = p.call(expr::Fn::mul, p.cast(in, compute), factor);
  p.output(p.cast(p.call(expr::Fn::add, product, offset), g.value(node.out()).type));
  Node fused = fused_node("Pointwise", {node.in(0)}, {node.out()});
  fused.program = std::move(p);
  return Match{{norm},
               [norm, fused, name = node.name, f = vector_of(a.factor, compute).reshaped(shape),
                o = vector_of(a.offset, compute).reshaped(shape)](Graph& graph) {
                 Node made = fused;
                 made.inputs.push_back(graph.add_constant(name + "_factor", f));
                 made.inputs.push_back(graph.add_constant(name + "_offset", o));
                 return replace(graph, {norm}, std::move(made));
               }};
}

}  // namespace smelt::fuse
