#include "tune/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quantile.h"

namespace smelt::tune {
namespace {

constexpr double most_repeats = 200, most_repeats_apart = 8;  // of a sample's runs, timed together or each for itself
constexpr size_t fewest_samples = 3;                          // that say something
// Beside other work a race takes at most so many times as long as alone, and so many times where several may be the fastest; the
// rest is left to a later build. Longer where nothing tells what threads had a core for, as samples say less there.
constexpr double most_of_alone = 1, most_of_close = 1.6, most_of_alone_untold = 1.5, most_of_close_untold = 2.25;
constexpr double close_race = 1.2;
constexpr double least_working = 0.8;   // of what threads have a core for: the rest is waiting for each other
constexpr double least_told = 0.25;     // of what a run took: a sample that counts for nothing would win
constexpr double least_known = 0.8;     // of the calling thread's time, where it did not sleep, or its clock stood still
constexpr double least_shared = 0.8;    // of the most sharing that a candidate showed: below it a thread was missing
constexpr int most_patience = 30;       // times that the team is called together for one sample: some slices of a scheduler
constexpr double long_sample_us = 5e4;  // many slices of a scheduler: a single sample is at most some times too long

/// What is known of a candidate while it is measured.
struct Runner {
  std::vector<double> quiet, all;
  std::vector<double> mean;    // of each of `all`, what its threads had a core for in the mean; infinite where that is not known
  double shared = 0;           // the most that this was of what the busiest had: 1 where all threads did as much
  double fastest = INFINITY;   // microseconds of a run alone are at most this
  double at_least = INFINITY;  // and at least this: the least of the samples without what others can have taken
  bool in_doubt = false;       // at_least is of samples of which some threads may have been missing
  bool dropped = false;
  bool behind = false;  // of a race beside other work: not among those that may be the fastest
};

class Race {
 public:
  Race(size_t count, const TimeRuns& time, const MeasureOptions& options, const Stopwatch& watch,
       const std::function<void(size_t)>& before)
      : time_(time),
        each_(before),
        options_(options),
        watch_(watch),
        runners_(count),
        begin_us_(watch.now_us()),
        before_(watch.interruptions(true)) {}

  Measured run() {
    Measured result;
    result.complete = warm_up() && rounds();
    if (disturbed_ && alone_us_ > 0) result.held_up_us = std::max(0.0, watch_.now_us() - begin_us_ - alone_us_);
    // Ticks of stolen time are too coarse for a sample, so that all of them count as disturbed.
    device::cpu::Interruptions taken = watch_.interruptions(true) - before_;
    taken.waited_ns = taken.preempted = 0;
    const bool stolen = device::cpu::disturbed(taken, watch_.now_us() - begin_us_);
    for (Runner& r : runners_) {
      for (size_t i = 0; i < r.mean.size(); ++i) r.all[i] = std::min(r.all[i], r.mean[i] / r.shared);
      const size_t undisturbed = stolen ? 0 : r.quiet.size();
      const bool few = undisturbed < static_cast<size_t>(std::min<int>(fewest_samples, options_.repetitions));
      result.samples.push_back({few ? std::move(r.all) : std::move(r.quiet), few && !r.dropped});
    }
    return result;
  }

 private:
  int repeat(const Runner& r) const {
    if (r.all.empty()) return 1;
    const double most = each_ ? most_repeats_apart : most_repeats;
    return static_cast<int>(std::clamp(std::ceil(options_.min_sample_us / std::max(r.fastest, 0.01)), 1.0, most));
  }
  double sample_us(const Runner& r) const { return r.fastest * repeat(r); }
  bool late() const { return watch_.now_us() >= options_.deadline_us; }

  /// Whether all threads have their cores. Where they never do, as of a caller's pool with fewer threads than it says, it is asked
  /// now and then only, and samples count as undisturbed until they do once: then a neighbour had their cores before.
  bool gathered() {
    constexpr int most_failures = 8;
    constexpr double pause_us = 2000;
    const bool in_doubt = !ever_gathered_ && gather_failed_ >= most_failures;
    if (!watch_.gather || (in_doubt && watch_.now_us() < ask_again_us_)) return true;
    const bool here = watch_.gather();
    if (here && in_doubt) forget_undisturbed();
    ever_gathered_ |= here;
    gather_failed_ += !here;
    ask_again_us_ = watch_.now_us() + pause_us;
    return here || (in_doubt && !ever_gathered_);
  }

  void forget_undisturbed() {
    for (Runner& r : runners_) {
      disturbed_ |= !r.quiet.empty();
      r.quiet.clear();
      r.at_least *= least_told;
      r.in_doubt = true;
    }
    beside_others_ = true;
  }

  /// Microseconds of a run, of several.
  struct Timed {
    double us = 0;
    double busiest_us = INFINITY, mean_us = 0;  // that the threads had a core for: the busiest of them, and all in the mean
    double caller_waited_us = 0;                // for a core
    double clock_stood_us = 0;                  // that the calling thread neither had a core nor waited, though it did not sleep
    bool all_here = true;                       // all threads had their cores when each began
  };
  Timed timed(size_t candidate, int times) {
    Timed t;
    // Each reading takes a call for each thread, which a quiet machine saves.
    const bool reads = beside_others_ && watch_.ran;
    had_core_.clear();
    const auto run = [&](int count) {
      if (reads) watch_.ran(ran_before_);
      const device::cpu::CallerTime before = reads ? watch_.caller() : device::cpu::CallerTime{};
      const double us = time_(candidate, count) * count / times;
      t.us += us;
      if (!reads) return;
      const device::cpu::CallerTime after = watch_.caller();
      watch_.ran(ran_);
      const double waited_us = static_cast<double>(after.waited_ns - before.waited_ns) * 1e-3 / times;
      t.caller_waited_us += std::min(us, waited_us);
      if (after.slept == before.slept)
        t.clock_stood_us += std::max(0.0, us - waited_us - static_cast<double>(after.ran_ns - before.ran_ns) * 1e-3 / times);
      had_core_.resize(ran_.size(), 0);
      for (size_t i = 0; i < ran_.size(); ++i) had_core_[i] += static_cast<double>(ran_[i] - ran_before_[i]) * 1e-3 / times;
    };
    if (!each_) {
      run(times);
    } else {
      for (int i = 0; i < times; ++i) {
        each_(candidate);
        t.all_here &= gathered();  // the other threads were idle meanwhile
        run(1);
      }
    }
    if (!had_core_.empty()) {
      t.busiest_us = *std::ranges::max_element(had_core_);
      t.mean_us = std::accumulate(had_core_.begin(), had_core_.end(), 0.0) / static_cast<double>(had_core_.size());
    }
    return t;
  }

  void sample(Runner& r, bool cold = false) {
    const int times = repeat(r);
    const bool gathered_first = gathered();
    const device::cpu::Interruptions before = watch_.interruptions(false);
    const double begin = watch_.now_us();
    const Timed t = timed(static_cast<size_t>(&r - runners_.data()), times);
    const double elapsed = watch_.now_us() - begin;
    const device::cpu::Interruptions taken = watch_.interruptions(false) - before;
    const bool quiet = gathered_first && t.all_here && !device::cpu::disturbed(taken, elapsed, watch_.counts_waiting);
    const double waited_us = static_cast<double>(taken.waited_ns) * 1e-3 / times;
    // Pieces of a run go to threads as they come, so that the busiest of them does no less than it does alone. Not so by clocks that
    // stand still, as a virtual machine's do while it makes up for stolen time: then all counts for which the caller had a core.
    double told_us = std::max({t.busiest_us, t.us - waited_us, least_told * t.us});
    const bool stood = t.clock_stood_us > (1 - least_known) * t.us;
    if (stood) told_us = std::max(told_us, t.us - t.caller_waited_us);
    // Where a thread was missing, the busiest did its pieces too: then all did what they do alone, but not shared as they do alone.
    // That a thread waits for a core is counted only once it has one, so that its waiting says nothing of such a sample.
    const bool told = !quiet && !stood && t.busiest_us < INFINITY && t.mean_us > 0;
    if (t.mean_us > 0 && !stood) r.shared = std::max(r.shared, t.mean_us / t.busiest_us);
    const double mean_us = told ? std::max(t.mean_us, least_told * r.shared * t.us) : INFINITY;
    const double us = quiet ? t.us : std::min({t.us, told_us, mean_us / r.shared});
    if (std::exchange(r.in_doubt, false)) r.at_least = INFINITY;
    r.fastest = std::min(r.fastest, us);
    r.at_least = std::min(r.at_least,
                          std::min(us, told ? least_working * t.mean_us : std::max(t.us - waited_us, least_working * t.mean_us)));
    beside_others_ |= !quiet;
    if (cold) return;
    r.all.push_back(us);
    r.mean.push_back(mean_us);
    if (quiet)
      r.quiet.push_back(us);
    else
      disturbed_ = true;
  }

  double best() const {
    double best = INFINITY;
    for (const Runner& r : runners_) best = std::min(best, r.fastest);
    return best;
  }

  /// False if the deadline comes first; one candidate is sampled in any case.
  bool warm_up() {
    for (Runner& r : runners_) {
      if (late() && best() < INFINITY) return false;
      sample(r, true);
      // The first run may have made code and threads, so it is repeated, unless it alone took all of the time.
      if (r.at_least > std::max(options_.budget_us, options_.hopeless * best())) {
        r.all.push_back(r.fastest);
        r.mean.push_back(INFINITY);
        r.quiet = r.all;
        r.dropped = true;
        continue;
      }
      r.fastest = r.at_least = INFINITY;
      sample(r);
    }
    // A short run that looks hopeless may have been interrupted where nothing tells.
    for (Runner& r : runners_) {
      if (r.dropped || r.all.empty()) continue;
      while (r.at_least > options_.hopeless * best() && r.all.size() < fewest_samples && r.at_least < long_sample_us && !late())
        sample(r);
      r.dropped = r.at_least > options_.hopeless * best();
    }
    return true;
  }

  /// Those that cannot win any more: the more samples, the closer.
  void drop() {
    const double best_us = best();
    for (Runner& r : runners_) {
      const size_t n = watch_.ran ? r.all.size() : r.quiet.size();
      const double far = n >= 8 ? 1.25 : n >= 4 ? 2 : n >= 2 ? 3 : options_.hopeless;
      if (r.at_least > far * best_us) r.dropped = true;
    }
  }

  /// Whether several may still be the fastest; only they are sampled from now on.
  bool is_close() {
    const double best_us = best();
    size_t near = 0;
    for (Runner& r : runners_) {
      r.behind = r.behind || r.at_least > close_race * best_us;
      near += !r.dropped && !r.behind;
    }
    return near > 1;
  }

  /// Rounds that fit the budget, by the fastest samples so far.
  int planned() const {
    double round_us = 0;
    for (const Runner& r : runners_)
      if (!r.dropped) round_us += sample_us(r);
    const double fit = options_.budget_us / std::max(round_us, 1.0);
    return static_cast<int>(std::clamp<double>(fit, fewest_samples, std::max<int>(fewest_samples, options_.repetitions)));
  }

  bool rounds() {
    const double begin = watch_.now_us();
    const double most_alone = watch_.ran ? most_of_alone : most_of_alone_untold;
    const double most_close = watch_.ran ? most_of_close : most_of_close_untold;
    double warm_us = 0;  // what warming up takes alone
    for (const Runner& r : runners_) warm_us += 2 * sample_us(r);
    for (;;) {
      const int most = planned();
      double round_us = 0;
      size_t fewest = std::numeric_limits<size_t>::max();
      for (Runner& r : runners_) {
        if (r.dropped || r.behind) continue;
        if (late()) return false;
        sample(r);
        fewest = std::min(fewest, r.quiet.size());
        round_us += sample_us(r);
      }
      drop();
      const double elapsed = watch_.now_us() - begin, at_least = std::min(options_.at_least_us, options_.budget_us);
      const double so_far = watch_.now_us() - begin_us_;
      alone_us_ = warm_us + std::max(most * round_us, at_least);
      const bool over = (disturbed_ && (fewest >= fewest_samples || so_far > most_alone * alone_us_) && !is_close()) ||
                        (disturbed_ && so_far > most_close * alone_us_) ||
                        (std::cmp_greater_equal(fewest, most) && elapsed >= at_least);
      if (over) return sample_with_all_threads();
    }
  }

  /// Takes one more sample of each candidate that never had all threads and may be the fastest with them, once they are there.
  bool sample_with_all_threads() {
    double most_shared = 0;
    for (const Runner& r : runners_) most_shared = std::max(most_shared, r.shared);
    for (Runner& r : runners_) {
      const double best_us = best();
      if (r.shared >= least_shared * most_shared || r.fastest <= best_us || r.at_least > best_us || r.all.empty()) continue;
      if (late()) return false;
      for (int i = 0; i < most_patience && !gathered(); ++i) {
      }
      sample(r);
    }
    return true;
  }

  const TimeRuns& time_;
  const std::function<void(size_t)>& each_;
  const MeasureOptions& options_;
  const Stopwatch& watch_;
  std::vector<Runner> runners_;
  double begin_us_;
  device::cpu::Interruptions before_;
  double alone_us_ = 0;         // what it all takes alone
  bool disturbed_ = false;      // a sample was
  bool beside_others_ = false;  // the same, or a first run
  bool ever_gathered_ = false;
  int gather_failed_ = 0;
  double ask_again_us_ = 0;
  std::vector<int64_t> ran_before_, ran_;  // kept, as are the sums, for their memory
  std::vector<double> had_core_;           // by threads, microseconds of a run
};

}  // namespace

std::string spread(const Timing& t) {
  return fmt::format("{:.1f} µs ({:.1f} to {:.1f}){}", t.min, t.q1, t.q3, t.under_load > 0 ? " under load" : "");
}

Timing summarize(std::string tactic, std::string config, std::vector<double> samples) {
  if (samples.empty()) fail("tactic {} has no samples to summarise", tactic);
  std::ranges::sort(samples);
  Timing t{std::move(tactic), std::move(config)};
  t.min = samples.front();
  t.q1 = quantile(samples, 0.25);
  t.median = quantile(samples, 0.5);
  t.q3 = quantile(samples, 0.75);
  t.p90 = quantile(samples, 0.9);
  t.samples = static_cast<int>(samples.size());
  return t;
}

size_t winner(std::span<const Timing> timings) {
  double best = INFINITY, quartile = INFINITY;
  const bool sure = std::ranges::any_of(timings, [](const Timing& t) { return t.runs() && t.is_sure(); });
  const auto counts = [&](const Timing& t) { return t.runs() && (t.is_sure() || !sure); };
  for (const Timing& t : timings)
    if (counts(t)) best = std::min(best, t.min);
  const auto as_fast = [&](const Timing& t) { return counts(t) && t.min <= same_time * best; };
  for (const Timing& t : timings)
    if (as_fast(t)) quartile = std::min(quartile, t.q1);
  for (size_t i = 0; i < timings.size(); ++i)
    if (as_fast(timings[i]) && timings[i].q1 <= same_quartile * quartile) return i;
  fail("no timings to choose among");
}

Stopwatch machine_stopwatch() {
  const auto meter = std::make_shared<device::cpu::LoadMeter>();
  Stopwatch watch;
  watch.now_us = [] {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  watch.interruptions = [meter](bool fully) {
    if (fully) meter->find_threads();
    return fully ? meter->full() : meter->brief();
  };
  watch.ran = [meter](std::vector<int64_t>& ns) { meter->ran(ns); };
  watch.caller = [meter] { return meter->caller(); };
  watch.gather = [] { return device::cpu::gather_team(0.2); };
  watch.counts_waiting = meter->counts_waiting();
  return watch;
}

Measured measure(size_t count, const TimeRuns& time, const MeasureOptions& options, const Stopwatch& watch,
                 const std::function<void(size_t)>& before) {
  return Race(count, time, options, watch, before).run();
}

}  // namespace smelt::tune
