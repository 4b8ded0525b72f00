#include "report/slower_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "report/report.h"

namespace smelt::report {
namespace {

using profile::StepRow;

/// What ONNX Runtime's quantizers append to names of nodes and of values, the longest first.
constexpr std::array<std::string_view, 11> appended = {"_output_quantized_cast_output",
                                                       "_DequantizeLinear_Output",
                                                       "_QuantizeLinear_Output",
                                                       "_QuantizeLinear_Input",
                                                       "_output_quantized",
                                                       "_DequantizeLinear",
                                                       "_QuantizeLinear",
                                                       "_cast_output",
                                                       "_dequantized",
                                                       "_quantized",
                                                       "_quant"};

/// A step of one of the sides.
struct Side {
  const StepRow* row;
  bool after;
};

/// The sets of steps that share a key.
class Sets {
 public:
  explicit Sets(size_t count) : parents_(count) { std::iota(parents_.begin(), parents_.end(), size_t{0}); }
  size_t of(size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  void join(size_t a, size_t b) {
    a = of(a), b = of(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parents_;
};

std::string op_of(const std::string& node, const NamedNodes& nodes) {
  const auto at = nodes.find(node);
  return at == nodes.end() ? "" : at->second.op;
}

bool only_converts(const StepInfo& s, const NamedNodes& nodes) {
  if (s.sources.empty()) return is_conversion(s.op);
  return std::ranges::all_of(s.sources, [&](const std::string& n) {
    const std::string op = op_of(n, nodes);
    return is_conversion(op.empty() ? s.op : op);
  });
}

using Names = std::set<std::string>;

Names value_names(const NamedNodes& nodes) {
  Names names;
  for (const auto& [name, node] : nodes)
    for (const std::string& v : node.outputs) names.insert(unquantized_name(v));
  return names;
}

/// The names by which a step is known on both sides: of what its nodes write, and of nodes whose values the other model has not: the
/// names of nodes that a file leaves without one are made up, and the same may stand for another. Conversions have none: theirs would
/// be those of what they convert.
std::vector<std::string> keys_of(const StepInfo& s, const NamedNodes& nodes, const Names& other_values) {
  std::vector<std::string> keys;
  if (s.sources.empty() && !s.name.empty()) keys.push_back("step " + unquantized_name(s.name));
  for (const std::string& n : s.sources) {
    const auto at = nodes.find(n);
    if (at != nodes.end() && is_conversion(at->second.op)) continue;
    bool known = false;
    if (at != nodes.end())
      for (const std::string& v : at->second.outputs) {
        const std::string name = unquantized_name(v);
        known = known || other_values.contains(name);
        keys.push_back("value " + name);
      }
    if (!known) keys.push_back("node " + unquantized_name(n));
  }
  return keys;
}

bool covers(const StepInfo& s, const std::vector<std::string>& nodes) {
  return std::ranges::any_of(s.sources, [&](const std::string& n) { return std::ranges::find(nodes, n) != nodes.end(); });
}

const FloatNode* float_node_of(const StepInfo& s, const std::vector<FloatNode>& float_nodes) {
  const auto at = std::ranges::find_if(float_nodes, [&](const FloatNode& f) { return covers(s, f.nodes); });
  return at == float_nodes.end() ? nullptr : &*at;
}

/// Says why a group of steps takes longer than what stood for it before.
class Reasons {
 public:
  Reasons(const NamedNodes& nodes, const std::vector<FloatNode>& float_nodes, const fuse::Ledger& ledger)
      : nodes_(nodes), float_nodes_(float_nodes), ledger_(ledger) {}

  void explain(SlowerNodes& group, const std::vector<const StepRow*>& before, const std::vector<const StepRow*>& after) const {
    const StepInfo& longest = after.front()->step;
    double float_us = 0;
    const FloatNode* in_float = nullptr;
    for (const StepRow* r : after)
      if (const FloatNode* f = float_node_of(r->step, float_nodes_)) float_us += r->own_us(), in_float = in_float ? in_float : f;
    if (std::ranges::all_of(after, [&](const StepRow* r) { return only_converts(r->step, nodes_); })) {
      group.reason = "conversion", group.detail = of_conversion(longest);
    } else if (in_float && 2 * float_us >= group.longer_us()) {
      group.reason = "stayed_in_float", group.detail = in_float->detail;
    } else if (longest.op.ends_with("Reorder")) {
      group.reason = "reorder", group.detail = "an image's elements are put into another order for the kernel that reads them";
    } else if (after.size() > std::max<size_t>(before.size(), 1)) {
      group.reason = "more_steps", group.detail = of_steps(before, after);
    } else if (const TacticNote* refused = refused_tactic(longest)) {
      group.reason = "tactic_refused";
      group.detail = fmt::format("{} cannot run it: {}", refused->tactic, refused->reason);
    } else {
      group.reason = "kernel";
      group.detail =
          before.empty() ? "nothing stood for it" : fmt::format("before it ran by {}", tactic_text(before.front()->step));
    }
  }

 private:
  std::string of_conversion(const StepInfo& s) const {
    for (const std::string& n : s.sources) {
      const auto at = nodes_.find(n);
      if (at == nodes_.end()) continue;
      for (const std::string& beside : at->second.neighbours)
        for (const FloatNode& f : float_nodes_)
          if (std::ranges::find(f.nodes, beside) != f.nodes.end())
            return fmt::format("beside {}, which stayed in float: {}", beside, f.detail);
    }
    if (const fuse::Entry* e = rejection_to_8_bits(ledger_, s.sources)) return e->detail;
    return "no step beside it takes it in";
  }
  static std::string of_steps(const std::vector<const StepRow*>& before, const std::vector<const StepRow*>& after) {
    std::vector<std::string> parts;
    for (const StepRow* r : after) parts.push_back(fmt::format("{} {}", r->step.name, format(r->own_us(), Unit::us)));
    return fmt::format("{} steps instead of {}: {}", after.size(), before.size(), joined(parts, 4));
  }
  static const TacticNote* refused_tactic(const StepInfo& s) {
    const auto at =
        std::ranges::find_if(s.others, [](const TacticNote& t) { return !t.code.empty() && t.code != "not_compared"; });
    return at == s.others.end() ? nullptr : &*at;
  }

  const NamedNodes& nodes_;
  const std::vector<FloatNode>& float_nodes_;
  const fuse::Ledger& ledger_;
};

double sum_us(const std::vector<const StepRow*>& steps) {
  return std::accumulate(steps.begin(), steps.end(), 0.0, [](double sum, const StepRow* r) { return sum + r->own_us(); });
}

double scatter_us(const std::vector<const StepRow*>& a, const std::vector<const StepRow*>& b) {
  double squares = 0;
  for (const auto* steps : {&a, &b})
    for (const StepRow* r : *steps) squares += r->us.iqr * r->us.iqr;
  return std::sqrt(squares);
}

/// The nodes that a group stands for: as the model before names them, and behind them those that only the one after has.
std::vector<std::string> names_of(const std::vector<const StepRow*>& before, const std::vector<const StepRow*>& after,
                                  const NamedNodes& after_nodes) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](const std::string& n) {
    if (seen.insert(unquantized_name(n)).second) names.push_back(n);
  };
  for (const StepRow* r : before)
    for (const std::string& n : r->step.sources) add(n);
  for (const StepRow* r : after)
    for (const std::string& n : r->step.sources)
      if (before.empty() || !is_conversion(op_of(n, after_nodes))) add(n);
  if (names.empty()) names.push_back(after.front()->step.name);
  return names;
}

}  // namespace

NamedNodes named_nodes(const Graph& model) {
  NamedNodes nodes;
  const auto names = [&](NodeId n) {
    std::vector<std::string> list;
    for (int32_t s : model.node(n).sources) list.push_back(model.sources()[static_cast<size_t>(s)].name);
    if (list.empty()) list.push_back(model.node(n).name);
    return list;
  };
  for (NodeId id : model.topological()) {
    const Node& n = model.node(id);
    std::vector<std::string> beside, written;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (const NodeId p = model.producer(id, i); p != NodeId::none) std::ranges::copy(names(p), std::back_inserter(beside));
    for (ValueId v : n.outputs) {
      if (v == ValueId::none) continue;
      written.push_back(model.value(v).name);
      for (const Use& u : model.readers(v)) std::ranges::copy(names(u.node), std::back_inserter(beside));
    }
    for (const std::string& name : names(id)) {
      NamedNode& node = nodes[name];
      if (node.op.empty()) node.op = n.op;
      std::ranges::copy(written, std::back_inserter(node.outputs));
      std::ranges::copy(beside, std::back_inserter(node.neighbours));
    }
  }
  return nodes;
}

std::string unquantized_name(std::string_view name) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (const std::string_view end : appended)
      if (name.size() > end.size() && name.ends_with(end)) name.remove_suffix(end.size()), shorter = true;
  }
  return std::string(name);
}

double SlowerNodes::longer_us() const { return after_us - (std::isnan(before_us) ? 0 : before_us); }

std::vector<SlowerNodes> slower_nodes(const ProfiledModel& before, const ProfiledModel& after,
                                      const std::vector<FloatNode>& float_nodes, const fuse::Ledger& ledger) {
  std::vector<Side> steps;
  for (const ProfiledModel* m : {&before, &after})
    for (const StepRow& r : m->profile.steps) steps.push_back({&r, m == &after});
  Sets sets(steps.size());
  std::map<std::string, size_t> by_key;
  const Names before_values = value_names(before.nodes), after_values = value_names(after.nodes);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool second = steps[i].after;
    for (const std::string& key :
         keys_of(steps[i].row->step, (second ? after : before).nodes, second ? before_values : after_values)) {
      const auto [at, added] = by_key.try_emplace(key, i);
      if (!added) sets.join(at->second, i);
    }
  }
  struct Group {
    std::vector<const StepRow*> before, after;
  };
  std::map<size_t, Group> groups;
  for (size_t i = 0; i < steps.size(); ++i) {
    Group& g = groups[sets.of(i)];
    (steps[i].after ? g.after : g.before).push_back(steps[i].row);
  }
  const Reasons reasons(after.nodes, float_nodes, ledger);
  std::vector<SlowerNodes> found;
  for (auto& [first, g] : groups) {
    if (g.after.empty()) continue;
    SlowerNodes row{.before_us = g.before.empty() ? NAN : sum_us(g.before), .after_us = sum_us(g.after)};
    if (row.longer_us() <= 0) continue;
    for (auto* list : {&g.before, &g.after})
      std::ranges::stable_sort(*list, std::greater(), [](const StepRow* r) { return r->own_us(); });
    row.beyond_noise = row.longer_us() > scatter_us(g.before, g.after);
    row.nodes = names_of(g.before, g.after, after.nodes);
    row.step = g.after.front()->step.name;
    row.tactic = tactic_text(g.after.front()->step);
    reasons.explain(row, g.before, g.after);
    found.push_back(std::move(row));
  }
  std::ranges::stable_sort(found, std::greater(), &SlowerNodes::longer_us);
  return found;
}

Table slower_table(const std::vector<SlowerNodes>& nodes, const profile::Profile& before, const profile::Profile& after) {
  Table t{.key = "slower_nodes",
          .title = "Nodes that take longer",
          .columns = {{"nodes", "nodes"},
                      {"step", "step"},
                      {"before_us", "before", Unit::us},
                      {"after_us", "after", Unit::us},
                      {"longer_us", "longer", Unit::us},
                      {"reason", "reason"},
                      {"detail", "detail"},
                      {"tactic", "tactic"},
                      {"beyond_noise", "beyond noise", Unit::text, true}}};
  const bool any = std::ranges::any_of(nodes, &SlowerNodes::beyond_noise);
  double sum = 0;
  for (const SlowerNodes& n : nodes) {
    if (any && !n.beyond_noise) continue;
    t.rows.push_back({n.nodes, n.step, n.before_us, n.after_us, n.longer_us(), n.reason, n.detail, n.tactic, n.beyond_noise});
    sum += n.longer_us();
  }
  const double all = after.steps_us - before.steps_us;
  t.note = fmt::format("longer by {} together; all other steps are {} by {}", format(sum, Unit::us),
                       all > sum ? "longer" : "shorter", format(std::abs(all - sum), Unit::us));
  if (!any && !nodes.empty()) t.note += "; no difference is more than the steps' times scatter";
  return t;
}

}  // namespace smelt::report
