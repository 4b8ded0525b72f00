#include "profile/bench.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace smelt::profile {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double, std::milli>(b - a).count(); }

void time_once(Execution& e, Side& side, Clock::time_point origin) {
  const auto begin = Clock::now();
  side.samples_ms.push_back(e.run_timed(runs_per_sample(e)) * 1e-3);
  const auto end = Clock::now();
  side.trace.push_back({ms_between(origin, begin), ms_between(origin, end)});
}

void check(const BenchOptions& options) {
  if (options.iterations < 1 || !(options.duration_s >= 0) || !(options.warmup_ms >= 0))
    fail_usage("{} iterations, {} s, {} ms of warm-up: expected at least 1, 0 and 0", options.iterations, options.duration_s,
               options.warmup_ms);
}

/// Warms both sides in turn, as they are timed, since running one cools the caches for the other. Milliseconds of the last pair.
double warm_up_together(Execution& a, Execution& b, double at_least_ms) {
  const auto begin = Clock::now();
  for (;;) {
    const auto pair = Clock::now();
    a.run();
    b.run();
    if (ms_between(begin, Clock::now()) >= at_least_ms) return ms_between(pair, Clock::now());
  }
}

constexpr int most_rounds = 10;
constexpr double long_pair_ms = 100;  // longer runs depend little on where memory lies, and new executions cost too much

/// Whole runs by the host's clock, after some that bring it back into place: a recording's first launches behind another's, and
/// behind steps that were launched one by one, take longer.
void time_runs(Execution& execution, std::vector<double>& us) {
  constexpr size_t warm = 3;
  for (size_t i = 0; i < warm + CopiedRuns::in_round; ++i) {
    const auto t = Clock::now();
    execution.run();
    if (i >= warm) us.push_back(1e3 * ms_between(t, Clock::now()));
  }
}

}  // namespace

BenchResult bench(const MakeExecution& before, const MakeExecution& after, const BenchOptions& options) {
  check(options);
  BenchResult r;
  int rounds = std::min(most_rounds, options.iterations);
  const auto origin = Clock::now();
  std::shared_ptr<Execution> a, b;
  std::vector<size_t> ends;
  for (int round = 0; round < rounds; ++round) {
    std::shared_ptr<Execution> next_a, next_b;
    if (round % 2) next_b = after();
    next_a = before();
    if (!next_b) next_b = after();
    a = std::move(next_a), b = std::move(next_b);
    const double pair_ms = warm_up_together(*a, *b, 2 * options.warmup_ms / rounds);
    if (round == 0 && pair_ms > long_pair_ms) rounds = 1;
    const auto begin = Clock::now();
    const size_t wanted = static_cast<size_t>(int64_t{options.iterations} * (round + 1) / rounds);
    const double at_least_ms = options.duration_s * 1e3 / rounds;
    const auto done = [&](int before_it, size_t runs, double ms) {
      const double own = std::min(static_cast<double>(r.before.samples_ms.size()) / static_cast<double>(runs),
                                  at_least_ms > 0 ? ms / at_least_ms : 1.0);
      return (before_it + std::min(own, 1.0)) / rounds;
    };
    const auto under_way = [&] { return r.before.samples_ms.size() < wanted || ms_between(begin, Clock::now()) < at_least_ms; };
    for (bool swap = round % 2; under_way(); swap = !swap) {
      if (options.progress) options.progress(done(round, wanted, ms_between(begin, Clock::now())));
      if (swap) time_once(*b, r.after, origin);
      time_once(*a, r.before, origin);
      if (!swap) time_once(*b, r.after, origin);
    }
    ends.push_back(r.before.samples_ms.size());
  }
  r.before.ms = summarize(r.before.samples_ms);
  r.after.ms = summarize(r.after.samples_ms);
  r.ratio = ratio_interval(r.before.samples_ms, r.after.samples_ms, ends);
  return r;
}

double CopiedRuns::saved_us() const {
  const std::span<const double> host(host_us), there(there_us);
  std::vector<double> rounds;
  for (size_t i = 0; i + in_round <= std::min(host.size(), there.size()); i += in_round)
    rounds.push_back(std::ranges::min(host.subspan(i, in_round)) - std::ranges::min(there.subspan(i, in_round)));
  return median(rounds);
}

CopiedRuns time_copied_runs(Execution& host, Execution& there, double max_seconds) {
  // Copies of the host's memory take a third more or less from one moment to another: short runs are timed over a second.
  constexpr int least = 5, most = 200;
  constexpr double enough_us = 1e6;
  CopiedRuns t;
  const auto begin = Clock::now();
  for (int round = 0; round < most; ++round) {
    const double us = 1e3 * ms_between(begin, Clock::now());
    if (round > 0 && (us > max_seconds * 1e6 || (round >= least && us > enough_us))) break;
    time_runs(host, t.host_us), time_runs(there, t.there_us);
  }
  return t;
}

}  // namespace smelt::profile
