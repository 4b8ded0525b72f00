// Before   MatMul or Gemm of DequantizeLinear(a) and DequantizeLinear(b) from f8e4m3fn, b constant, Gemm with or without C
// After    ai.smelt.MatMul(a, b) of the 8-bit floats, with the scales and C in its program
// Unless   a or b is not dequantized from f8e4m3fn, or has zero points other than 0
//          a is not what a QuantizeLinear wrote: a view may begin anywhere, and the kernel has no form for that
//          a has more than one scale, b has scales along another axis than its columns', or a scale is computed
//          b is computed or no matrix, or a is transposed; K is no multiple of 16, which tensor maps of 8 bits want
// Plans leave it out where no kernel multiplies 8-bit floats (plan/context.cpp).
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// A product's operand: the 8-bit floats, and their scales in f32.
struct Scaled {
  NodeId node;
  ValueId x;
  Tensor scales;
};

Result<Scaled> scaled(const Graph& g, ValueId v, int64_t channel_axis) {
  const auto d = dequantized(g, v, channel_axis, EightBits::floats);
  if (!d) return d.refusal();
  if (d->zero_point != ValueId::none) {
    const Tensor& zeros = g.value(d->zero_point).constant;
    if (!zeros.valid()) return refuse(Reason::not_constant, d->node, "{} is computed", g.value(d->zero_point).name);
    for (const double z : zeros.to_doubles())
      if (z != 0) return refuse(Reason::wrong_value, d->node, "{} has a zero point of {}", describe(g, d->node), z);
  }
  const Tensor& scales = g.value(d->scale).constant;
  if (!scales.valid()) return refuse(Reason::not_constant, d->node, "{} is computed", g.value(d->scale).name);
  return Scaled{d->node, d->x, scales.cast(DType::f32)};
}

/// (sum, the scales of columns?, C?) -> sum · scale · alpha + beta · C. `scale`: of all columns.
expr::Program program_of(const Graph& g, const Node& node, bool by_column, float scale, ValueId c) {
  expr::Program p;
  expr::Ref y = p.input(DType::f32);
  const expr::Ref scales = by_column ? p.input(DType::f32) : -1;
  expr::Ref addend = c == ValueId::none ? -1 : p.input(g.value(c).type);
  y = p.call(expr::Fn::mul, y, by_column ? scales : p.constant(DType::f32, scale));
  const float alpha = node.get_float("alpha", 1), beta = node.get_float("beta", 1);
  if (alpha != 1) y = p.call(expr::Fn::mul, y, p.constant(DType::f32, alpha));
  if (addend >= 0) addend = p.cast(addend, DType::f32);
  if (addend >= 0 && beta != 1) addend = p.call(expr::Fn::mul, addend, p.constant(DType::f32, beta));
  if (addend >= 0) y = p.call(expr::Fn::add, y, addend);
  p.output(p.cast(y, g.value(node.out()).type));
  return p;
}

}  // namespace

Outcome f8_matmul(const Graph& g, NodeId n) {
  constexpr int64_t step = 16;
  const Node& node = g.node(n);
  const bool gemm = node.is("Gemm");
  NodeId left;
  if ((!node.is("MatMul") && !gemm) || !made_by(g, node.in(0), "DequantizeLinear", &left)) return NotHere{};
  if (g.value(g.node(left).in(0)).type != DType::f8e4m3fn) return NotHere{};
  if (node.get_int("transA", 0) != 0)
    return refuse(Reason::wrong_attribute, n, "{} has its left operand transposed", describe(g, n));
  if (rank(g, node.in(0)) < 2)
    return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(node.in(0)).name, rank(g, node.in(0)));
  const bool trans_b = gemm && node.get_int("transB", 0) != 0;
  const auto a = scaled(g, node.in(0), -1), b = scaled(g, node.in(1), trans_b ? 0 : 1);
  for (const auto* side : {&a, &b})
    if (!*side) return side->refusal();
  if (!made_by(g, a->x, "QuantizeLinear"))
    return refuse(Reason::wrong_producer, n, "{} is not quantized here: a view may begin where tensor maps do not",
                  g.value(a->x).name);
  const Tensor& weights = g.value(b->x).constant;
  if (!weights.valid()) return refuse(Reason::not_constant, n, "{} is computed", g.value(b->x).name);
  if (weights.rank() != 2) return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(b->x).name, weights.rank());
  const int64_t k = weights.shape()[trans_b ? 1 : 0];
  if (k == 0 || k % step != 0) return refuse(Reason::wrong_shape, n, "K is {}, expected a multiple of {}", k, step);

  const float scale_a = a->scales.data<float>()[0];
  std::vector<float> scales;
  for (int64_t i = 0; i < b->scales.size(); ++i) scales.push_back(scale_a * b->scales.data<float>()[i]);
  const bool by_column = scales.size() > 1;
  const ValueId c = gemm ? node.in(2) : ValueId::none;
  Node fused = fused_node("MatMul", {a->x, b->x}, node.outputs);
  if (trans_b) fused.attrs["transB"] = int64_t{1};
  fused.program = program_of(g, node, by_column, scales[0], c);
  return Match{in_order(g, {a->node, b->node, n}), [=](Graph& graph) {
                 Node made = fused;
                 if (by_column)
                   made.inputs.push_back(graph.add_constant(graph.node(n).name + "_scales",
                                                            Tensor::of({static_cast<int64_t>(scales.size())}, scales)));
                 if (c != ValueId::none) made.inputs.push_back(c);
                 return replace(graph, {n}, made);
               }};
}

// Before   Conv of DequantizeLinear(x) and DequantizeLinear(w) from f8e4m3fn, w constant, with or without a constant bias
// After    ai.smelt.Conv(x, w) of the 8-bit floats, with the scales and the bias in its program
// Unless   as of products: other types, zero points, several scales of x, computed weights or scales, x that is not quantized here
//          x is no image of channels by 16, which tensor maps of 8 bits want; groups, own padding, windows that these do not take
Outcome f8_conv(const Graph& g, NodeId n) {
  constexpr int64_t step = 16, most_stride = 8, most_reach = 127;
  const Node& node = g.node(n);
  NodeId left;
  if (!node.is("Conv") || !made_by(g, node.in(0), "DequantizeLinear", &left)) return NotHere{};
  if (g.value(g.node(left).in(0)).type != DType::f8e4m3fn) return NotHere{};
  const auto x = scaled(g, node.in(0), -1), w = scaled(g, node.in(1), 0);
  for (const auto* side : {&x, &w})
    if (!*side) return side->refusal();
  if (!made_by(g, x->x, "QuantizeLinear"))
    return refuse(Reason::wrong_producer, n, "{} is not quantized here: a view may begin where tensor maps do not",
                  g.value(x->x).name);
  const Tensor& weights = g.value(w->x).constant;
  if (!weights.valid()) return refuse(Reason::not_constant, n, "{} is computed", g.value(w->x).name);
  if (weights.rank() != 4) return refuse(Reason::wrong_rank, n, "{} has rank {}", g.value(w->x).name, weights.rank());
  const Shape& s = weights.shape();
  if (node.get_int("group", 1) != 1 || works_out_padding(node))
    return refuse(Reason::wrong_attribute, n, "{} has groups or works out its own padding", describe(g, n));
  if (s[1] == 0 || s[1] % step != 0) return refuse(Reason::wrong_shape, n, "{} channels, expected a multiple of {}", s[1], step);
  const auto strides = node.get_ints("strides", {1, 1}), pads = node.get_ints("pads", {0, 0, 0, 0}),
             dilations = node.get_ints("dilations", {1, 1});
  for (size_t a = 0; a < 2; ++a)
    if (strides[a] > most_stride || std::max({pads[a], pads[a + 2], (s[a + 2] - 1) * dilations[a]}) > most_reach)
      return refuse(Reason::wrong_attribute, n, "{} has windows that tensor maps do not take", describe(g, n));
  Tensor bias;
  if (node.in(2) != ValueId::none) {
    bias = g.value(node.in(2)).constant;
    if (!bias.valid()) return refuse(Reason::not_constant, n, "{} is computed", g.value(node.in(2)).name);
  }

  const float scale_x = x->scales.data<float>()[0];
  std::vector<float> scales;
  for (int64_t i = 0; i < w->scales.size(); ++i) scales.push_back(scale_x * w->scales.data<float>()[i]);
  const bool by_channel = scales.size() > 1;
  expr::Program p;  // (sum, the scales of channels?, bias?) -> sum · scale + bias
  expr::Ref y = p.input(DType::f32);
  const expr::Ref factors = by_channel ? p.input(DType::f32) : -1, addend = bias.valid() ? p.input(DType::f32) : -1;
  y = p.call(expr::Fn::mul, y, by_channel ? factors : p.constant(DType::f32, scales[0]));
  if (addend >= 0) y = p.call(expr::Fn::add, y, addend);
  p.output(p.cast(y, g.value(node.out()).type));
  Node fused = fused_node("Conv", {x->x, w->x, ValueId::none}, node.outputs);
  for (const char* key : {"strides", "pads", "dilations", "kernel_shape"})
    if (node.has(key)) fused.attrs[key] = node.attrs.at(key);
  fused.program = std::move(p);
  return Match{
      in_order(g, {x->node, w->node, n}), [=](Graph& graph) {
        Node made = fused;
        const auto channels = static_cast<int64_t>(scales.size());
        if (by_channel || bias.valid()) made.inputs.resize(first_operand(made), ValueId::none);
        if (by_channel)
          made.inputs.push_back(graph.add_constant(graph.node(n).name + "_scales", Tensor::of({channels, 1, 1}, scales)));
        if (bias.valid()) {
          const Tensor wide = bias.cast(DType::f32);
          const std::vector<float> values(wide.data<float>(), wide.data<float>() + wide.size());
          made.inputs.push_back(graph.add_constant(graph.node(n).name + "_bias", Tensor::of({wide.size(), 1, 1}, values)));
        }
        return replace(graph, {n}, made);
      }};
}

}  // namespace smelt::fuse
