// What rewrites would save of a profile, or what keeps them from it.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "graph/graph.h"
#include "ops/reorder/around.h"
#include "profile/advice.h"
#include "report/subject.h"

namespace smelt::report {
namespace {

std::map<std::string, double> own_us(const profile::Profile& p) {
  std::map<std::string, double> us;
  for (const profile::StepRow& r : p.steps) us[r.step.name] += r.own_us();
  return us;
}

/// What the steps of these nodes take without the longest of them, of which a kernel remains. A step counts once: it is taken out.
double beside_longest(std::map<std::string, double>& steps, const std::vector<std::string>& nodes) {
  double all = 0, longest = 0;
  std::string kept;
  for (const std::string& n : nodes)
    if (const auto at = steps.find(n); at != steps.end() && at->second > longest) longest = at->second, kept = n;
  for (const std::string& n : nodes) {
    const auto at = steps.find(n);
    if (at == steps.end() || n == kept) continue;
    all += at->second;
    steps.erase(at);
  }
  return all;
}

/// Of a quantised model: what its float nodes cost beyond 8 bits.
void add_float_advice(profile::Profile& p, const Explained& e) {
  if (e.float_nodes.empty()) return;
  profile::Advice a{"quantise what stayed in float", "", 0, "rewrites", {}};
  for (const FloatNode& n : e.float_nodes) {
    a.us += n.cost_us;
    a.steps.insert(a.steps.end(), n.nodes.begin(), n.nodes.end());
  }
  const FloatNode& worst = e.float_nodes[0];
  a.why = fmt::format("{} nodes of this quantised model move floats; the most expensive is {} ({}): {}", e.float_nodes.size(),
                      worst.nodes[0], worst.op, worst.detail);
  if (a.us > 0) p.advice.push_back(std::move(a));
}

}  // namespace

Reorders reorders_around(const profile::Profile& p, const Graph& graph) {
  Reorders r;
  if (p.roof.bytes_per_s <= 0) return r;
  std::map<std::string, int64_t> constants;  // bytes that a node reads of them
  for (const NodeId id : graph.topological())
    for (size_t i = 0; i < graph.node(id).inputs.size(); ++i)
      if (const Tensor& t = graph.constant(id, i); t.valid()) constants[graph.node(id).name] += t.nbytes();
  for (const profile::StepRow& row : p.steps) {
    if (!row.step.config.ends_with(ops::reordered_suffix)) continue;
    const int64_t images = std::max<int64_t>(0, row.step.bytes - constants[row.step.name]);
    r.us += std::min(0.8 * row.own_us(), 2 * static_cast<double>(images) / p.roof.bytes_per_s * 1e6);
    ++r.steps;
  }
  return r;
}

void add_rewrite_advice(profile::Profile& p, const Explained& e, bool optimized, const Reorders& reorders) {
  if (!optimized) {
    profile::Advice a{"run it as smelt rewrites it: --optimized shows it, smelt optimize writes it", "", 0, "rewrites", {}};
    int64_t places = 0;
    std::map<std::string, double> steps = own_us(p);
    for (const fuse::Entry& x : e.ledger) {
      const double us = x.matched ? std::max(x.saved_us, beside_longest(steps, x.nodes)) : 0;
      if (us > 0) a.us += us, ++places;
    }
    std::string why;
    if (places > 0)
      why = fmt::format("{} rewrite{} would leave out steps, or bytes and starts of them", places, places == 1 ? "" : "s");
    if (reorders.steps > 0) {
      a.us += reorders.us;
      why += fmt::format("{}{} step{} reorder{} images before and behind {}, which then stay as they are from one to the next",
                         why.empty() ? "" : ", and ", reorders.steps, reorders.steps == 1 ? "" : "s",
                         reorders.steps == 1 ? "s" : "", reorders.steps == 1 ? "it" : "them");
    }
    a.why = why + std::string(not_counted);
    a.option = "--optimized";
    if (!why.empty()) p.advice.push_back(std::move(a));
  } else {
    for (const fuse::Entry& x : e.ledger)
      if (!x.matched && x.cost_us > 0)
        p.advice.push_back(
            {fmt::format("remove what keeps {} from matching: {}", x.rewrite, x.detail.empty() ? x.reason : x.detail),
             x.blocker.empty() ? "these nodes stay apart" : fmt::format("these nodes stay apart for {}", x.blocker), x.cost_us,
             "rewrites", x.nodes});
  }
  add_float_advice(p, e);
  profile::rank(p.advice, std::max(p.latency_us.median, p.host_latency_us.median));
}

}  // namespace smelt::report
