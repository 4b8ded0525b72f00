#include "report/what_if.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/log.h"
#include "profile/advice.h"
#include "profile/bench.h"
#include "profile/foresee.h"
#include "run/early_launch.h"

namespace smelt::report {
namespace {

constexpr int runs = 20;     // of each plan, where they are tried
constexpr int few_runs = 7;  // where nothing else tells what the other takes
/// Of a run: less than that is no more than sums of what single kernels take are off by, and runs of both plans tell it.
constexpr double told_by_sums = 0.1;

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

/// Runs of both, in turn.
struct InTurn {
  std::vector<double> own, other;  // microseconds
};
InTurn timed_in_turn(Execution& own, Execution& other, int times) {
  InTurn t;
  for (int i = 0; i < times; ++i)
    for (auto [e, samples] : {std::pair{&own, &t.own}, std::pair{&other, &t.other}})
      samples->push_back(e->run_timed(profile::runs_per_sample(*e)));
  return t;
}

/// Microseconds by which a run of `other` is shorter, by the medians.
double saved_us(Execution& own, Execution& other) {
  const InTurn t = timed_in_turn(own, other, runs);
  return profile::median(t.own) - profile::median(t.other);
}

/// What a run of `other` takes of one of `own`: by the fastest, as work beside them makes runs longer and never shorter. In turn,
/// since after another plan is tuned the runs of one seem longer in the same process.
double part_of(Execution& own, Execution& other) {
  const InTurn t = timed_in_turn(own, other, few_runs);
  const double least = std::ranges::min(t.own);
  return least > 0 ? std::ranges::min(t.other) / least : 1;
}

/// What a run takes as the build decided to launch kernels, of what it takes with each after the one before it.
double early_part(const Plan& plan) {
  const plan::EarlyLaunch e = run::early_launch_of(plan);
  return e.on && e.late_us > 0 && e.early_us > 0 ? e.early_us / e.late_us : 1;
}

/// Those by which a run on the GPU is shorter than one from and to the host's memory, in turn, by the host's clock.
double saved_on_gpu_us(const Prepared& p) {
  const auto host = p.plan->execution();
  host->bind(p.inputs);
  return profile::time_copied_runs(*host, *p.execution, 5).saved_us();
}

void look(profile::Advice& a, const profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized, WhatIf how) {
  if (a.what == profile::keep_on_gpu && how == WhatIf::run) a.tried_us = saved_on_gpu_us(prepared);
  Subject other = s;
  if (!follow(a.option, other.options, optimized)) return;
  const Prepared then = prepare(other, optimized, &prepared);
  if (const size_t at = a.why.find(not_counted); at != std::string::npos) a.why.erase(at);  // it is now
  const double early = early_part(*then.plan) / early_part(*prepared.plan);
  const bool same_types = other.options.precision == s.options.precision;  // else kernels of one name compute otherwise
  const profile::Foreseen f = profile::foresee(p, then.execution->steps(), early);
  const double won = p.latency_us.median - f.run_us;
  if (f.sure() && same_types && won >= told_by_sums * p.latency_us.median) {
    a.us = won, a.from = "kernels";
    a.why += fmt::format("; of that plan's {} steps {} run here, {} were measured by themselves", f.steps, f.seen, f.tuned);
  } else {
    const double undisturbed = std::max(0.0, p.latency_us.median - p.others.cost_us);
    a.us = undisturbed * (1 - part_of(*prepared.execution, *then.execution)), a.from = "measured";
    a.why += fmt::format("; {} runs of that plan were timed in turn with this one's", few_runs);
  }
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
