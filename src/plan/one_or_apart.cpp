#include "plan/one_or_apart.h"

#include <fmt/format.h>

#include "base/log.h"

namespace smelt::plan {

std::optional<OneOrApart::Decision> OneOrApart::decided(NodeId id) const {
  const std::lock_guard lock(mutex_);
  const auto d = decided_.find(id);
  return d == decided_.end() ? std::nullopt : std::optional(d->second);
}

std::optional<OneOrApart::Decision> OneOrApart::apart_before(NodeId id) const {
  const std::optional<Decision> d = decided(id);
  return d && !d->one ? d : std::nullopt;
}

OneOrApart::Decision OneOrApart::decide(const Segment& s, const Question& question, Context& context, bool may_measure) {
  const Node& node = *question.one.node;
  const NodeId id = question.one.id;
  const std::string entry = fmt::format("{} {}", question.kind, node.name);
  const std::optional<Decision> before = decided(id);
  if (before && !before->one) return *before;
  const auto price = [&](const Step& step) { return priced(bound_node(s, step, &context.weights), context); };
  std::vector<Priced> all;
  all.push_back(price(question.one));
  if (before) return all[0].offer.candidates.empty() ? Decision{} : *before;
  const std::vector<Step> steps = question.apart();  // what is priced is bound to their nodes
  for (const Step& step : steps) all.push_back(price(step));
  Decision d;
  if (all[0].offer.candidates.empty()) {
    d.times = nullptr;
  } else if (const auto apart = apart_.carried(entry)) {
    d.one = !*apart;
  } else {
    std::string name = all[0].offer.problem;
    for (size_t i = 1; i < all.size(); ++i) name += (i == 1 ? " | " : " + ") + all[i].offer.problem;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = by_problem_.find(name); known != by_problem_.end()) {
        if (!known->second.one) apart_.add(entry);
        return decided_[id] = known->second;
      }
    }
    tune::Tuner& tuner = context.tuner;
    const Prices p = prices(all, context, may_measure);
    FusedTimes times{.fused_us = p.us[0], .apart_us = 0, .measured = p.measured};
    for (size_t i = 1; i < all.size(); ++i) times.apart_us += p.us[i];
    times.runs_apart = times.fused_us >= question.below * times.apart_us;
    if (tuner.has_pinned()) times.runs_apart = !tuner.pinned_for(all[0].offer.problem);  // as the plan's build decided
    info("'{}' takes {:.1f} µs with {}, {:.1f} µs apart: they run {}", node.name, times.fused_us, question.with, times.apart_us,
         times.runs_apart ? "apart" : "as one");
    d = {std::make_shared<const FusedTimes>(times), !times.runs_apart};
    const std::lock_guard lock(mutex_);
    by_problem_.try_emplace(name, d);
  }
  if (!d.one) apart_.add(entry);
  const std::lock_guard lock(mutex_);
  return decided_.try_emplace(id, d).first->second;
}

}  // namespace smelt::plan
