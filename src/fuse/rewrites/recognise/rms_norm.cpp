// Before   x / sqrt(mean(x^2) + eps) * gamma: ReduceMean(Pow 2 or x * x) → Add → Sqrt → Reciprocal or Div → Mul; between casts
//          to f32 and back or without; gamma (over the normalised axes) before or after the cast back, or absent
// After    ai.smelt.Norm rms
// Unless   the mean is not over the last axes, or does not keep them
//          epsilon is not constant
//          the quotient is not of x
//          a value inside has another reader or is a graph output
#include "fuse/rewrites/recognise/norm_parts.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome recognise_rms_norm(const Graph& g, NodeId reduce) {
  if (!g.node(reduce).is("ReduceMean")) return NotHere{};
  auto squares = square(g, g.node(reduce).in(0));
  if (!squares) return NotHere{};
  if (NodeId sub; made_by(g, squares->of, "Sub", &sub) && mean(g, g.node(sub).in(1))) return NotHere{};  // a LayerNorm
  for (const Use& u : g.readers(g.node(reduce).out()))
    if (g.node(u.node).is("Sub") && u.input == 0 && square(g, g.node(u.node).in(1)))
      return NotHere{};  // mean(x^2) - mean(x)^2: too
  const Result<Mean> squared_mean = mean_of(g, reduce);
  if (!squared_mean) return squared_mean.refusal();
  const Mean& variance = *squared_mean;
  auto tail = norm_tail(g, variance, {.centred = squares->of}, false);
  if (!tail) return tail.refusal();
  return make_norm(g, "rms", squares->of, {squares->node, reduce}, variance, *tail);
}

}  // namespace smelt::fuse
