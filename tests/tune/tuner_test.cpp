// The tuner's decisions on offers made here: candidates that are told apart by how long they take.
#include "tune/tuner.h"

#include <gtest/gtest.h>

#include "ops/core/machine.h"
#include "ops/cuda/gpu.h"
#include "smelt/error.h"
#include "tune/tuner_trial.h"

namespace smelt::tune {

using namespace test;

namespace {

using ops::BoundNode;
using ops::Offer;

TEST(Tuner, level_0_takes_the_lowest_estimate_and_says_why_not_the_others) {
  Problem p;
  Tuner t = tuner(0);
  const Choice c = t.choose(p.bound, offer_of({{"a", "", 20, {}}, {"b", "", 10, {}}}));
  EXPECT_EQ(c.candidate, 1u);
  EXPECT_EQ(reason(c, "a"), "estimated at 20.0 µs, the chosen one at 10.0 µs");
  EXPECT_EQ(reason(c, "avx512"), "this processor has avx2");
}

TEST(Tuner, what_is_not_measured_takes_the_timings_that_the_cache_has) {
  Problem p;
  const auto cache = Cache::in_memory();
  Tuner t = tuner(2, "", cache);
  cache->keep(timings(t, 5, 9));
  const Offer offer = offer_of({{"a", "", 20, {}}, {"b", "", 10, {}}});
  EXPECT_EQ(t.choose(p.bound, offer, {}, false).candidate, 0u) << "the faster one by the timings";
  Offer other = offer;
  other.problem = "relu:other";
  EXPECT_EQ(t.choose(p.bound, other, {}, false).candidate, 1u) << "the lowest estimate";
  EXPECT_EQ(t.stats().measured, 0);
}

TEST(Tuner, refused_tactics_are_not_chosen) {
  Problem p;
  Tuner t = tuner(0, "-b");
  const Choice c = t.choose(p.bound, offer_of({{"a", "", 20, {}}, {"b", "", 10, {}}}));
  EXPECT_EQ(c.candidate, 0u);
  EXPECT_EQ(reason(c, "b"), "refused by --tactics=-b");
}

TEST(Tuner, with_every_tactic_refused_it_is_unsupported_with_the_reasons) {
  Problem p;
  Tuner t = tuner(0, "-all");
  try {
    t.choose(p.bound, offer_of({{"a", "", 20, {}}}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("a: refused by --tactics=-all"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("avx512: this processor has avx2"), std::string::npos);
  }
}

TEST(Tuner, takes_the_winner_from_the_cache_and_says_how_much_slower_the_others_are) {
  Problem p;
  auto cache = Cache::in_memory();
  Tuner t = tuner(2, "", cache);
  cache->keep(timings(t, 30, 12));
  const Choice c = t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}}));
  EXPECT_EQ(c.candidate, 1u);
  EXPECT_EQ(reason(c, "a"), "30.0 µs (30.0 to 30.0), slower than 12.0 µs (12.0 to 12.0)");
  EXPECT_EQ(t.stats().cached, 1);
  EXPECT_EQ(t.stats().measured, 0);
}

TEST(Tuner, a_librarys_kernel_has_to_win_by_what_early_launch_hides) {
  const auto chosen = [](int major, const std::string& filter, double own_us) {
    ops::Machine machine = ops::this_machine(1);
    auto gpu = std::make_shared<ops::Gpu>();
    gpu->info.major = major;
    machine.gpu = gpu;
    const auto cache = Cache::in_memory();
    Tuner t(machine, 2, TacticFilter::parse(filter), cache);
    CacheEntry entry = timings(t, own_us, 10);
    entry.timings[0].tactic = "hopper", entry.timings[1].tactic = "cublaslt";
    cache->keep(entry);
    const Problem p;
    return t.choose(p.bound, offer_of({{"hopper", "", 2, {}}, {"cublaslt", "", 1, {}}}));
  };
  const Choice own = chosen(9, "", 10.4);
  EXPECT_EQ(own.candidate, 0u);
  EXPECT_EQ(reason(own, "cublaslt"),
            "10.0 µs (10.0 to 10.0), 10.4 µs (10.4 to 10.4); of the two only the second begins early, which counts 0.75 µs");
  EXPECT_EQ(chosen(9, "", 11.3).candidate, 1u);
  EXPECT_EQ(chosen(9, "-early_launch", 10.4).candidate, 1u);
  EXPECT_EQ(chosen(8, "", 10.4).candidate, 1u);
}

/// 0.3 us are what builds measure apart: without a model the first in order is chosen, and the model has both to choose among.
TEST(Tuner, for_a_gpu_the_order_decides_between_what_measures_alike) {
  ops::Machine machine = ops::this_machine(1);
  machine.gpu = std::make_shared<ops::Gpu>();
  for (const double second : {1.8, 2.0, 2.2}) {
    const auto cache = Cache::in_memory();
    Tuner t(machine, 2, TacticFilter::parse(""), cache);
    cache->keep(timings(t, 2, second));
    const Problem p;
    const Choice choice = t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}}));
    EXPECT_EQ(choice.candidate, 0u) << second;
    EXPECT_EQ(choice.finalists, (std::vector<size_t>{0, 1})) << second;
  }
}

TEST(Tuner, the_cached_winner_gives_way_to_the_filter) {
  Problem p;
  auto cache = Cache::in_memory();
  Tuner t = tuner(2, "-b", cache);
  cache->keep(timings(t, 30, 12));
  EXPECT_EQ(t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}})).candidate, 0u);
}

TEST(Tuner, measures_a_real_problem_once_and_keeps_it) {
  Problem p;
  const ops::Offer real = ops::offer(p.bound, ops::this_machine(1));
  auto cache = Cache::in_memory();
  Tuner t = tuner(3, "", cache);
  const Choice first = t.choose(p.bound, real);
  const Choice second = t.choose(p.bound, real);
  EXPECT_EQ(first.candidate, second.candidate);
  if (real.candidates.size() > 1) {
    EXPECT_EQ(t.stats().measured, 1);
    ASSERT_EQ(cache->list().size(), 1u);
    EXPECT_EQ(cache->list()[0].timings, first.timings);
    Tuner later = tuner(3, "", cache);
    EXPECT_EQ(later.choose(p.bound, real).candidate, first.candidate);
    EXPECT_EQ(later.stats().measured, 0);
  } else {
    EXPECT_EQ(t.stats().measured, 0);
    EXPECT_TRUE(cache->list().empty());
  }
}

TEST(Tuner, passes_over_what_the_cache_says_cannot_run) {
  Problem p;
  auto cache = Cache::in_memory();
  Tuner t = tuner(2, "", cache);
  CacheEntry entry = timings(t, 30, 12);
  entry.timings[1] = {"b", ""};
  cache->keep(entry);
  const ops::Offer offer = offer_of({{"a", "", 2, {}}, {"b", "", 1, {}}});
  EXPECT_EQ(t.needed(offer), std::vector<size_t>{0});
  const Choice c = t.choose(p.bound, offer);
  EXPECT_EQ(c.candidate, 0u);
  EXPECT_EQ(reason(c, "b"), "failed when it was tried with these versions");
}

TEST(Tuner, keeps_what_failed_beside_what_was_measured) {
  Problem p;
  ops::Offer offer = ops::offer(p.bound, ops::this_machine(1));
  ops::Candidate broken{"broken", "", 0.001, {}};
  auto cache = Cache::in_memory();
  Tuner t = tuner(3, "", cache);
  t.leave_out(offer.problem, broken);
  offer.candidates.push_back(broken);
  EXPECT_NE(offer.candidates[t.choose(p.bound, offer).candidate].tactic, "broken");
  ASSERT_EQ(cache->list().size(), 1u);
  Tuner later = tuner(3, "", cache);
  EXPECT_NE(offer.candidates[later.choose(p.bound, offer).candidate].tactic, "broken");
  EXPECT_EQ(later.stats().measured, 0);
}

TEST(Tuner, a_higher_level_measures_again) {
  Problem p;
  auto cache = Cache::in_memory();
  Tuner t = tuner(3, "", cache);
  cache->keep(timings(t, 30, 12, 2));
  // The candidates of this offer are none that the node really has, so that measuring them must fail by name.
  EXPECT_THROW(t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}})), Error);
}

TEST(Tuner, what_a_plan_settled_on_is_taken_unmeasured) {
  Problem p;
  Tuner t(ops::this_machine(1), 2, {}, Cache::in_memory(), {{"relu:test", {"a", "x y"}}});
  const Offer offer = offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}, {"a", "x y", 30, {}}});
  EXPECT_EQ(t.needed(offer), std::vector<size_t>{2});
  const Choice c = t.choose(p.bound, offer);
  EXPECT_EQ(c.candidate, 2u);
  EXPECT_TRUE(c.timings.empty());
  EXPECT_EQ(reason(c, "b"), "the plan names the chosen one");
  EXPECT_EQ(t.stats().measured, 0);
}

TEST(Tuner, what_a_plan_settled_on_gives_way_where_it_is_refused_or_not_offered) {
  Problem p;
  for (const auto& [filter, settled] : {std::pair{"-a", "a"}, {"", "z"}}) {
    Tuner t(ops::this_machine(1), 0, TacticFilter::parse(filter), Cache::in_memory(), {{"relu:test", {settled, ""}}});
    testing::internal::CaptureStderr();
    EXPECT_EQ(t.choose(p.bound, offer_of({{"a", "", 20, {}}, {"b", "", 10, {}}})).candidate, 1u);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(std::string("the plan's ") + settled), std::string::npos);
  }
}

TEST(Tuner, takes_what_is_near_only_where_it_would_have_to_measure) {
  Problem p;
  const Offer offer = offer_of({{"a", "", 10, {}}, {"b", "", 20, {}}});
  Tuner t = tuner(2);
  EXPECT_EQ(t.needed(offer, PinnedChoice{"b", ""}), std::vector<size_t>{1});
  EXPECT_EQ(t.choose(p.bound, offer, PinnedChoice{"b", ""}).candidate, 1u);
  EXPECT_EQ(t.stats().measured, 0);
  EXPECT_EQ(t.needed(offer, PinnedChoice{"gone", ""}).size(), 2u) << "not offered: it will be measured";
  EXPECT_EQ(tuner(0).choose(p.bound, offer, PinnedChoice{"b", ""}).candidate, 0u);
  const auto cache = Cache::in_memory();
  Tuner knows = tuner(2, "", cache);
  cache->keep(timings(knows, 5, 50));
  EXPECT_EQ(knows.choose(p.bound, offer, PinnedChoice{"b", ""}).candidate, 0u);
}

/// A GPU that is not here, and an offer of 20 candidates of two tactics: of walked, all of which take three times as long as their
/// estimates, and of hopper.
struct StagedOffer {
  ops::Machine machine = ops::this_machine(1);
  Offer offer;
  StagedOffer() {
    auto gpu = std::make_shared<ops::Gpu>();
    gpu->info.major = 9;
    machine.gpu = gpu;
    std::vector<ops::Candidate> all;
    for (int i = 0; i < 10; ++i) {
      all.push_back({"walked", std::to_string(i), 10.0 + i, {}});
      all.push_back({"hopper", std::to_string(i), 12.0 + i, {}});
    }
    offer = offer_of(std::move(all));
  }
  CacheEntry entry(const Tuner& t, const std::vector<std::pair<std::string, int>>& measured) const {
    CacheEntry e{{offer.problem, device_text(t.machine()), t.machine().versions}, 2, {}};
    for (const auto& [tactic, i] : measured) {
      const double us = tactic == "walked" ? 3 * (10 + i) : 12 + i;
      e.timings.push_back({tactic, std::to_string(i), us, us, us, us, us, 12});
    }
    return e;
  }
  std::vector<std::pair<std::string, std::string>> needed(Tuner& t) const {
    std::vector<std::pair<std::string, std::string>> all;
    for (size_t i : t.needed(offer)) all.emplace_back(offer.candidates[i].tactic, offer.candidates[i].config);
    return all;
  }
};

using Names = std::vector<std::pair<std::string, std::string>>;

TEST(Tuner, on_a_gpu_races_in_stages) {
  const StagedOffer s;
  const auto cache = Cache::in_memory();
  Tuner t(s.machine, 2, {}, cache);
  EXPECT_EQ(s.needed(t), (Names{{"walked", "0"}, {"walked", "1"}, {"hopper", "0"}, {"hopper", "1"}}));
  cache->keep(s.entry(t, {{"walked", 0}, {"walked", 1}, {"hopper", 0}, {"hopper", 1}}));
  EXPECT_EQ(s.needed(t), (Names{{"hopper", "2"}, {"hopper", "3"}, {"hopper", "0"}}))
      << "others cannot win; the fastest beside them";
  cache->keep(s.entry(t, {{"hopper", 2}, {"hopper", 3}}));
  EXPECT_EQ(s.needed(t), (Names{{"hopper", "0"}})) << "decided";
  const Problem p;
  EXPECT_EQ(s.offer.candidates[t.choose(p.bound, s.offer).candidate].tactic, "hopper");
  EXPECT_EQ(t.stats().cached, 1);
  EXPECT_EQ(t.stats().measured, 0);
}

TEST(Tuner, a_tactic_that_was_refused_when_the_cache_was_filled_joins_the_race) {
  const StagedOffer s;
  const auto cache = Cache::in_memory();
  Tuner t(s.machine, 2, {}, cache);
  cache->keep(s.entry(t, {{"hopper", 0}, {"hopper", 1}, {"hopper", 2}, {"hopper", 3}}));
  EXPECT_EQ(s.needed(t), (Names{{"walked", "0"}, {"walked", "1"}, {"hopper", "0"}}));
}

TEST(Tuner, measures_all_at_once_where_all_are_to_be_seen_at_level_3_and_on_the_processor) {
  const StagedOffer s;
  Tuner seen(s.machine, 2, {}, Cache::in_memory()), exhaustive(s.machine, 3, {}, Cache::in_memory()), host = tuner(2);
  seen.race_all_at_once();
  for (Tuner* t : {&seen, &exhaustive, &host}) EXPECT_EQ(s.needed(*t).size(), s.offer.candidates.size());
  const auto cache = Cache::in_memory();
  Tuner staged(s.machine, 2, {}, cache), again(s.machine, 2, {}, cache);
  cache->keep(s.entry(staged, {{"walked", 0}, {"walked", 1}, {"hopper", 0}, {"hopper", 1}, {"hopper", 2}, {"hopper", 3}}));
  again.race_all_at_once();
  EXPECT_EQ(s.needed(again).size(), s.offer.candidates.size()) << "a race in stages left some out";
}

TEST(Tuner, prepares_lengthy_candidates_at_level_3_only) {
  const Offer o = offer_of({{"a", "", 10, {}}, {"b", "", 12, {}}, {"c", "", 11, {}, true}});
  EXPECT_EQ(tuner(2).needed(o), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(tuner(3).needed(o), (std::vector<size_t>{0, 2, 1}));
  EXPECT_EQ(tuner(2, "-all,+c").needed(o), std::vector<size_t>{2});
}

TEST(Tuner, refuses_levels_that_do_not_exist) {
  EXPECT_THROW(tuner(4), Error);
  EXPECT_THROW(tuner(-1), Error);
}

}  // namespace
}  // namespace smelt::tune
