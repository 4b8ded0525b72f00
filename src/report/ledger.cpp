// Tables of what was tried: rewrites (the ledger) and tactics.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "report/report.h"

namespace smelt::report {
namespace {

std::string rates_note(const Explained& e) {
  return fmt::format("saves, costs: estimated from bytes and launches at {} and {} a launch ({})",
                     format(e.rates.bytes_per_s, Unit::bytes_per_s), format(e.rates.launch_us, Unit::us),
                     e.measured ? "measured here" : "defaults; take this machine's: smelt devices --measure");
}

std::string_view what_of(const std::string& rewrite) {
  for (const fuse::Rewrite& r : fuse::pipeline())
    if (r.name == rewrite) return r.what;
  return "";
}

/// Rows in the order in which their keys first appear.
template <class Row> class InOrder {
 public:
  Row& operator[](const std::string& key) {
    const auto [at, fresh] = index_.emplace(key, rows.size());
    if (fresh) rows.push_back({key, Row{}});
    return rows[at->second].second;
  }
  std::vector<std::pair<std::string, Row>> rows;

 private:
  std::map<std::string, size_t> index_;
};

}  // namespace

Table ledger_table(const Explained& e) {
  Table t{.key = "ledger",
          .title = "What was tried",
          .columns = {{"rewrite", "rewrite"},
                      {"result", "result"},
                      {"form", "form"},
                      {"reason", "reason"},
                      {"blocker", "blocked by"},
                      {"saved_us", "saves", Unit::us},
                      {"cost_us", "costs", Unit::us},
                      {"detail", "detail"},
                      {"nodes", "nodes"}}};
  for (const fuse::Entry& x : e.ledger)
    t.rows.push_back({x.rewrite, x.matched ? "matched" : "rejected", x.form, x.reason, x.blocker, positive(x.saved_us),
                      positive(x.cost_us), x.detail, x.nodes});
  t.note = rates_note(e);
  return t;
}

Table ledger_summary(const Explained& e) {
  struct Counts {
    int64_t matched = 0, rejected = 0;
    double saved_us = 0, cost_us = 0;
    std::map<std::string, int> reasons;
  };
  InOrder<Counts> counts;
  for (const fuse::Entry& x : e.ledger) {
    Counts& c = counts[x.rewrite];
    c.saved_us += x.saved_us;
    c.cost_us += x.cost_us;
    if (x.matched)
      ++c.matched;
    else
      ++c.rejected, ++c.reasons[x.reason];
  }
  Table t{.key = "rewrites",
          .title = "Rewrites",
          .columns = {{"rewrite", "rewrite"},
                      {"what", "what"},
                      {"matched", "matched", Unit::count},
                      {"rejected", "rejected", Unit::count},
                      {"saved_us", "saves", Unit::us},
                      {"cost_us", "costs", Unit::us},
                      {"reasons", "rejected for"}}};
  for (const auto& [rewrite, c] : counts.rows) {
    std::vector<std::string> reasons;
    for (const auto& [reason, n] : c.reasons) reasons.push_back(fmt::format("{} {}", n, reason));
    t.rows.push_back({rewrite, what_of(rewrite), c.matched, c.rejected, positive(c.saved_us), positive(c.cost_us), reasons});
  }
  t.note = rates_note(e);
  return t;
}

Table form_table(const Explained& e) {
  struct Counts {
    int64_t matched = 0;
    double saved_us = 0;
  };
  InOrder<InOrder<Counts>> counts;
  for (const fuse::Entry& x : e.ledger) {
    if (!x.matched || x.form.empty()) continue;
    Counts& c = counts[x.rewrite][x.form];
    ++c.matched;
    c.saved_us += x.saved_us;
  }
  Table t{.key = "forms",
          .title = "What the matches took in",
          .columns = {
              {"rewrite", "rewrite"}, {"form", "form"}, {"matched", "matched", Unit::count}, {"saved_us", "saves", Unit::us}}};
  for (const auto& [rewrite, forms] : counts.rows)
    for (const auto& [form, c] : forms.rows) t.rows.push_back({rewrite, form, c.matched, positive(c.saved_us)});
  return t;
}

Table float_table(const Explained& e) {
  Table t{
      .key = "float_nodes",
      .title = "Nodes that stayed in float",
      .columns = {
          {"nodes", "nodes"}, {"op", "operator"}, {"reason", "reason"}, {"cost_us", "costs", Unit::us}, {"detail", "detail"}}};
  double sum = 0;
  for (const FloatNode& n : e.float_nodes) {
    t.rows.push_back({n.nodes, n.op, n.reason, positive(n.cost_us), n.detail});
    sum += n.cost_us;
  }
  t.note = fmt::format("costs: the bytes of their floats beyond 8 bits each, moved at {}; {} together",
                       format(e.rates.bytes_per_s, Unit::bytes_per_s), format(sum, Unit::us));
  return t;
}

Table tactic_table(const std::vector<StepInfo>& steps) {
  Table t{.key = "tactics",
          .title = "Tactics",
          .columns = {{"step", "step"},
                      {"problem", "problem"},
                      {"tactic", "tactic"},
                      {"result", "result"},
                      {"reason", "reason"},
                      {"code", "code", Unit::text, true},
                      {"us", "measured", Unit::us, true},
                      {"op", "operator", Unit::text, true},
                      {"nodes", "nodes", Unit::count, true},
                      {"part", "part", Unit::count, true},
                      {"region", "region", Unit::text, true}}};
  const auto full = [](const std::string& tactic, const std::string& config) {
    return config.empty() ? tactic : tactic + " " + config;
  };
  for (const StepInfo& s : steps) {
    if (s.tactic.empty()) continue;
    const auto nodes = static_cast<int64_t>(s.sources.size());
    const Cell part = s.part < 0 ? Cell("") : Cell(int64_t{s.part});
    const std::string region = s.region ? s.region->name : "";
    std::string why = s.measured_us > 0    ? "fastest: " + format(s.measured_us, Unit::us)
                      : s.others.empty()   ? "the only one"
                      : s.decided_with > 0 ? "fastest"
                                           : "lowest estimate";
    if (s.decided_with > 0) why += fmt::format(", as measured with {} thread{}", s.decided_with, s.decided_with == 1 ? "" : "s");
    if (s.measured_under_load) why += ", measured under load";
    if (s.out_of_time) why += s.measured_us > 0 ? " of those measured in time" : ": the time for measuring was up";
    t.rows.push_back({s.name, s.problem, tactic_text(s), "runs", why, "", positive(s.measured_us), s.op, nodes, part, region});
    for (const TacticNote& o : s.others)
      t.rows.push_back({s.name, s.problem, full(o.tactic, o.config), "not chosen", o.reason, o.code, positive(o.us), s.op, nodes,
                        part, region});
  }
  t.note = reference_warning(steps);
  return t;
}

Table fused_table(const std::vector<StepInfo>& steps) {
  Table t{.key = "fused",
          .title = "Fused steps and their parts",
          .columns = {{"step", "step"},
                      {"op", "operator"},
                      {"fused_us", "fused", Unit::us},
                      {"apart_us", "apart", Unit::us},
                      {"at_least", "at least", Unit::text, true},
                      {"measured", "times are"},
                      {"runs", "runs"}}};
  std::vector<const StepInfo*> compared;
  int64_t apart = 0;
  for (const StepInfo& s : steps) {
    if (!s.fused || s.part > 0) continue;
    compared.push_back(&s);
    apart += s.fused->runs_apart;
  }
  std::ranges::stable_sort(compared, std::ranges::greater(), [](const StepInfo* s) { return s->fused->fused_us; });
  for (const StepInfo* s : compared) {
    const FusedTimes& f = *s->fused;
    const Cell fused = std::isfinite(f.fused_us) ? Cell(f.fused_us) : Cell("no kernel");
    t.rows.push_back(
        {s->name, s->op, fused, f.apart_us, f.at_least, f.measured ? "measured" : "estimated", f.runs_apart ? "apart" : "fused"});
  }
  t.note = fmt::format("{} of {} fused steps run apart, for their parts take less", apart, compared.size());
  return t;
}

Table region_table(const std::vector<StepInfo>& steps) {
  Table t{.key = "regions",
          .title = "Regions of channels-last images",
          .columns = {{"step", "first step"},
                      {"steps", "steps", Unit::count},
                      {"channels_last_us", "channels-last", Unit::us},
                      {"plain_us", "plain", Unit::us},
                      {"at_least", "at least", Unit::text, true},
                      {"found", "times are"},
                      {"runs", "runs"}}};
  std::set<const RegionTimes*> seen;
  for (const StepInfo& s : steps) {
    const RegionTimes* r = s.region.get();
    if (!r || !seen.insert(r).second) continue;
    t.rows.push_back({r->name, int64_t{r->steps}, positive(r->channels_last_us), positive(r->plain_us), r->at_least, r->found,
                      r->runs_plain ? "plain" : "channels-last"});
  }
  t.note = "reorders included; what is far behind by the sums of its steps' times is not raced";
  return t;
}

}  // namespace smelt::report
