// Timings with one number of threads, and what they say about another.
#include "tune/other_threads.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/threads.h"
#include "base/widest.h"
#include "tune/tuner_trial.h"

namespace smelt::tune {

using namespace test;

namespace {

Timing timed(const std::string& tactic, double us, int width) {
  Timing t{tactic, "", us, us, us, us, us, 9};
  t.width = width;
  return t;
}

ops::Offer three() { return offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}, {"c", "", 3, {}}}); }

TEST(OtherThreads, a_device_with_a_team_is_read_as_it_is_written) {
  const auto team = team_device("AMD EPYC (25.17.1), avx2, 12 threads, weights in caches");
  ASSERT_TRUE(team);
  EXPECT_EQ(team->processor, "AMD EPYC (25.17.1), avx2");
  EXPECT_EQ(team->threads, 12);
  EXPECT_EQ(team->state, ", weights in caches");
  EXPECT_EQ(team_device("cpu, avx2, 1 thread")->threads, 1);
  const ops::Machine here = ops::this_machine(3);
  EXPECT_EQ(team_device(device_text(here))->threads, 3);
  for (const char* other : {"NVIDIA H100 80GB HBM3, sm_90a", "", "cpu, 0 threads", "cpu, 2 threadsome", "2 threads"})
    EXPECT_FALSE(team_device(other)) << other;
}

TEST(OtherThreads, what_ran_alone_takes_the_same_and_what_was_shared_is_shared_evenly) {
  const Timing alone = with_other_threads(timed("a", 8, 1), 4, 16);
  EXPECT_TRUE(alone.is_sure());
  EXPECT_EQ(alone.min, 8);
  EXPECT_EQ(alone.with_threads, 4);
  const Timing shared = with_other_threads(timed("a", 8, 4), 4, 16);
  EXPECT_FALSE(shared.is_sure());
  EXPECT_EQ(shared.min, 2);
  EXPECT_EQ(with_other_threads(timed("a", 8, 4), 4, 1).min, 32);
  EXPECT_TRUE(with_other_threads(timed("a", 8, 3), 4, 16).is_sure()) << "three had something to do";
  EXPECT_EQ(with_other_threads(timed("a", 8, 3), 4, 1).min, 24);
  EXPECT_FALSE(with_other_threads(timed("a", 8, 0), 4, 2).is_sure()) << "not known";
  EXPECT_FALSE(with_other_threads(timed("a", 8, 0), 1, 2).is_sure()) << "one thread tells nothing";
  const Timing back = with_other_threads(shared, 16, 4);
  EXPECT_EQ(back.min, 8);
  EXPECT_EQ(back.with_threads, 0);
}

TEST(OtherThreads, bounds_hold_the_even_share) {
  const Bounds more = bounds(with_other_threads(timed("a", 8, 0), 1, 4)),
               fewer = bounds(with_other_threads(timed("a", 8, 4), 4, 1));
  EXPECT_EQ(more.least, 2 + region_us);
  EXPECT_EQ(more.most, 8);
  EXPECT_EQ(fewer.least, 16);
  EXPECT_EQ(fewer.most, 32);
}

TEST(OtherThreads, the_first_round_has_what_is_near_and_the_next_what_may_still_be_less) {
  const ops::Offer offer = three();
  const std::vector<size_t> worth = {0, 1, 2};
  std::vector<Timing> timings;
  for (const auto& [tactic, us] : {std::pair("a", 10.0), {"b", 14.0}, {"c", 16.0}})
    timings.push_back(with_other_threads(timed(tactic, us, 0), 1, 2));
  EXPECT_EQ(unsettled(timings, offer, worth), (std::vector<size_t>{0, 1}));
  timings[0] = timed("a", 9, 2), timings[1] = timed("b", 9.5, 2);  // hardly any less with two
  EXPECT_EQ(unsettled(timings, offer, worth), (std::vector<size_t>{2})) << "8 with an even share";
  timings[0] = timed("a", 6, 2);
  EXPECT_TRUE(unsettled(timings, offer, worth).empty());
  timings.pop_back();
  EXPECT_EQ(unsettled(timings, offer, worth), (std::vector<size_t>{2})) << "nothing is known of it";
}

TEST(OtherThreads, ways_are_settled_where_they_are_sure_or_far_apart) {
  const auto ways = [](double first, int width, double second, int second_width) {
    return std::vector{with_other_threads(timed("a", first, width), 2, 1),
                       with_other_threads(timed("b", second, second_width), 2, 1)};
  };
  EXPECT_TRUE(settles(ways(10, 1, 10.1, 1)));
  EXPECT_FALSE(settles(ways(10, 2, 11, 2)));
  EXPECT_TRUE(settles(ways(10, 2, 15, 2)));
  EXPECT_FALSE(settles(ways(10, 2, 15, 1))) << "20 with one thread, or 15";
  EXPECT_TRUE(settles(ways(10, 2, 9, 1))) << "at least 14";
}

TEST(OtherThreads, an_entry_has_the_nearest_count_of_the_same_processor) {
  const CacheKey key{"p", "cpu, avx2, 4 threads", "smelt 0"};
  const auto entry = [&](const std::string& device, double us, int level = 2) {
    return CacheEntry{{"p", device, "smelt 0"}, level, {timed("a", us, 1), timed("b", us + 1, 1)}};
  };
  std::vector<CacheEntry> others = {entry("cpu, avx2, 1 thread", 5), entry("cpu, avx2, 8 threads", 6)};
  ASSERT_TRUE(from_other_threads(others, key, 2));
  EXPECT_EQ(from_other_threads(others, key, 2)->timings[0].min, 6);
  EXPECT_FALSE(from_other_threads(others, key, 3)) << "a lower level";
  others[1].timings.pop_back();
  const auto both = from_other_threads(others, key, 2);
  EXPECT_EQ(both->timings[1].tactic, "b");
  EXPECT_EQ(both->timings[1].with_threads, 1);
  for (const char* other : {"another cpu, avx2, 8 threads", "cpu, avx512, 8 threads", "cpu, avx2, 4 threads"})
    EXPECT_FALSE(from_other_threads(std::vector{entry(other, 1)}, key, 2)) << other;
  others = {entry("cpu, avx2, 8 threads, weights in caches", 6), entry("cpu, avx2, 1 thread", 5)};
  EXPECT_EQ(from_other_threads(others, key, 2)->timings[0].min, 5) << "the same state of the caches";
  others.pop_back();
  EXPECT_EQ(from_other_threads(others, key, 2)->timings[0].min, 6);
  others = {entry("cpu, avx2, 8 threads", 6)};
  for (Timing& t : others[0].timings) t.under_load = 1;
  EXPECT_FALSE(from_other_threads(others, key, 2)) << "beside other work";
}

TEST(OtherThreads, text_gives_back_the_entries_and_passes_over_what_is_damaged) {
  const std::vector<CacheEntry> entries = {
      {{"p", "cpu, avx2, 2 threads", "smelt 0"}, 2, {timed("a", 1.25, 2), with_other_threads(timed("b x", 3, 1), 4, 2)}},
      {{"q", "cpu, avx2, 1 thread", "smelt 0"}, 1, {timed("a", 8, 0)}}};
  const std::string text = to_text(entries);
  const std::vector<CacheEntry> read = entries_in(text);
  ASSERT_EQ(read.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].key, entries[i].key);
    EXPECT_EQ(read[i].level, entries[i].level);
    EXPECT_EQ(read[i].timings, entries[i].timings);
  }
  EXPECT_EQ(entries_in(text + "=q\t2\n\tz\t\t1\t1\t9\t1\t0\t1\n")[1].timings[0].tactic, "z") << "the later";
  for (size_t n = 0; n < text.size(); ++n) EXPECT_LE(entries_in(text.substr(0, n)).size(), 2u);
  for (const char* bad : {"=p\tx\n\ta\t\t1\t1\t9\t1\t0\t1\n", "\ta\t\t1\t1\t9\t1\t0\t1\n", "=p\t2\n\ta\t\tnan\t1\t9\t1\t0\t1\n",
                          "=p\t2\n\ta\t\t2\t1\t9\t1\t0\t1\n", "=p\t2\n\ta\t\t1\t1\t9\t1\t0\t0\n",
                          "=p\t2\n\ta\t\t1\t1\t-9\t1\t0\t1\n", "=p\t2\n\ta\t\t1\t1\t9\t1\t0\n", "@\n\n\n"})
    EXPECT_TRUE(entries_in(bad).empty()) << bad;
}

TEST(OtherThreads, the_widest_region_of_a_thread_is_seen) {
  const threads::Scope team(2);
  const auto share = [](int n) {
    threads::run(
        n, 4, [](void*, int64_t, int) {}, nullptr);
  };
  const threads::Widest outer;
  {
    const threads::Widest none;
    share(1);
    EXPECT_EQ(none.threads(), 1);
    const threads::Widest some;
    share(2);
    EXPECT_EQ(some.threads(), 2);
  }
  EXPECT_EQ(outer.threads(), 2);
}

/// A tuner with a team, which is of more threads than this machine may have cores: nothing here is timed but where it says so.
Tuner with_threads(int threads, int level, std::shared_ptr<Cache> cache = Cache::in_memory(),
                   std::vector<CacheEntry> carried = {}) {
  return Tuner(ops::this_machine(threads), level, TacticFilter::parse(""), std::move(cache), {},
               {.cores_are_free = [] { return false; }}, std::move(carried));
}

CacheEntry entry_for(int threads, std::vector<Timing> timings, int level = 2) {
  const ops::Machine machine = ops::this_machine(threads);
  return {{"relu:test", device_text(machine), machine.versions}, level, std::move(timings)};
}

TEST(TunerOtherThreads, what_ran_alone_is_taken_as_it_is) {
  const Problem p;
  for (const int threads : {1, 3}) {
    const auto cache = Cache::in_memory();
    cache->keep(entry_for(2, {timed("a", 30, 1), timed("b", 12, 1)}));
    Tuner t = with_threads(threads, 2, cache);
    const Choice c = t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}}));
    EXPECT_EQ(c.candidate, 1u);
    EXPECT_EQ(c.with_threads, 2);
    EXPECT_EQ(t.time_us(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}})), 12) << "no comparison measures it again";
    EXPECT_EQ(t.stats().measured, 0);
    EXPECT_EQ(t.stats().reused, 1);
    EXPECT_EQ(t.stats().cached, 0);
    EXPECT_EQ(cache->list().size(), 1u) << "nothing new to keep";
  }
}

TEST(TunerOtherThreads, a_single_candidate_is_not_timed_again_for_a_comparison) {
  const Problem p;
  const auto cache = Cache::in_memory();
  cache->keep(entry_for(2, {timed("a", 30, 1)}));
  Tuner t = with_threads(1, 2, cache);
  EXPECT_EQ(t.time_us(p.bound, offer_of({{"a", "", 1, {}}})), 30);
  EXPECT_EQ(t.stats().measured, 0);
  EXPECT_EQ(t.stats().reused, 1);
}

/// The candidates of a real problem, with timings made here.
TEST(TunerOtherThreads, of_what_is_shared_the_far_ones_are_not_measured_again) {
  const Problem p(1 << 18);
  ops::Offer real = ops::offer(p.bound, ops::this_machine(1));
  ASSERT_GE(real.candidates.size(), 1u);
  const ops::Candidate near = real.candidates.front();
  ops::Offer offer = real;
  offer.candidates = {near, {"far", "", near.estimate_us, {}}, {"farther", "", near.estimate_us, {}}};
  CacheEntry entry = entry_for(2, {timed(near.tactic, 1e-3, 2), timed("far", 1e7, 2), timed("farther", 2e7, 2)});
  entry.key.problem = offer.problem;
  entry.timings[0].config = near.config;
  const auto cache = Cache::in_memory();
  cache->keep(entry);
  Tuner t = with_threads(1, 2, cache);
  const Choice c = t.choose(p.bound, offer);  // a trial of the others would throw: the problem's offer has none
  EXPECT_EQ(c.candidate, 0u);
  EXPECT_EQ(c.with_threads, 0);
  EXPECT_EQ(t.stats().measured, 1);
  EXPECT_EQ(t.stats().narrowed, 1);
  EXPECT_EQ(t.stats().reused, 0);
  EXPECT_NE(reason(c, "far").find("expected by its time with 2 threads, slower than"), std::string::npos) << reason(c, "far");
  Tuner later = with_threads(1, 2, cache);
  EXPECT_EQ(later.choose(p.bound, offer).candidate, 0u);
  EXPECT_EQ(later.stats().measured, 0);
  EXPECT_EQ(later.stats().cached, 1);
}

TEST(TunerOtherThreads, what_was_timed_with_one_thread_is_run_once_to_see_whether_it_runs_alone) {
  if (ops::usable_cores() < 2) GTEST_SKIP() << "one core";
  for (const int64_t count : {int64_t{256}, int64_t{1} << 20}) {
    const Problem p(count);
    const ops::Offer offer = ops::offer(p.bound, ops::this_machine(2));
    CacheEntry entry = entry_for(1, {}, 3);
    entry.key.problem = offer.problem;
    for (const ops::Candidate& c : offer.candidates) {
      entry.timings.push_back(timed(c.tactic, 5, 0));
      entry.timings.back().config = c.config;
    }
    const auto cache = Cache::in_memory();
    cache->keep(entry);
    const threads::Scope team(2);
    Tuner t = with_threads(2, 3, cache);
    t.time_us(p.bound, offer);
    EXPECT_EQ(t.stats().reused, count == 256 ? 1 : 0);
    EXPECT_EQ(t.stats().measured, count == 256 ? 0 : 1);
  }
}

TEST(TunerOtherThreads, without_measuring_the_other_counts_winner_comes_before_an_estimate) {
  const Problem p;
  const CacheEntry entry = entry_for(2, {timed("a", 30, 2), timed("b", 12, 2), timed("c", 20, 1)});
  Tuner carried = with_threads(1, 0, Cache::in_memory(), {entry});
  const Choice c = carried.choose(p.bound, three());
  EXPECT_EQ(c.candidate, 2u) << "20 with one thread as with two; b takes 24";
  EXPECT_EQ(c.with_threads, 2);
  EXPECT_EQ(carried.stats().reused, 1);
  EXPECT_NE(reason(c, "b").find("24.0 µs expected"), std::string::npos) << reason(c, "b");
  const auto cache = Cache::in_memory();
  cache->keep(entry);
  EXPECT_EQ(with_threads(1, 0, cache).choose(p.bound, three()).candidate, 0u) << "level 0 reads no cache";
  Tuner t = with_threads(1, 2, cache);
  EXPECT_EQ(t.choose(p.bound, three(), {}, false).candidate, 2u);
  EXPECT_EQ(t.stats().measured, 0);
}

TEST(TunerOtherThreads, a_plans_timings_are_of_their_versions_and_processor) {
  const Problem p;
  CacheEntry other = entry_for(2, {timed("a", 30, 1), timed("b", 12, 1)});
  other.key.versions = "smelt 0";
  EXPECT_EQ(with_threads(1, 0, Cache::in_memory(), {other}).choose(p.bound, three()).candidate, 0u);
  other = entry_for(2, {timed("a", 30, 1), timed("b", 12, 1)});
  other.key.device = "another cpu, avx2, 2 threads";
  EXPECT_EQ(with_threads(1, 0, Cache::in_memory(), {other}).choose(p.bound, three()).candidate, 0u);
  other = entry_for(2, {timed("a", 30, 1), timed("b", 12, 1)}, 1);
  EXPECT_EQ(with_threads(1, 2, Cache::in_memory(), {other}).choose(p.bound, three()).candidate, 1u) << "at its own level";
}

TEST(TunerOtherThreads, a_race_of_ways_is_taken_from_another_count_where_that_tells) {
  const std::string names[] = {"fused", "apart"};
  const auto raced = [&](double fused, int fused_width, double apart, int apart_width) {
    const auto cache = Cache::in_memory();
    CacheEntry entry = entry_for(2, {timed("fused", fused, fused_width), timed("apart", apart, apart_width)});
    entry.key.problem = "fused or apart: p";
    cache->keep(entry);
    Tuner t = with_threads(1, 2, cache);
    return t.race_elsewhere("fused or apart: p", names);
  };
  const std::vector<Timing> alone = raced(10, 1, 10.5, 1);
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_EQ(alone[0].min, 10);
  EXPECT_EQ(alone[1].min, 10.5);
  EXPECT_TRUE(raced(10, 2, 11, 2).empty());
  EXPECT_EQ(raced(10, 2, 30, 2).size(), 2u);
}

}  // namespace
}  // namespace smelt::tune
