#include "plan/finalists.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace smelt::plan {

void add_finalists(std::vector<PendingStep>& pending, int threads, const std::function<bool()>& has_room) {
  std::vector<std::pair<PendingStep*, size_t>> wanted;  // and which of its finalists
  for (PendingStep& p : pending) {
    const tune::Choice* choice = p.step->choice.get();
    if (!choice || p.step->on_host) continue;
    for (size_t i = 0; i < choice->finalists.size(); ++i) {
      Finalist& f = p.step->finalists.emplace_back();
      f.problem = p.step->problem, f.candidate = choice->finalists[i];
      f.tactic = p.offer.candidates[f.candidate].tactic, f.config = p.offer.candidates[f.candidate].config;
      if (f.candidate == choice->candidate)
        f.kernel = p.step->kernel;
      else
        wanted.emplace_back(&p, i);
    }
  }
  by_counted_threads(threads, wanted.size(), [&](size_t i) {
    const auto& [p, at] = wanted[i];
    if (!has_room()) return;
    Finalist& f = p->step->finalists[at];
    try {
      f.kernel = p->offer.candidates[f.candidate].prepare();
    } catch (const Error& e) {
      info("{}: {} {} is no finalist: {}", f.problem, f.tactic, f.config, e.what());
    }
  });
  std::map<std::string, std::set<size_t>> lacking;
  for (const PendingStep& p : pending)
    for (const Finalist& f : p.step->finalists)
      if (!f.kernel) lacking[f.problem].insert(f.candidate);
  for (PendingStep& p : pending) {
    std::erase_if(p.step->finalists, [&](const Finalist& f) {
      const auto at = lacking.find(f.problem);
      return at != lacking.end() && at->second.contains(f.candidate);
    });
    if (p.step->finalists.size() < 2) p.step->finalists.clear();
  }
}

void take_finalist(Step& step, size_t finalist, std::span<const std::string> said) {
  const Finalist& taken = step.finalists.at(finalist);
  auto choice = std::make_shared<tune::Choice>(*step.choice);
  std::erase_if(choice->others, [&](const tune::NotChosen& n) {
    return std::ranges::any_of(step.finalists, [&](const Finalist& f) { return f.tactic == n.tactic && f.config == n.config; });
  });
  for (size_t i = 0; i < step.finalists.size(); ++i) {
    const Finalist& f = step.finalists[i];
    if (i == finalist) continue;
    const auto t = std::ranges::find_if(choice->timings,
                                        [&](const tune::Timing& t) { return t.tactic == f.tactic && t.config == f.config; });
    choice->others.push_back(
        {f.tactic, f.config, i < said.size() ? said[i] : "the model chose another", "", t == choice->timings.end() ? 0 : t->min});
  }
  choice->candidate = taken.candidate;
  step.tactic = taken.tactic, step.config = taken.config, step.kernel = taken.kernel;
  step.choice = std::move(choice);
}

}  // namespace smelt::plan
