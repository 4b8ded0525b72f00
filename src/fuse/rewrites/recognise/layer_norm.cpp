// Before   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * gamma + beta, the difference computed once or twice, the square as
//          Pow or Mul, between casts to f32 and back or without; gamma and beta may be absent
// After    ai.smelt.Norm layer
// Unless   a mean is not over the last axes, or does not keep them, or the two are over different axes
//          epsilon is not constant
//          the quotient is not of x - mean(x)
//          a value inside has another reader or is a graph output
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

}  // namespace

Outcome recognise_layer_norm(const Graph& g, NodeId reduce) {
  if (!g.node(reduce).is("ReduceMean")) return NotHere{};
  auto squares = square(g, g.node(reduce).in(0));
  if (!squares) return NotHere{};
  auto c = centred(g, squares->of);
  if (!c) return NotHere{};
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
  auto tail = norm_tail(g, variance, numerator, true);
  if (!tail) return tail.refusal();
  return make_norm(g, "layer", c->mean.of, nodes, variance, *tail);
}

}  // namespace smelt::fuse
