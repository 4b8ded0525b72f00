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
std::vector<std::pair<NodeId, bool>> decided(const Graph& g, std::span<const NodeId> order, std::span<const Shape> inputs,
                                             std::span<const Tensor> values) {
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

std::shared_ptr<const DecidedGraphs::Made> DecidedGraphs::keep(const Decisions& decisions, Graph graph) {
  auto made = std::make_shared<Made>();
  made->order = graph.topological();
  made->graph = std::make_shared<const Graph>(std::move(graph));
  const std::lock_guard lock(mutex_);
  return made_.try_emplace(decisions, std::move(made)).first->second;
}

std::optional<DecidedGraphs::Form> DecidedGraphs::find(const Graph& g, std::span<const Shape> inputs,
                                                       std::span<const Tensor> values) {
  Decisions decisions;
  std::shared_ptr<const Made> made;
  // What a branch makes may decide the next If, and a branch may hold Ifs: every round takes out one level at least.
  for (const Graph* now = &g; has_if(*now); now = made->graph.get()) {
    const auto found = decided(*now, made ? made->order : now->topological(), inputs, values);
    if (found.empty()) break;
    for (const auto& [node, taken] : found) decisions.emplace_back(now->node(node).name, taken);
    std::shared_ptr<const Made> known;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = made_.find(decisions); at != made_.end()) known = at->second;
    }
    if (!known) {
      Graph next = clone(*now);
      for (const auto& [node, taken] : found) inline_branch(next, node, taken);
      known = keep(decisions, std::move(next));
    }
    made = std::move(known);
  }
  if (!made) return std::nullopt;
  return Form{std::move(decisions), made->graph};
}

}  // namespace smelt::plan
