#include "plan/branches.h"

#include <algorithm>

#include "graph/inline.h"
#include "plan/shapes.h"

namespace smelt::plan {
namespace {

bool has_if(const Graph& g) {
  for (size_t i = 0; i < g.node_count(); ++i)
    if (const Node& node = g.node(NodeId(i)); node.alive && node.is("If")) return true;
  return false;
}

/// The Ifs whose condition is known, and whether each takes its then_branch.
std::vector<std::pair<NodeId, bool>> decided(const Graph& g, std::span<const Shape> inputs, std::span<const Tensor> values) {
  const std::vector<NodeId> order = g.topological();
  Environment env(g, order);
  for (size_t i = 0; i < inputs.size(); ++i) env.set(g.inputs()[i], g.value(g.inputs()[i]).type, inputs[i]);
  for (size_t i = 0; i < values.size(); ++i) env[g.inputs()[i]].value = values[i];
  plan_segment(g, order, env, false);
  std::vector<std::pair<NodeId, bool>> found;
  for (NodeId n : order) {
    const Node& node = g.node(n);
    if (!node.is("If") || node.in(0) == ValueId::none) continue;
    const Tensor& condition = env[node.in(0)].value;
    if (!condition.valid() || condition.size() != 1) continue;
    const bool taken = condition.to_ints()[0] != 0;
    if (!cannot_inline(g, n, taken)) found.emplace_back(n, taken);
  }
  return found;
}

}  // namespace

bool inlines_decided(const Options& options) {
  return options.optimize && std::ranges::find(options.skip, "inline_if") == options.skip.end();
}

std::optional<DecidedGraph> inline_decided(const Graph& g, std::span<const Shape> inputs, std::span<const Tensor> values) {
  std::optional<DecidedGraph> made;
  // What a branch makes may decide the next If, and a branch may hold Ifs: every round takes out one level at least.
  for (const Graph* now = &g; has_if(*now); now = &made->graph) {
    const auto found = decided(*now, inputs, values);
    if (found.empty()) break;
    if (!made) made = DecidedGraph{clone(g), {}};
    for (const auto& [node, taken] : found) {
      made->decisions.emplace_back(made->graph.node(node).name, taken);
      inline_branch(made->graph, node, taken);
    }
  }
  return made;
}

}  // namespace smelt::plan
