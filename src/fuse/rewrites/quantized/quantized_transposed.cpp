// Before   ConvTranspose(DequantizeLinear(x), DequantizeLinear(w), b), its windows squares side by side
// After    DepthToSpace(Conv(DequantizeLinear(x), DequantizeLinear(w'), b')): 1 x 1 taps, block * block times the channels, which
//          quantized_conv takes in integers; w' and b' have w's and b's numbers in their new places
// Unless   windows overlap or lie apart, are no squares, or have padding; groups, dilations
//          x or w is not dequantized, or not from 8 bits; w has scales along another axis than its output channels'
//          w or b is computed
#include <algorithm>
#include <cstring>

#include "fuse/match/channels.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_block = 64;  // pixels along a side

/// [block * block * M, C, 1, 1] of w [C, M, block, block]: the channel (row, column, m).
Tensor turned(const Tensor& w) {
  const Shape& s = w.shape();
  const int64_t places = s[2] * s[3];
  Tensor to = Tensor::empty(w.type(), {places * s[1], s[0], 1, 1});
  const auto size = static_cast<size_t>(bytes(w.type(), 1));
  const char* from = static_cast<const char*>(w.raw());
  for (int64_t c = 0; c < s[0]; ++c)
    for (int64_t m = 0; m < s[1]; ++m)
      for (int64_t place = 0; place < places; ++place, from += size)
        std::memcpy(static_cast<char*>(to.raw()) + static_cast<size_t>((place * s[1] + m) * s[0] + c) * size, from, size);
  return to;
}

/// All of a vector, so many times.
Tensor repeated(const Tensor& t, int64_t times) {
  Tensor to = Tensor::empty(t.type(), {t.size() * times});
  for (int64_t i = 0; i < times; ++i)
    std::memcpy(static_cast<char*>(to.raw()) + i * t.nbytes(), t.raw(), static_cast<size_t>(t.nbytes()));
  return to;
}

/// What a DequantizeLinear reads of constants, each number of the channels' `times` times over; `x` is done already.
struct Parts {
  Tensor x, scale, zero_point;  // only x where it is no DequantizeLinear's; zero_point may be left out

  Parts(const Tensor& values, const Tensor& s, const Tensor& zero, int64_t times) : x(values) {
    for (const auto& [to, from] : {std::pair(&scale, &s), std::pair(&zero_point, &zero)})
      if (from->valid()) *to = from->size() == 1 ? from->reshaped({}) : repeated(*from, times);
  }
};

/// Why the windows are not squares side by side.
std::optional<Refusal> not_side_by_side(const Graph& g, NodeId id, const Shape& w) {
  const Node& n = g.node(id);
  const auto all = [](const std::vector<int64_t>& v, int64_t value) {
    return std::ranges::all_of(v, [&](int64_t x) { return x == value; });
  };
  const int64_t block = w[2];
  if (block < 2 || block > most_block || w[3] != block)
    return refuse(Reason::wrong_shape, id, "windows of {} x {} pixels", w[2], w[3]);
  if (n.get_ints("strides", {1, 1}) != std::vector<int64_t>{block, block})
    return refuse(Reason::wrong_attribute, id, "the windows of {} overlap or lie apart", describe(g, id));
  if (n.get_int("group", 1) != 1 || !all(n.get_ints("dilations"), 1) || !all(n.get_ints("pads"), 0) ||
      !all(n.get_ints("output_padding"), 0) || n.has("output_shape") || works_out_padding(n))
    return refuse(Reason::wrong_attribute, id, "{} has groups, dilations or padding", describe(g, id));
  return {};
}

/// The bias, constant or dequantized from constants; nothing where there is none.
Result<std::optional<Parts>> bias_of(const Graph& g, NodeId conv, int64_t outputs, int64_t times) {
  const ValueId b = g.node(conv).in(2);
  if (b == ValueId::none) return std::optional<Parts>{};
  NodeId maker;
  if (g.value(b).is_constant() && g.value(b).constant.size() == outputs)
    return std::optional(Parts(repeated(g.value(b).constant, times), {}, {}, times));
  if (made_by(g, b, "DequantizeLinear", &maker) && g.node(maker).get_int("block_size", 0) == 0) {
    const Tensor &x = g.constant(maker, 0), &scale = g.constant(maker, 1), &zero = g.constant(maker, 2);
    const auto fits = [&](const Tensor& t) { return t.valid() && (t.size() == 1 || t.size() == outputs); };
    if (x.valid() && x.size() == outputs && fits(scale) && (g.node(maker).in(2) == ValueId::none || fits(zero)))
      return std::optional(Parts(repeated(x, times), scale, zero, times));
  }
  return refuse(Reason::not_constant, g.value(b).producer, "the bias {} is computed", g.value(b).name);
}

/// The parts as constants; behind them, where they have a scale, a DequantizeLinear along axis 0.
ValueId add(Graph& g, const Node& conv, const std::string& name, const Parts& p) {
  const ValueId x = g.add_constant(name, p.x);
  if (!p.scale.valid()) return x;
  std::vector<ValueId> inputs{x, g.add_constant(name + "_scale", p.scale)};
  if (p.zero_point.valid()) inputs.push_back(g.add_constant(name + "_zero_point", p.zero_point));
  SymShape shape;
  for (const int64_t extent : p.x.shape()) shape.emplace_back(extent);
  const ValueId y = g.add_value(name + "_dequantized", p.scale.type(), shape);
  g.add_node({.op = "DequantizeLinear",
              .name = name + "_dequantized",
              .opset = conv.opset,
              .inputs = std::move(inputs),
              .outputs = {y},
              .attrs = {{"axis", int64_t{0}}},
              .sources = conv.sources,
              .order = conv.order});
  return y;
}

}  // namespace

Outcome quantized_transposed(const Graph& g, NodeId id) {
  const Node& node = g.node(id);
  if (!node.is("ConvTranspose") || !made_by(g, node.in(0), "DequantizeLinear") || !made_by(g, node.in(1), "DequantizeLinear"))
    return NotHere{};
  const auto x = dequantized(g, node.in(0)), w = dequantized(g, node.in(1), 1);
  for (const auto* side : {&x, &w})
    if (!*side) return side->refusal();
  const Tensor& weights = g.value(w->x).constant;
  const Tensor &scale = g.constant(w->node, 1), &zero = g.constant(w->node, 2);
  if (!weights.valid() || !scale.valid() || (w->zero_point != ValueId::none && !zero.valid()))
    return refuse(Reason::not_constant, w->node, "the weights {} are computed", g.value(w->x).name);
  if (weights.rank() != 4 || elements(weights.shape()) == 0)
    return refuse(Reason::wrong_rank, id, "weights of shape {}", to_text(weights.shape()));
  if (auto no = not_side_by_side(g, id, weights.shape())) return *no;
  const auto &y = g.value(node.out()).shape, &image = g.value(node.in(0)).shape;
  if (!y || y->size() != 4 || !image || image->size() != 4)
    return refuse(Reason::unknown_shape, id, "the rank of {} is not known", g.value(node.out()).name);
  const int64_t block = weights.shape()[2], outputs = weights.shape()[1], places = block * block;
  const auto bias = bias_of(g, id, outputs, places);
  if (!bias) return bias.refusal();

  const SymShape packed{(*image)[0], places * outputs, (*image)[2], (*image)[3]};
  std::vector<NodeId> nodes{x->node, w->node, id};
  if (NodeId maker; made_by(g, node.in(2), "DequantizeLinear", &maker)) nodes.push_back(maker);
  return Match{in_order(g, nodes), [=, taps = Parts(turned(weights), scale, zero, places), added = *bias](Graph& graph) {
                 const Node old = graph.node(id);
                 Node conv{.op = "Conv",
                           .name = old.name + "_pixels",
                           .opset = old.opset,
                           .inputs = {old.in(0), add(graph, old, old.name + "_weight", taps)},
                           .sources = old.sources,
                           .order = old.order};
                 if (added) conv.inputs.push_back(add(graph, old, old.name + "_bias", *added));
                 conv.outputs = {graph.add_value(conv.name, graph.value(old.out()).type, packed)};
                 Node move{.op = "DepthToSpace",
                           .name = old.name,
                           .opset = old.opset,
                           .inputs = conv.outputs,
                           .outputs = old.outputs,
                           .attrs = {{"blocksize", block}},
                           .sources = old.sources,
                           .order = old.order};
                 graph.remove_node(id);
                 graph.add_node(std::move(conv));
                 return graph.add_node(std::move(move));
               }};
}

}  // namespace smelt::fuse
