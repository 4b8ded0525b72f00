#include "plan/prepare_candidates.h"

#include "base/by_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "ops/core/machine.h"

namespace smelt::plan {

void prepare_candidates(const std::vector<ops::Candidate>& candidates, const Context& context) {
  const int cores = context.options.threads > 0 ? context.options.threads : ops::usable_cores();
  by_threads(cores, candidates.size(), [&](size_t i) {
    try {
      candidates[i].prepare();
    } catch (const Error& e) {
      info("{} {}: {}", candidates[i].tactic, candidates[i].config, e.what());
    }
  });
}

}  // namespace smelt::plan
