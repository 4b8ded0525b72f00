// A step's time as the times of the model's nodes that it stands for.
#include <map>
#include <set>

#include "plan/node_costs.h"
#include "profile/limiter.h"

namespace smelt::profile {

void add_nodes(Profile& p, const Graph& model, std::span<const Shape> inputs) {
  const std::vector<plan::NodeCost> costs = plan::node_costs(model, inputs);
  std::map<std::string, const plan::NodeCost*> by_name;
  for (const plan::NodeCost& c : costs) by_name.emplace(c.name, &c);
  std::map<std::string, NodeRow> rows;
  for (const StepRow& s : p.steps) {
    std::set<std::string> sources(s.step.sources.begin(), s.step.sources.end());
    std::erase_if(sources, [&](const std::string& n) { return !by_name.contains(n); });
    const auto floor_of = [&](const plan::NodeCost& c) {
      return p.roof.floor_us(static_cast<double>(c.bytes), static_cast<double>(c.flops), computes_in(s.step));
    };
    double sum = 0;
    for (const std::string& n : sources) sum += floor_of(*by_name[n]);
    for (const std::string& n : sources) {
      const plan::NodeCost& c = *by_name[n];
      const double part = sum > 0 ? floor_of(c) / sum : 1.0 / static_cast<double>(sources.size());
      NodeRow& row = rows[n];  // of several steps, where a node runs as more than one
      const bool more = part * s.us.median > row.us || row.name.empty();
      row.name = n, row.op = c.op, row.bytes = c.bytes, row.flops = c.flops, row.floor_us = floor_of(c);
      if (more) row.step = s.step.name, row.step_roof_share = s.roof_share, row.limiter = s.limiter;
      row.us += part * s.us.median;
    }
  }
  for (const plan::NodeCost& c : costs)
    if (const auto at = rows.find(c.name); at != rows.end()) {
      p.nodes.push_back(std::move(at->second));
      rows.erase(at);
    }
}

}  // namespace smelt::profile
