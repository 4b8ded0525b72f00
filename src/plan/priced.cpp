#include "plan/priced.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/prepare_candidates.h"

namespace smelt::plan {

Priced priced(ops::BoundNode node, const Context& context) {
  Priced p{std::move(node), {}};
  try {
    p.offer = ops::offer(p.node, context.tuner.machine());
  } catch (const Error& e) {
    if (e.code() != ExitCode::unsupported) throw;
  }
  return p;
}

Prices prices(std::span<const Priced> problems, Context& context, bool may_measure) {
  tune::Tuner& tuner = context.tuner;
  Prices found;
  for (const Priced& p : problems) found.us.push_back(tuner.estimate_us(p.offer));
  if (!may_measure || !tuner.measures() || tuner.has_pinned() || tuner.time_is_up() ||
      !std::ranges::all_of(found.us, [](double us) { return std::isfinite(us); }))
    return found;
  std::vector<RacedProblem> raced;
  for (const Priced& p : problems) raced.push_back({&p.node, &p.offer});
  measure_in_stages(raced, context);
  std::vector<double> us;
  for (const Priced& p : problems) us.push_back(tuner.time_us(p.node, p.offer));
  if (!tuner.time_is_up()) found = {std::move(us), true};
  return found;
}

}  // namespace smelt::plan
