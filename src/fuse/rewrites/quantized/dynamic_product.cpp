// Before   Mul(Cast(ConvInteger(x, w)), s) or of MatMulInteger: a dynamically quantized product, s computed from x's values
// After    ai.smelt.QLinearConv(x, w) or QLinearMatMul with scales of 1 and the program in0 · s, whose zero point of x is computed
// Unless   the sums have another reader, are cast to another type than f32, or s is not one number, or one for each column
//          w or its zero point is computed; the convolution works out its own padding, or is not along one or two axes
//          it is a product of matrices, and a kernel wants what it multiplies constant (a GPU's)
#include <array>

#include "fuse/match/channels.h"
#include "fuse/match/extents.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The one node that reads v, where it is this operator; the reason when it is not.
Result<NodeId> only(const Graph& g, ValueId v, std::string_view op) {
  auto reader = reader_of(g, v);
  if (reader && !g.node(*reader).is(op)) return refuse(Reason::wrong_reader, *reader, "{} is no {}", describe(g, *reader), op);
  return reader;
}

/// Whether multiplying `sum` by v gives the sum's shape.
bool scales_shape_of(const Graph& g, ValueId v, ValueId sum, ValueId product) {
  if (size_of(g, v) == 1) return rank(g, v) <= 1;
  return same_shape(g, sum, product);
}

}  // namespace

Outcome dynamic_product(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool conv = node.is("ConvInteger");
  if (!conv && !node.is("MatMulInteger")) return NotHere{};
  for (const size_t i : {1, 3})
    if (node.in(i) != ValueId::none && !g.value(node.in(i)).is_constant())
      return refuse(Reason::not_constant, n, "{} is computed", g.value(node.in(i)).name);
  if (node.in(2) != ValueId::none)
    if (const auto no = several_numbers(g, n, std::array<size_t, 1>{2})) return *no;
  const int r = rank(g, node.in(1));
  if (conv && r != 3 && r != 4) return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(node.in(1)).name, r);
  if (r < 2) return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(node.in(1)).name, r);
  if (conv && works_out_padding(node)) return refuse(Reason::wrong_attribute, n, "{} works out its own padding", describe(g, n));

  const auto cast = only(g, node.out(), "Cast");
  if (!cast) return cast.refusal();
  const ValueId real = g.node(*cast).out();
  if (g.value(real).type != DType::f32)
    return refuse(Reason::wrong_type, *cast, "{} gives {}", describe(g, *cast), name(g.value(real).type));
  const auto mul = only(g, real, "Mul");
  if (!mul) return mul.refusal();
  const Node& scaled = g.node(*mul);
  const ValueId scale = scaled.in(scaled.in(0) == real ? 1 : 0);
  if (scale == real || g.value(scale).type != DType::f32 || !scales_shape_of(g, scale, node.out(), scaled.out()))
    return refuse(Reason::wrong_shape, *mul, "{} is not one number or one for each column", g.value(scale).name);

  expr::Program p;
  const expr::Ref sum = p.input(DType::f32), factor = p.input(DType::f32);
  p.output(p.call(expr::Fn::mul, sum, factor));
  const std::vector<NodeId> nodes{n, *cast, *mul};
  return Match{nodes, [=, program = std::move(p)](Graph& graph) {
                 const Node old = graph.node(n);
                 const ValueId one = graph.add_constant(old.name + "_one", Tensor::scalar(1.0f));
                 const ValueId zero = needed_zero_point(graph, old.in(3));
                 std::vector<ValueId> inputs{old.in(0), old.in(1)};
                 if (conv) inputs.push_back(ValueId::none);
                 inputs.insert(inputs.end(), {one, old.in(2), one, zero, scale});
                 Node fused = fused_node(conv ? "QLinearConv" : "QLinearMatMul", inputs, {graph.node(*mul).out()});
                 fused.attrs = old.attrs;
                 fused.attrs.erase("auto_pad");
                 fused.program = program;
                 return replace(graph, nodes, std::move(fused));
               }};
}

Outcome dynamic_convolution(const Graph& g, NodeId n) {
  if (!g.node(n).is("MatMulInteger")) return dynamic_product(g, n);
  return refuse(Reason::not_constant, n, "the zero point of {} is computed", describe(g, n));
}

}  // namespace smelt::fuse
