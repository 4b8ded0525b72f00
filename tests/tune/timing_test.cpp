#include "tune/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "smelt/error.h"

namespace smelt::tune {
namespace {

using device::cpu::CallerTime;
using device::cpu::Interruptions;

Timing taking(double us) { return {"t", "", us, us, us, us, us, 9}; }

/// A made-up machine: a clock that only running kernels move, and what slows them.
class World {
 public:
  struct Run {
    double begin_us, us;
  };
  std::vector<double> kernels;                          // microseconds of a run alone
  std::function<double(double at_us)> speed;            // 0.5: everything takes twice as long
  std::function<double(double at_us, double us)> away;  // microseconds that a run beginning then loses to others
  bool tells_waiting = true;                            // the kernel counts what is lost as waiting, and what is not
  int threads = 1;                                      // each of which loses that, and computes all the time but for it
  std::function<bool(double at_us)> stands_still;       // the clock of what threads had a core for
  std::function<bool(double at_us)> missing;            // all threads but the caller, whose pieces it does
  double late_us = 0;                                   // of another thread's waiting before, that is counted in each run
  bool sleeps = false;                                  // the calling thread, in every run
  bool tells_stolen = false;                            // /proc/stat counts it as stolen, by ticks of 10 ms

  double before_us = 0;  // what comes before every run takes; 0: nothing does

  double now = 1e6, lost = 0, ran = 0, helped = 0, late = 0;  // ran: what the caller had a core for, helped: each other thread
  int64_t slept = 0;
  std::vector<int> runs, befores;

  Stopwatch watch() {
    Stopwatch w;
    w.now_us = [this] { return now; };
    w.interruptions = [this](bool fully) {
      Interruptions i;
      if (tells_waiting) i.waited_ns = static_cast<int64_t>(1e3 * (lost * threads + late));
      if (fully && tells_stolen) i.stolen_ns = static_cast<int64_t>(lost / 1e4) * 10'000'000;
      return i;
    };
    if (tells_waiting) {
      w.ran = [this](std::vector<int64_t>& ns) {
        ns.assign(static_cast<size_t>(threads), static_cast<int64_t>(1e3 * helped));
        ns[0] = static_cast<int64_t>(1e3 * ran);
      };
      w.caller = [this] { return CallerTime{static_cast<int64_t>(1e3 * ran), static_cast<int64_t>(1e3 * lost), slept}; };
    }
    if (missing)
      w.gather = [this] {
        constexpr double patience_us = 200;
        for (double until = now + patience_us; now < until && missing(now);) now += 10;
        return !missing(now);
      };
    return w;
  }

  Measured measure(const MeasureOptions& options) {
    runs.assign(kernels.size(), 0);
    befores = runs;
    const std::function<void(size_t)> before = [this](size_t i) {
      now += before_us;
      ++befores[i];
    };
    return tune::measure(
        kernels.size(),
        [this](size_t i, int times) {
          const double begin = now;
          for (int k = 0; k < times; ++k) {
            const bool alone = missing && missing(now);
            const double us = kernels[i] / (speed ? speed(now) : 1) * (alone ? threads : 1), more = away ? away(now, us) : 0;
            now += us + more;
            lost += more;
            late += late_us;
            slept += sleeps;
            if (!stands_still || !stands_still(begin)) ran += us, helped += alone ? 0 : us;
            ++runs[i];
          }
          return (now - begin) / times;
        },
        options, watch(), before_us > 0 ? before : std::function<void(size_t)>());
  }

  size_t winner_of(const MeasureOptions& options = {}) {
    std::vector<Timing> timings;
    for (Samples& s : measure(options).samples) timings.push_back(summarize("t", "", s.us));
    return winner(timings);
  }
};

/// Another process has the core for 8 of every 16 ms: a run that reaches into such a slice waits until it is over.
double slices(double at_us, double us) {
  constexpr double slice = 8000, period = 2 * slice;
  double end = at_us + us, lost = 0;
  for (double from = std::floor(at_us / period) * period + slice; from < end; from += period) {
    const double stop = from + slice;
    if (stop <= at_us) continue;
    const double waits = stop - std::max(from, at_us);
    lost += waits;
    end += waits;
  }
  return lost;
}

TEST(Timing, summarises_quantiles_of_unsorted_samples) {
  const Timing t = summarize("a", "b", {5, 1, 3, 2, 4});
  EXPECT_EQ(t.min, 1);
  EXPECT_EQ(t.q1, 2);
  EXPECT_EQ(t.median, 3);
  EXPECT_EQ(t.q3, 4);
  EXPECT_DOUBLE_EQ(t.p90, 4.6);
  EXPECT_EQ(t.samples, 5);
}

TEST(Timing, refuses_to_summarise_nothing) { EXPECT_THROW(summarize("a", "", {}), Error); }

TEST(Winner, is_the_fastest_when_times_are_apart) { EXPECT_EQ(winner(std::vector{taking(10), taking(5), taking(20)}), 1u); }

TEST(Winner, is_one_that_runs) {
  EXPECT_EQ(winner(std::vector<Timing>{{"t", ""}, taking(10)}), 1u);
  EXPECT_THROW(winner(std::vector<Timing>{{"t", ""}}), Error);
  EXPECT_THROW(winner({}), Error);
}

TEST(Winner, is_the_first_in_order_among_equal_times) {
  EXPECT_EQ(winner(std::vector{taking(20), taking(10.2), taking(10)}), 1u);
  EXPECT_EQ(winner(std::vector{taking(20), taking(10.5), taking(10)}), 2u);
}

TEST(Winner, is_most_often_the_faster_where_the_fastest_samples_are_the_same) {
  const Timing lucky = summarize("lucky", "", {10, 13, 14, 20}), steady = summarize("steady", "", {10.1, 11, 11.5, 13});
  EXPECT_EQ(winner(std::vector{lucky, steady}), 1u);
  EXPECT_EQ(winner(std::vector{steady, lucky}), 0u);
  const Timing nearly = summarize("nearly", "", {10, 11.5, 12, 14});
  EXPECT_EQ(winner(std::vector{nearly, steady}), 0u);  // quartiles are noisy, too: the order decides
}

TEST(Winner, is_not_moved_by_samples_above_the_fastest) {
  EXPECT_EQ(winner(std::vector{summarize("a", "", {12, 12, 13}), summarize("b", "", {10, 8000, 8000})}), 1u);
}

TEST(Winner, is_not_drawn_in_by_a_chain_of_near_times) {
  // The first is near the second and the second near the third, but the first is not near the third.
  EXPECT_EQ(winner(std::vector{taking(10.5), taking(10.25), taking(10)}), 1u);
}

TEST(Measure, samples_all_candidates_alike_on_a_quiet_machine) {
  World w{.kernels = {300, 290, 310}};
  const Measured m = w.measure({});
  EXPECT_TRUE(m.complete);
  for (const Samples& s : m.samples) {
    EXPECT_GE(s.us.size(), 15u);
    EXPECT_FALSE(s.under_load);
  }
  EXPECT_EQ(m.samples[0].us.size(), m.samples[1].us.size());
}

TEST(Measure, what_comes_before_each_run_is_not_timed) {
  World w{.kernels = {3, 2, 300}, .before_us = 500};
  const Measured m = w.measure({});
  EXPECT_EQ(w.befores, w.runs);
  for (size_t i = 0; i < w.kernels.size(); ++i)
    for (const double us : m.samples[i].us) EXPECT_NEAR(us, w.kernels[i], 1e-3);
}

TEST(Measure, drops_a_hopeless_candidate_after_its_warm_up) {
  World w{.kernels = {50, 60'000, 500}};
  const Measured m = w.measure({.budget_us = 1e6, .hopeless = 8});
  EXPECT_LE(w.runs[1], 2);
  EXPECT_LE(w.runs[2], 4);
  EXPECT_GT(w.runs[0], 15);
  EXPECT_FALSE(m.samples[1].under_load);
}

TEST(Measure, runs_a_kernel_that_alone_exceeds_the_budget_once) {
  World w{.kernels = {50, 3e6}};
  w.measure({});
  EXPECT_EQ(w.runs[1], 1);
}

TEST(Measure, times_short_runs_several_at_a_time) {
  World w{.kernels = {1}};
  EXPECT_GE(w.measure({}).samples[0].us.size(), 15u);
  EXPECT_GE(w.runs[0], 300);
}

TEST(Measure, goes_on_for_longer_than_a_slice_of_the_scheduler) {
  World w{.kernels = {20}};
  const double begin = w.now;
  w.measure({.repetitions = 5});
  EXPECT_GE(w.now - begin, MeasureOptions().at_least_us);
}

TEST(Measure, finds_the_fastest_beside_a_neighbour_with_slices_of_8_ms) {
  for (const double phase : {0, 3000, 7990, 8010, 12'000, 15'990}) {
    for (const double us : {30, 300, 3000, 20'000}) {
      for (const bool told : {true, false}) {
        World w{.kernels = {1.2 * us, us, 1.3 * us, 9 * us}, .away = slices, .tells_waiting = told};
        w.now += phase;
        EXPECT_EQ(w.winner_of(), 1u) << us << " µs, phase " << phase << (told ? "" : ", nothing tells of the slices");
      }
    }
  }
}

TEST(Measure, takes_at_most_twice_as_long_as_the_slices_make_it) {
  World quiet{.kernels = {300, 330, 360}}, loud = quiet;
  loud.away = slices;
  const double begin = quiet.now;
  quiet.measure({});
  loud.measure({});
  EXPECT_LT(loud.now - begin, 2 * (quiet.now - begin) + 16'000);
}

TEST(Measure, keeps_a_candidate_whose_warm_up_was_interrupted_untold) {
  // The first two runs of every candidate but the first are a hundred times too long.
  World w{.kernels = {100, 60}, .tells_waiting = false};
  w.away = [&](double, double) { return w.runs[1] == 0 || w.runs[1] == 1 ? w.runs[0] > 1 ? 8000.0 : 0.0 : 0.0; };
  EXPECT_EQ(w.winner_of(), 1u);
}

TEST(Measure, is_fair_while_the_clock_slows_down) {
  World w{.kernels = {100, 95, 90, 105}};
  w.speed = [](double at) { return 1 / (1 + 0.5 * std::min(1.0, (at - 1e6) / 5e4)); };
  EXPECT_EQ(w.winner_of(), 2u);
}

TEST(Measure, marks_what_had_no_undisturbed_samples) {
  World w{.kernels = {20'000, 21'000}, .away = slices};
  for (const Samples& s : w.measure({}).samples) EXPECT_TRUE(s.under_load);
}

TEST(Measure, leaves_out_disturbed_samples_where_enough_are_undisturbed) {
  World w{.kernels = {300, 300}, .away = slices};
  for (const Samples& s : w.measure({}).samples) {
    EXPECT_FALSE(s.under_load);
    for (const double us : s.us) EXPECT_EQ(us, 300);
  }
}

/// The first needs all threads at once, so that most of its runs wait for another process's slice; the second takes what there is.
TEST(Measure, beside_other_work_takes_its_time_where_the_faster_one_is_held_up_more) {
  std::mt19937 random(3);
  std::uniform_real_distribution<> uniform(0, 1);
  int otherwise = 0;
  constexpr int builds = 200;
  double longest = 0;
  for (int build = 0; build < builds; ++build) {
    World w{.kernels = {245, 320}};
    w.away = [&](double, double us) {
      if (std::fmod(us, 245) == 0) return uniform(random) < 0.9 ? 200.0 : 0.0;
      return uniform(random) < 0.5 ? 30.0 : 0.0;
    };
    const double begin = w.now;
    otherwise += w.winner_of({.budget_us = 100'000}) != 0;
    longest = std::max(longest, w.now - begin);
  }
  EXPECT_LE(otherwise, builds / 20);
  EXPECT_LE(longest, 3 * 17 * (245 + 320));
}

TEST(Measure, a_run_beside_other_work_counts_as_what_it_had_a_core_for) {
  for (const double us : {3000, 20'000}) {  // the second never ends within a slice
    World w{.kernels = {us, 1.06 * us, 1.5 * us}, .away = slices};
    const Measured m = w.measure({.budget_us = 100'000});
    for (size_t i = 0; i < 2; ++i) {
      const double fastest = *std::ranges::min_element(m.samples[i].us);
      EXPECT_NEAR(fastest, w.kernels[i], 0.01 * w.kernels[i]) << i;
    }
  }
}

/// A neighbour has the helper's core for 4 of every 8 ms. Its waiting is counted when it has its core again, too late for a sample.
TEST(Measure, what_the_caller_did_for_a_missing_thread_makes_no_candidate_slow) {
  for (const std::vector<double>& kernels : {std::vector<double>{100, 115, 118}, {17, 20, 24}, {900, 1000}}) {
    int otherwise = 0;
    constexpr int builds = 100;
    for (int build = 0; build < builds; ++build) {
      World w{.kernels = kernels, .threads = 2};
      w.now += 80 * build;
      w.missing = [](double at_us) { return std::fmod(at_us, 8000) < 4000; };
      otherwise += w.winner_of({.budget_us = 100'000}) != 0;
    }
    EXPECT_LE(otherwise, builds / 20) << kernels[0];
  }
}

TEST(Measure, a_clock_that_stands_still_makes_no_run_fast) {
  for (const int threads : {1, 2}) {
    for (const double late_us : {0, 5000}) {
      World w{.kernels = {600, 200}, .away = [](double, double) { return 200.0; }, .threads = threads};
      w.stands_still = [](double at_us) { return std::fmod(at_us, 7000) < 3500; };
      w.late_us = late_us;
      World sleeping = w;
      sleeping.sleeps = true;
      const Measured m = w.measure({});
      for (size_t i = 0; i < 2; ++i) EXPECT_GE(*std::ranges::min_element(m.samples[i].us), w.kernels[i] - 0.01) << late_us;
      EXPECT_EQ(w.winner_of(), 1u) << threads << " threads, waited " << late_us;
      // A caller that sleeps hides what its clock does: then no run counts for less than a quarter.
      const Measured hidden = sleeping.measure({});
      for (size_t i = 0; i < 2; ++i)
        EXPECT_GE(*std::ranges::min_element(hidden.samples[i].us), 0.25 * (w.kernels[i] + 200) - 0.01) << late_us;
    }
  }
}

TEST(Measure, beside_other_work_drops_what_is_hopeless_as_alone) {
  // Two threads wait for longer than the run takes.
  World w{.kernels = {4000, 4100, 30'000}, .away = [](double, double us) { return 4 * us; }, .threads = 2};
  const Measured m = w.measure({.budget_us = 1'000'000, .hopeless = 5});
  EXPECT_LE(w.runs[2], 4);
  EXPECT_FALSE(m.samples[2].under_load) << "a later build need not measure it again";
  EXPECT_TRUE(m.samples[1].under_load);
}

TEST(Measure, beside_other_work_takes_as_much_longer_as_it_says) {
  for (const double share : {0.5, 0.2}) {
    for (const std::vector<double>& kernels :
         {std::vector<double>{300, 330, 360}, {4000, 4200, 7000, 9000}, {200, 210, 220, 230}, {900}}) {
      World quiet{.kernels = kernels}, loud = quiet;
      loud.away = [&](double, double us) { return us * (1 / share - 1); };
      const double begin = quiet.now;
      EXPECT_EQ(quiet.measure({.budget_us = 100'000}).held_up_us, 0);
      const Measured m = loud.measure({.budget_us = 100'000});
      double round = 0;
      for (const double us : kernels) round += std::max(us, 20.0) + us;
      const double alone = quiet.now - begin, beside = loud.now - begin;
      // Warming up and one more round take as long as they take; the rest of the time is bounded.
      EXPECT_LE(beside, std::max(1.6 * alone, 2 * round / share) + round / share) << kernels[0] << " at " << share;
      EXPECT_NEAR(m.held_up_us, std::max(0.0, beside - alone), 0.35 * alone) << kernels[0] << " at " << share;
    }
  }
}

TEST(Measure, marks_everything_where_the_hypervisor_stole_time) {
  World w{.kernels = {300, 310}, .away = slices, .tells_waiting = false, .tells_stolen = true};
  for (const Samples& s : w.measure({}).samples) EXPECT_TRUE(s.under_load);
  w.away = nullptr;
  for (const Samples& s : w.measure({}).samples) EXPECT_FALSE(s.under_load);
}

TEST(Measure, finds_the_fastest_while_time_is_stolen_at_random) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    World w{.kernels = {110, 100, 120}, .tells_waiting = false, .tells_stolen = true};
    w.away = [&](double, double) { return std::uniform_real_distribution<>(0, 1)(random) < 0.05 ? 5000.0 : 0.0; };  // 7 of 10 ms
    EXPECT_EQ(w.winner_of(), 1u) << round;
  }
}

TEST(Measure, ends_at_its_deadline_with_what_it_has) {
  World w{.kernels = {1000, 900, 1100}};
  const Measured m = w.measure({.deadline_us = w.now + 10'000});
  EXPECT_FALSE(m.complete);
  EXPECT_LE(w.now, 1e6 + 11'100);
  EXPECT_FALSE(m.samples[0].us.empty());
  World none{.kernels = {1000, 900}};
  const Measured first = none.measure({.deadline_us = none.now});
  EXPECT_FALSE(first.complete);
  EXPECT_FALSE(first.samples[0].us.empty()) << "one candidate is sampled in any case";
  EXPECT_TRUE(first.samples[1].us.empty());
}

TEST(Measure, does_not_wait_again_and_again_for_threads_that_never_come) {
  World w{.kernels = {100}};
  Stopwatch watch = w.watch();
  int asked = 0;
  watch.gather = [&] { return ++asked, false; };
  measure(
      1, [&](size_t, int times) { return w.now += 100 * times, 100.0; }, {}, watch);
  EXPECT_GE(asked, 8);
  EXPECT_LE(asked, 8 + 4) << "every 2 ms of the race's 5";
}

TEST(Measure, tells_a_slow_run_from_a_fast_one_on_this_machine) {
  const Stopwatch watch = machine_stopwatch();
  const TimeRuns spin = [&](size_t which, int times) {
    const double begin = watch.now_us(), us = which == 0 ? 600 : 200;
    while (watch.now_us() - begin < us * times) {
    }
    return (watch.now_us() - begin) / times;
  };
  std::vector<Timing> timings;
  for (Samples& s : measure(2, spin, {.repetitions = 5}, watch).samples) timings.push_back(summarize("", "", s.us));
  EXPECT_EQ(winner(timings), 1u);
}

}  // namespace
}  // namespace smelt::tune
