// Before   LayerNormalization, RMSNormalization; com.microsoft's SimplifiedLayerNormalization, SkipLayerNormalization,
//          SkipSimplifiedLayerNormalization; InstanceNormalization
// After    ai.smelt.Norm; the Skip forms with residual, and the sum as output 1 where it is read
// Unless   the mean or the inverse deviation is read
//          the rank is not known and the axis counts from the front, or there is no such axis
//          SkipLayerNormalization adds a bias as well
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool is_read(const Graph& g, ValueId v) { return v != ValueId::none && (g.is_output(v) || !g.readers(v).empty()); }

Match norm(NodeId n, Node fused) { return replacement({n}, std::move(fused)); }

Node norm_node(const Node& n, bool rms, int64_t axis, float epsilon, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node fused = fused_node("Norm", std::move(inputs), std::move(outputs));
  fused.attrs["kind"] = std::string(rms ? "rms" : "layer");
  fused.attrs["axis"] = axis;
  fused.attrs["epsilon"] = n.get_float("epsilon", epsilon);
  return fused;
}

Outcome layer(const Graph& g, NodeId id, bool rms) {
  const Node& n = g.node(id);
  for (size_t o : {1, 2})
    if (is_read(g, n.out(o))) return refuse(Reason::extra_reader, id, "output {} ({}) is used", o, g.value(n.out(o)).name);
  int64_t axis = n.get_int("axis", -1);
  const int r = rank(g, n.in(0));
  if (axis >= 0 && r < 0)
    return refuse(Reason::unknown_shape, id, "axis {} counts from the front and the rank is not known", axis);
  if (r >= 0 && (axis < -r || axis >= r)) return refuse(Reason::wrong_axis, id, "axis {} of {} axes", axis, r);
  if (axis >= 0) axis -= r;
  return norm(id, norm_node(n, rms, axis, 1e-5f, {n.in(0), ValueId::none, n.in(1), n.in(2)}, {n.out()}));
}

Outcome skip(const Graph& g, NodeId id, bool rms) {
  const Node& n = g.node(id);
  for (size_t o : {1, 2})
    if (is_read(g, n.out(o))) return refuse(Reason::extra_reader, id, "output {} ({}) is used", o, g.value(n.out(o)).name);
  if (n.in(1) == ValueId::none) return refuse(Reason::missing_input, id, "there is nothing to skip to");
  const ValueId beta = rms ? ValueId::none : n.in(3), bias = n.in(rms ? 3 : 4);
  if (bias != ValueId::none) return refuse(Reason::unsupported, id, "it adds the bias {}", g.value(bias).name);
  if (!same_shape(g, n.in(0), n.in(1)))
    return refuse(Reason::wrong_shape, id, "{} and {} are not proven to have the same shape", g.value(n.in(0)).name,
                  g.value(n.in(1)).name);
  std::vector<ValueId> outputs{n.out()};
  if (is_read(g, n.out(3))) outputs.push_back(n.out(3));
  return norm(id, norm_node(n, rms, -1, 1e-12f, {n.in(0), n.in(1), n.in(2), beta}, outputs));
}

/// Statistics over the spatial axes of each channel: gamma and beta are constants [C], seen as [C, 1, …].
Outcome instance(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const int r = rank(g, n.in(0));
  if (r < 3)
    return refuse(Reason::unknown_shape, id, "the rank of {} is {}", g.value(n.in(0)).name, r < 0 ? "not known" : "below 3");
  for (size_t i : {1, 2})
    if (!g.value(n.in(i)).is_constant())
      return refuse(Reason::not_constant, g.producer(id, i), "{} is computed", g.value(n.in(i)).name);
  const Tensor &gamma = g.constant(id, 1), &beta = g.constant(id, 2);
  if (gamma.size() != beta.size()) return refuse(Reason::wrong_shape, id, "{} scales, {} offsets", gamma.size(), beta.size());
  Shape shape(static_cast<size_t>(r - 1), 1);
  shape[0] = gamma.size();
  Node fused = norm_node(n, false, 2 - r, 1e-5f, {n.in(0), ValueId::none, ValueId::none, ValueId::none}, {n.out()});
  return Match{{id}, [id, fused, gamma, beta, shape](Graph& graph) {
                 Node with = fused;
                 with.inputs = {fused.inputs[0], ValueId::none, graph.add_constant("", gamma.reshaped(shape)),
                                graph.add_constant("", beta.reshaped(shape))};
                 return replace(graph, {id}, with);
               }};
}

}  // namespace

Outcome norm_operator(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (n.in(0) == ValueId::none || !is_real(g.value(n.in(0)).type)) return NotHere{};
  if (n.is("LayerNormalization")) return layer(g, id, false);
  if (n.is("RMSNormalization")) return layer(g, id, true);
  if (n.is("SimplifiedLayerNormalization", microsoft_domain) || n.is("SimplifiedLayerNormalization")) return layer(g, id, true);
  if (n.is("SkipLayerNormalization", microsoft_domain)) return skip(g, id, false);
  if (n.is("SkipSimplifiedLayerNormalization", microsoft_domain)) return skip(g, id, true);
  if (n.is("InstanceNormalization")) return instance(g, id);
  return NotHere{};
}

}  // namespace smelt::fuse
