#include "profile/others.h"

#include <algorithm>

namespace smelt::profile {

OtherWork other_work(const std::vector<WatchedRun>& runs, int threads) {
  OtherWork o;
  std::vector<double> all, quiet, own;
  for (const WatchedRun& r : runs) {
    ++o.runs;
    o.disturbed += r.disturbed;
    o.waited_us += static_cast<double>(r.taken.waited_ns) * 1e-3;
    o.stolen_us += static_cast<double>(r.taken.stolen_ns) * 1e-3;
    o.throttled_us += static_cast<double>(r.taken.throttled_ns) * 1e-3;
    o.preempted += r.taken.preempted;
    all.push_back(r.us);
    own.push_back(r.us * own_part(r.taken, r.us * r.together, threads));
    if (!r.disturbed) quiet.push_back(r.us);
  }
  if (o.disturbed == 0) return o;
  o.cost_measured = quiet.size() >= 3;
  if (o.cost_measured) {
    o.cost_us = std::max(0.0, median(all) - median(quiet));
    return o;
  }
  // Too few were left alone: what waited on one thread, the others of the team waited for.
  o.cost_us = std::max(0.0, median(all) - median(own));
  return o;
}

double own_part(const device::cpu::Interruptions& taken, double us, int threads) {
  const double lost =
      (static_cast<double>(taken.waited_ns + taken.stolen_ns) / std::max(1, threads) + static_cast<double>(taken.throttled_ns)) *
      1e-3;
  return us > 0 ? std::clamp(1 - lost / us, 0.05, 1.0) : 1;
}

OthersMeter::OthersMeter() { meter_.find_threads(); }

void OthersMeter::end(double us, int together) {
  WatchedRun r{us, together, meter_.full() - before_, false};
  r.disturbed = device::cpu::disturbed(r.taken, us * together, meter_.counts_waiting());
  runs_.push_back(r);
}

}  // namespace smelt::profile
