#include "plan/one_or_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/log.h"

namespace smelt::plan {

OneOrApart::Decision OneOrApart::decide(const Question& question, const Node& node, Context& context, bool may_measure) {
  std::optional<Decision> decided;
  {
    const std::lock_guard lock(mutex_);
    if (const auto d = decided_.find(question.id); d != decided_.end()) decided = d->second;
  }
  if (decided && !decided->one) return *decided;
  std::vector<Priced> all;
  all.push_back(question.one());
  if (decided) return all[0].offer.candidates.empty() ? Decision{} : *decided;
  std::ranges::move(question.parts(), std::back_inserter(all));
  Decision d;
  if (all[0].offer.candidates.empty()) {
    d.times = nullptr;
  } else if (const auto apart = apart_.carried(question.entry)) {
    d.one = !*apart;
  } else {
    std::string name = all[0].offer.problem;
    for (size_t i = 1; i < all.size(); ++i) name += (i == 1 ? " | " : " + ") + all[i].offer.problem;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = by_problem_.find(name); known != by_problem_.end()) {
        if (!known->second.one) apart_.add(question.entry);
        return decided_[question.id] = known->second;
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
  if (!d.one) apart_.add(question.entry);
  const std::lock_guard lock(mutex_);
  return decided_.try_emplace(question.id, d).first->second;
}

}  // namespace smelt::plan
