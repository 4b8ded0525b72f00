// Before   Conv(Concat(x1, …, xk), w, b) over the channels; an input may be a nearest-neighbour upsampling
// After    ai.smelt.Conv(x1, …, xk, w, b) with k segments and their upsampling factors
// Unless   the concatenation is along another axis
//          something other than convolutions reads it, or it is a graph output
//          the convolution has groups, or reads it as its weights
//          the number of an input's channels is not known
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/layout/concat.h"
#include "fuse/rewrites/rewrites.h"
#include "graph/fused.h"

namespace smelt::fuse {
namespace {

bool is_convolution(const Node& n) { return n.is("Conv") || (n.is("Conv", smelt_domain) && n.get_int("segments", 1) == 1); }

}  // namespace

Outcome concat_conv_everywhere(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  NodeId concat;
  if (!is_convolution(node) || !made_by(g, node.in(0), "Concat", &concat)) return NotHere{};
  const Node& joined = g.node(concat);
  const auto& shape = g.value(joined.out()).shape;
  if (!shape) return refuse(Reason::unknown_shape, concat, "the rank of {} is not known", g.value(joined.out()).name);
  if (normalize_axis(joined.get_int("axis", 0), static_cast<int64_t>(shape->size())) != 1)
    return refuse(Reason::wrong_axis, concat, "{} joins along axis {}", describe(g, concat), joined.get_int("axis", 0));
  if (g.is_output(joined.out())) return refuse(Reason::graph_output, concat, "{} is a graph output", g.value(joined.out()).name);
  for (const Use& u : g.readers(joined.out()))
    if (!is_convolution(g.node(u.node)) || u.input != 0)
      return refuse(Reason::extra_reader, u.node, "{} is also read by {}", g.value(joined.out()).name, describe(g, u.node));
  if (node.get_int("group", 1) != 1)
    return refuse(Reason::wrong_attribute, conv, "{} has {} groups", describe(g, conv), node.get_int("group", 1));
  if (works_out_padding(node)) return refuse(Reason::wrong_attribute, conv, "{} works out its own padding", describe(g, conv));
  const auto given = node.get_ints("upsample");
  if (std::any_of(given.begin(), given.end(), [](int64_t f) { return f != 1; }))
    return refuse(Reason::wrong_attribute, conv, "{} upsamples what it reads", describe(g, conv));

  std::vector<ValueId> inputs;
  std::vector<int64_t> upsample;
  std::vector<NodeId> nodes;
  for (ValueId x : joined.inputs) {
    const auto& s = g.value(x).shape;
    if (!s || s->size() < 3 || !(*s)[1].known())
      return refuse(Reason::unknown_shape, concat, "the channels of {} are not known", g.value(x).name);
    NodeId resize;
    const bool resized = made_by(g, x, "Resize", &resize) && g.only_reader(x) == concat;
    const auto factor = resized ? nearest_factor(g, resize) : std::nullopt;
    inputs.push_back(factor ? g.node(resize).in(0) : x);
    upsample.push_back(factor.value_or(1));
    if (factor) nodes.push_back(resize);
  }
  nodes.push_back(concat);
  nodes.push_back(conv);

  Node fused = node;
  fused.domain = smelt_domain;
  fused.opset = 1;
  fused.attrs.erase("auto_pad");
  fused.attrs["segments"] = static_cast<int64_t>(inputs.size());
  fused.attrs["upsample"] = upsample;
  inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
  fused.inputs = inputs;
  return Match{nodes, [nodes, conv, fused](Graph& graph) {
                 // Concat and Resize stay while another convolution reads them; dead_code takes them otherwise.
                 Node made = fused;
                 for (NodeId n : nodes)
                   made.sources.insert(made.sources.end(), graph.node(n).sources.begin(), graph.node(n).sources.end());
                 std::sort(made.sources.begin(), made.sources.end());
                 made.sources.erase(std::unique(made.sources.begin(), made.sources.end()), made.sources.end());
                 graph.remove_node(conv);
                 return graph.add_node(std::move(made));
               }};
}

Outcome concat_conv(const Graph& g, NodeId conv) {
  const NodeId concat = g.producer(conv, 0);
  if (!is_convolution(g.node(conv)) || concat == NodeId::none || !g.node(concat).is("Concat")) return NotHere{};
  if (!not_in_place(g, concat)) return NotHere{};
  return concat_conv_everywhere(g, conv);
}

}  // namespace smelt::fuse
