#include "plan/prepare_candidates.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/by_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "ops/core/machine.h"
#include "tune/gpu_trial.h"

namespace smelt::plan {

std::vector<size_t> preparation_order(std::span<const ops::Candidate> candidates) {
  std::map<std::pair<std::string_view, std::string_view>, size_t> met;
  std::vector<size_t> turn, order(candidates.size());
  for (const ops::Candidate& c : candidates) turn.push_back(met[{c.tactic, c.config}]++);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return turn[i]; });
  return order;
}

void measure_in_stages(std::span<const RacedProblem> problems, Context& context) {
  tune::Tuner& tuner = context.tuner;
  const int cores = context.options.threads > 0 ? context.options.threads : ops::usable_cores();
  for (bool more = true; more;) {
    std::vector<RacedProblem> stage;
    std::vector<ops::Candidate> candidates;
    for (const RacedProblem& p : problems) {
      const std::vector<size_t> needed = tuner.needed(*p.offer);
      if (needed.size() < 2) continue;
      stage.push_back(p);
      for (const size_t i : needed) candidates.push_back(p.offer->candidates[i]);
    }
    const std::vector<size_t> order = preparation_order(candidates);
    by_threads(cores, candidates.size(), [&](size_t i) {
      const ops::Candidate& c = candidates[order[i]];
      try {
        c.prepare();
      } catch (const Error& e) {  // measuring it says so
        info("{} {}: {}", c.tactic, c.config, e.what());
      }
    });
    more = false;
    for (const RacedProblem& p : stage) {
      try {
        more |= tuner.measure_stage(*p.node, *p.offer);
      } catch (const tune::Unfit& e) {
        tuner.leave_out(p.offer->problem, p.offer->candidates[e.candidate]);
        more = true;
      }
    }
  }
}

}  // namespace smelt::plan
