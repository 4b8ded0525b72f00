#include "report/what_if.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/log.h"
#include "profile/advice.h"
#include "profile/bench.h"
#include "profile/foresee.h"

namespace smelt::report {
namespace {

constexpr int runs = 20;  // of each plan

/// The options as one of the command line has them; false for an option that makes no other plan.
bool follow(const std::string& option, Options& options, bool& optimized) {
  const size_t space = option.find(' ');
  const std::string_view name = std::string_view(option).substr(0, space);
  const std::string value = space == std::string::npos ? "" : option.substr(space + 1);
  if (name == "--optimized") return optimized = true;
  if (name == "--precision") return options.precision = value, true;
  int* const number = name == "--tuning-level" ? &options.tuning_level : name == "--threads" ? &options.threads : nullptr;
  return number && std::from_chars(value.data(), value.data() + value.size(), *number).ec == std::errc();
}

/// Microseconds by which a run of `other` is shorter, by the medians of runs in turn.
double saved_us(Execution& own, Execution& other) {
  std::vector<double> before, after;
  for (int i = 0; i < runs; ++i)
    for (auto [e, samples] : {std::pair{&own, &before}, std::pair{&other, &after}})
      samples->push_back(e->run_timed(profile::runs_per_sample(*e)));
  return profile::median(before) - profile::median(after);
}

void look(profile::Advice& a, const profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized, WhatIf how) {
  Subject other = s;
  if (!follow(a.option, other.options, optimized)) return;
  const Prepared then = prepare(other, optimized, &prepared);
  const profile::Foreseen f = profile::foresee(p, then.execution->steps());
  a.us = p.latency_us.median - f.run_us;
  a.from = "kernels";
  if (const size_t at = a.why.find(not_counted); at != std::string::npos) a.why.erase(at);  // it is now
  a.why += fmt::format("; of that plan's {} steps {} run here, {} were measured by themselves", f.steps, f.seen, f.tuned);
  if (how == WhatIf::run) a.tried_us = saved_us(*prepared.execution, *then.execution);
}

}  // namespace

void what_if(profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized, WhatIf how) {
  if (how == WhatIf::no) return;
  for (profile::Advice& a : p.advice) {
    try {
      look(a, p, s, prepared, optimized, how);
    } catch (const Error& e) {
      warn("{}: what it would save is not known: {}", a.option, e.what());
    }
  }
  profile::rank(p.advice, std::max(p.latency_us.median, p.host_latency_us.median));
}

}  // namespace smelt::report
