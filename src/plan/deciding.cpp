#include "plan/deciding.h"

#include <algorithm>
#include <set>

#include "plan/shapes.h"

namespace smelt::plan {
namespace {

/// What one condition is made of.
struct Condition {
  bool shapes = false, other_values = false;
  std::set<size_t> booleans;
};

class Search {
 public:
  explicit Search(const Graph& g) : g_(g) {}

  Condition of(ValueId condition) {
    Condition found;
    std::vector<ValueId> next{condition};
    std::set<ValueId> seen;
    while (!next.empty()) {
      const ValueId v = next.back();
      next.pop_back();
      if (v == ValueId::none || !seen.insert(v).second) continue;
      const Value& value = g_.value(v);
      if (value.constant.valid()) continue;
      if (value.producer == NodeId::none) {
        enter(v, found);
        continue;
      }
      const Node& node = g_.node(value.producer);
      if (node.is("Shape") || node.is("Size")) {
        found.shapes = true;
        continue;
      }
      if (is_control_flow(node)) found.shapes = found.other_values = true;
      next.insert(next.end(), node.inputs.begin(), node.inputs.end());
    }
    return found;
  }

 private:
  void enter(ValueId v, Condition& found) const {
    const auto at = std::ranges::find(g_.inputs(), v);
    if (at != g_.inputs().end() && g_.value(v).type == DType::boolean)
      found.booleans.insert(static_cast<size_t>(at - g_.inputs().begin()));
    else
      found.other_values = true;
  }

  const Graph& g_;
};

bool holds_if(const Graph& g) {
  for (size_t i = 0; i < g.node_count(); ++i) {
    const Node& node = g.node(NodeId(i));
    if (!node.alive) continue;
    if (node.is("If")) return true;
    for (const GraphPtr& body : bodies_of(node))
      if (holds_if(*body)) return true;
  }
  return false;
}

}  // namespace

std::vector<GraphPtr> bodies_of(const Node& node) {
  std::vector<GraphPtr> bodies;
  for (const auto& [key, attribute] : node.attrs)
    if (const auto* g = std::get_if<GraphPtr>(&attribute); g && *g) bodies.push_back(*g);
  return bodies;
}

Deciding what_decides(const Graph& g) {
  Deciding found;
  std::set<size_t> booleans;
  Search search(g);
  for (size_t i = 0; i < g.node_count(); ++i) {
    const Node& node = g.node(NodeId(i));
    if (!node.alive || !node.is("If")) continue;
    const Condition c = search.of(node.in(0));
    const bool by_constants = !c.other_values && c.booleans.empty();  // such as rewriting left
    const auto holds = [](const GraphPtr& body) { return holds_if(*body); };
    found.shapes = found.shapes || c.shapes || by_constants || std::ranges::any_of(bodies_of(node), holds);
    if (!c.other_values) booleans.insert(c.booleans.begin(), c.booleans.end());
  }
  if (booleans.size() <= Deciding::most) found.inputs.assign(booleans.begin(), booleans.end());
  return found;
}

}  // namespace smelt::plan
