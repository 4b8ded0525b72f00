// Before   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * gamma + beta, the difference computed once or twice, the square as
//          Pow or Mul, between casts to f32 and back or without; gamma and beta may be absent; the variance as mean(x^2) - mean(x)^2,
//          cut off at 0 or not; s = gamma / sqrt(…) first, then x * s + (beta - mean(x) * s)
// After    ai.smelt.Norm layer
// Unless   a mean is not over the last axes, or does not keep them, or the two are over different axes
//          epsilon is not constant
//          the quotient is not of x - mean(x)
//          a value inside has another reader or is a graph output
#include <algorithm>

#include "fuse/rewrites/recognise/norm_parts.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// x - mean(x).
struct Centred {
  NodeId sub = NodeId::none;
  Mean mean;
  std::optional<Refusal> wrong;
};
std::optional<Centred> centred(const Graph& g, ValueId v) {
  Centred c;
  if (!made_by(g, v, "Sub", &c.sub)) return {};
  auto m = mean(g, g.node(c.sub).in(1));
  if (!m) return {};
  if (*m)
    c.mean = **m;
  else
    c.wrong = m->refusal();
  if (!c.wrong && c.mean.of != g.node(c.sub).in(0)) return {};
  return c;
}

/// The first reader of `mean` that is x - mean; none where there is none.
ValueId difference(const Graph& g, ValueId x, ValueId mean) {
  for (const Use& u : g.readers(mean))
    if (g.node(u.node).is("Sub") && u.input == 1 && g.node(u.node).in(0) == x) return g.node(u.node).out();
  return ValueId::none;
}

/// The variance as mean(x^2) - mean(x)^2: `reduce` is the first mean, of `squares`.
Outcome of_means(const Graph& g, NodeId reduce, const Square& squares) {
  const ValueId x = squares.of;
  NodeId sub = NodeId::none;
  for (const Use& u : g.readers(g.node(reduce).out()))
    if (g.node(u.node).is("Sub") && u.input == 0) sub = u.node;
  if (sub == NodeId::none) return NotHere{};
  const auto second = square(g, g.node(sub).in(1));
  if (!second) return NotHere{};
  const auto m = mean(g, second->of);
  if (!m || (*m && (*m)->of != x)) return NotHere{};
  if (!*m) return m->refusal();
  Result<Mean> found = mean_of(g, reduce);
  if (!found) return found.refusal();
  Mean variance = *found;
  if (variance.axes != (*m)->axes)
    return refuse(Reason::wrong_axis, (*m)->node, "the mean is over {} axes, that of the squares over {}", (*m)->axes,
                  variance.axes);
  std::vector<NodeId> nodes{(*m)->node, squares.node, reduce, second->node, sub};
  variance.node = sub;
  const NodeId cut = g.only_reader(g.node(sub).out());
  if (cut != NodeId::none) {
    const auto limit = g.node(cut).is("Max") && g.node(cut).inputs.size() == 2 ? constant_operand(g, cut) : std::nullopt;
    if (g.node(cut).is("Relu") || (limit && limit->first == 0 && rank(g, g.node(cut).out()) == rank(g, x))) {
      variance.node = cut;
      nodes.push_back(cut);
    }
  }
  const Numerator numerator{difference(g, x, second->of), x, second->of};
  if (numerator.centred != ValueId::none) nodes.push_back(g.value(numerator.centred).producer);
  auto tail = norm_tail(g, variance, numerator, true);
  if (!tail) return tail.refusal();
  return make_norm(g, "layer", x, nodes, variance, *tail);
}

}  // namespace

Outcome recognise_layer_norm(const Graph& g, NodeId reduce) {
  if (!g.node(reduce).is("ReduceMean")) return NotHere{};
  auto squares = square(g, g.node(reduce).in(0));
  if (!squares) return NotHere{};
  auto c = centred(g, squares->of);
  if (!c) return of_means(g, reduce, *squares);
  if (c->wrong) return *c->wrong;
  const Result<Mean> squared_mean = mean_of(g, reduce);
  if (!squared_mean) return squared_mean.refusal();
  const Mean& variance = *squared_mean;
  if (variance.axes != c->mean.axes)
    return refuse(Reason::wrong_axis, c->mean.node, "the mean is over {} axes, the variance over {}", c->mean.axes,
                  variance.axes);

  std::vector<NodeId> nodes{c->mean.node, c->sub, squares->node, reduce};
  ValueId numerator = squares->of;
  // Keras and TensorFlow compute the difference a second time.
  for (const Use& u : g.readers(g.node(c->sub).in(0))) {
    if (u.node == c->sub || !g.node(u.node).is("Sub")) continue;
    auto again = centred(g, g.node(u.node).out());
    if (!again || again->wrong || again->mean.axes != variance.axes) continue;
    nodes.push_back(again->sub);
    nodes.push_back(again->mean.node);
    numerator = g.node(again->sub).out();
  }
  const bool divided = std::ranges::any_of(g.readers(numerator), [&](const Use& u) { return u.node != squares->node; });
  if (numerator == squares->of && !divided && !g.is_output(numerator))
    numerator = ValueId::none;  // nothing but the square reads x - mean
  auto tail = norm_tail(g, variance, {numerator, c->mean.of, g.node(c->mean.node).out()}, true);
  if (!tail) return tail.refusal();
  return make_norm(g, "layer", c->mean.of, nodes, variance, *tail);
}

}  // namespace smelt::fuse
