// Before   Add(Conv(x, w, b), Conv(x, v, c)), or Add of a Conv(x, w, b) and BatchNormalization(x) or x itself
// After    Conv(x, w + v, b + c): v's taps at their places in w's window, a normalisation or x as a diagonal of weights
// Unless   one window does not hold the other at every step, or they give images of different sizes
//          strides, dilations or groups differ, padding is worked out (auto_pad), or a weight or parameter is computed
//          a result has another reader, or is a graph output
//          x is no image of the result's channels, or of 16-bit floats, whose weights would lose what they add to 1
//
// RepVGG, MobileOne, FastViT and RepViT are trained with such branches; exporters write them as they stand. One convolution takes
// as many products as the largest of them.
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr int64_t largest = int64_t{1} << 30;  // of an attribute: sums and products of two stay within 64 bits

/// One operand of the sum, as a convolution of x.
struct Branch {
  NodeId node = NodeId::none;  // none: x itself
  ValueId x = ValueId::none;
  bool diagonal = false;  // of a normalisation or x: `factor` and `bias` for each channel
  std::vector<double> factor, bias;
  Tensor weights;  // of a convolution
  std::vector<int64_t> window, pads, strides, dilations;
  int64_t group = 1;
};

bool fits(const std::vector<int64_t>& values, size_t count, int64_t least) {
  return values.size() == count && std::ranges::all_of(values, [&](int64_t v) { return v >= least && v <= largest; });
}

Result<Branch> convolution(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  if (works_out_padding(node)) return refuse(Reason::wrong_attribute, conv, "{} works out its padding", describe(g, conv));
  const auto constants = filters(g, conv);
  if (!constants) return constants.refusal();
  const Shape& s = constants->weights.shape();
  Branch b{conv, node.in(0), false, {}, constants->bias, constants->weights, {s.begin() + 2, s.end()}};
  const size_t spatial = b.window.size();
  b.pads = node.get_ints("pads", std::vector<int64_t>(spatial * 2));
  b.strides = node.get_ints("strides", std::vector<int64_t>(spatial, 1));
  b.dilations = node.get_ints("dilations", std::vector<int64_t>(spatial, 1));
  b.group = constants->group;
  if (!fits(b.window, spatial, 1) || !fits(b.pads, spatial * 2, 0) || !fits(b.strides, spatial, 1) ||
      !fits(b.dilations, spatial, 1) || b.group < 1 || s[0] % b.group != 0)
    return refuse(Reason::wrong_attribute, conv, "the window of {} is none", describe(g, conv));
  return b;
}

/// x, or its normalisation, as a convolution beside `other`.
Result<Branch> diagonal(const Graph& g, NodeId norm, const Branch& other) {
  const int64_t channels = other.weights.shape()[0];
  Branch b{norm, other.x, true};
  if (norm == NodeId::none) {
    b.factor.assign(static_cast<size_t>(channels), 1), b.bias.assign(static_cast<size_t>(channels), 0);
  } else {
    const auto affine = batch_norm_affine(g, norm);
    if (!affine) return affine.refusal();
    b.factor = affine->factor, b.bias = affine->offset;
  }
  if (other.weights.shape()[1] * other.group != channels || static_cast<int64_t>(b.factor.size()) != channels)
    return refuse(Reason::wrong_shape, other.node, "{} gives other channels than its input has", describe(g, other.node));
  const size_t spatial = other.window.size();
  b.window.assign(spatial, 1), b.strides.assign(spatial, 1), b.dilations.assign(spatial, 1), b.pads.assign(spatial * 2, 0);
  b.group = other.group;
  return b;
}

/// Where the small window begins in the large one, in taps of each axis; nothing where it does not lie in it.
std::optional<std::vector<int64_t>> place(const Branch& large, const Branch& small) {
  const size_t spatial = large.window.size();
  if (small.window.size() != spatial || small.strides != large.strides || small.group != large.group) return {};
  std::vector<int64_t> first;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t step = large.dilations[i], ahead = large.pads[i] - small.pads[i];
    if (small.window[i] > 1 && small.dilations[i] != step) return {};
    if (ahead < 0 || ahead % step != 0 || ahead / step + small.window[i] > large.window[i]) return {};
    // Both give images of one size whatever x's is: what a window takes off an image less what padding adds is the same.
    const int64_t behind = large.pads[spatial + i] - small.pads[spatial + i];
    if (ahead + behind != step * (large.window[i] - 1) - small.dilations[i] * (small.window[i] - 1)) return {};
    first.push_back(ahead / step);
  }
  return first;
}

/// The large branch's weights with the small one's added at their place.
Tensor added(const Branch& large, const Branch& small, const std::vector<int64_t>& first) {
  Tensor sum = large.weights.cast(DType::f64).clone();
  double* to = sum.data<double>();
  const Shape& s = sum.shape();
  const int64_t channels = s[0], depth = s[1];
  int64_t window = 1, taps = 1;
  for (size_t i = 0; i < first.size(); ++i) window *= large.window[i], taps *= small.window[i];
  std::vector<int64_t> at(static_cast<size_t>(taps));  // of each tap of the small window, in the large one
  for (int64_t t = 0; t < taps; ++t) {
    int64_t rest = t, stride = 1;
    for (size_t i = first.size(); i-- > 0; stride *= large.window[i], rest /= small.window[i])
      at[static_cast<size_t>(t)] += (first[i] + rest % small.window[i]) * stride;
  }
  const Tensor wide = small.diagonal ? Tensor() : small.weights.cast(DType::f64);
  const double* from = small.diagonal ? nullptr : wide.data<double>();
  for (int64_t m = 0; m < channels; ++m) {
    if (small.diagonal) {
      to[(m * depth + m % depth) * window + at[0]] += small.factor[static_cast<size_t>(m)];
      continue;
    }
    for (int64_t c = 0; c < depth; ++c)
      for (int64_t t = 0; t < taps; ++t) to[(m * depth + c) * window + at[static_cast<size_t>(t)]] += *from++;
  }
  return sum;
}

Match merged(const Graph& g, NodeId add, const Branch& large, const Branch& small, const std::vector<int64_t>& first) {
  const DType type = g.constant(large.node, 1).type();
  std::vector<double> bias = large.bias;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += small.bias[i];
  std::vector<NodeId> nodes{large.node, add};
  if (small.node != NodeId::none) nodes.insert(nodes.begin(), small.node);
  Node conv = g.node(large.node);
  conv.outputs = {g.node(add).out()};
  conv.inputs.resize(3, ValueId::none);
  return {in_order(g, nodes), [nodes = in_order(g, nodes), conv, weights = added(large, small, first).cast(type),
                               bias = vector_of(bias, type)](Graph& graph) {
            Node n = conv;
            n.inputs[1] = graph.add_constant(n.name + "_weight", weights);
            n.inputs[2] = graph.add_constant(n.name + "_bias", bias);
            return replace(graph, nodes, std::move(n));
          }};
}

/// What beside a convolution of `a` the sum adds: another of its input, a normalisation of that, or that itself.
Result<Branch> beside(const Graph& g, NodeId add, ValueId other, const Branch& a) {
  if (other == a.x) {
    if (g.value(other).type == DType::f32 || g.value(other).type == DType::f64) return diagonal(g, NodeId::none, a);
    return refuse(Reason::wrong_type, add, "{} is {}", g.value(other).name, name(g.value(other).type));
  }
  const auto only = reader_of(g, other);
  if (!only) return only.refusal();
  const NodeId node = g.value(other).producer;
  return g.node(node).is("Conv") ? convolution(g, node) : diagonal(g, node, a);
}

/// The convolution `conv` with the sum's other operand.
Outcome with(const Graph& g, NodeId add, NodeId conv, ValueId other) {
  const ValueId x = g.node(conv).in(0);
  NodeId second = NodeId::none;
  const bool branch = made_by(g, other, "Conv", &second) || made_by(g, other, "BatchNormalization", &second);
  if (other != x && (!branch || g.node(second).in(0) != x)) return NotHere{};  // a residual
  const auto only = reader_of(g, g.node(conv).out());
  if (!only) return only.refusal();
  const auto a = convolution(g, conv);
  if (!a) return a.refusal();
  const auto b = beside(g, add, other, *a);
  if (!b) return b.refusal();
  if (b->bias.size() != a->bias.size() || (!b->diagonal && b->weights.shape()[1] != a->weights.shape()[1]))
    return refuse(Reason::wrong_shape, add, "the channels of {} are others", describe(g, b->node));
  if (const auto first = place(*a, *b)) return merged(g, add, *a, *b, *first);
  if (!b->diagonal)
    if (const auto first = place(*b, *a)) return merged(g, add, *b, *a, *first);
  return refuse(Reason::wrong_attribute, add, "no window of the two lies in the other, step for step");
}

}  // namespace

Outcome sum_of_convolutions(const Graph& g, NodeId n) {
  const Node& add = g.node(n);
  if (!add.is("Add") || add.inputs.size() != 2 || add.in(0) == add.in(1)) return NotHere{};
  Outcome outcome = NotHere{};
  for (size_t side : {size_t{0}, size_t{1}}) {
    NodeId conv;
    if (!made_by(g, add.in(side), "Conv", &conv) || g.value(add.in(1 - side)).is_constant()) continue;  // a constant: conv_bias's
    Outcome here = with(g, n, conv, add.in(1 - side));
    if (std::holds_alternative<Match>(here)) return here;
    if (std::holds_alternative<Refusal>(here)) outcome = std::move(here);
  }
  return outcome;
}

}  // namespace smelt::fuse
