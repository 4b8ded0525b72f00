// The tuner beside other work and within a time limit: what it measures then, and what it leaves to a later build.
#include <gtest/gtest.h>

#include "ops/core/machine.h"
#include "smelt/error.h"
#include "tune/tuner.h"
#include "tune/tuner_trial.h"

namespace smelt::tune {

using namespace test;

namespace {

/// A stopwatch by which every sample was disturbed (`load`), or none; a microsecond passes with each look.
/// `share`, below 1: that the one thread has a core for.
Stopwatch made_up(const std::shared_ptr<bool>& load, double us_a_look = 1, double share = 1) {
  Stopwatch w;
  const auto now = std::make_shared<double>(0);
  w.now_us = [us_a_look, now] { return *now += us_a_look; };
  const auto ran_ns = [now, share] { return static_cast<int64_t>(1e3 * share * *now); };
  if (share < 1) {
    w.ran = [ran_ns](std::vector<int64_t>& ns) { ns.assign(1, ran_ns()); };
    w.caller = [now, ran_ns] { return device::cpu::CallerTime{ran_ns(), static_cast<int64_t>(1e3 * *now) - ran_ns()}; };
  }
  w.interruptions = [load, waited = std::make_shared<int64_t>(0)](bool) {
    return device::cpu::Interruptions{.waited_ns = *load ? *waited += 1'000'000'000 : *waited};
  };
  return w;
}

/// A Relu's real offer with two candidates at least.
struct RealOffer {
  Problem p;
  ops::Offer offer = ops::offer(p.bound, ops::this_machine(1));
  bool enough() const { return offer.candidates.size() > 1; }
};

TEST(Tuner, marks_what_was_measured_under_load_and_measures_it_again_when_the_cores_are_free) {
  RealOffer r;
  ASSERT_TRUE(r.enough());
  auto cache = Cache::in_memory();
  auto load = std::make_shared<bool>(true);
  bool free = false;
  const auto build = [&] {
    Tuner t(ops::this_machine(1), 3, {}, cache, {}, {.watch = made_up(load), .cores_are_free = [&] { return free; }});
    t.choose(r.p.bound, r.offer);
    return t.stats();
  };
  const TunerStats loud = build();
  EXPECT_EQ(loud.measured, 1);
  EXPECT_EQ(loud.under_load, 1);
  ASSERT_EQ(cache->list().size(), 1u);
  EXPECT_TRUE(cache->list()[0].under_load());

  const TunerStats still_loud = build();
  EXPECT_EQ(still_loud.measured, 0) << "the cores are not free: what there is has to do";
  EXPECT_EQ(still_loud.under_load, 1);

  free = true, *load = false;
  const TunerStats quiet = build();
  EXPECT_EQ(quiet.measured, 1);
  EXPECT_EQ(quiet.under_load, 0);
  EXPECT_FALSE(cache->list()[0].under_load());
  EXPECT_EQ(build().measured, 0) << "it is settled";
}

TEST(Tuner, measures_again_beyond_three_times_only_in_a_builds_first_seconds) {
  RealOffer r;
  ASSERT_TRUE(r.enough());
  RealOffer other{Problem(8192)};
  auto cache = Cache::in_memory();
  const auto build = [&](double us_a_look, bool other_first) {
    Tuner t(ops::this_machine(1), 3, {}, cache, {},
            {.watch = made_up(std::make_shared<bool>(true), us_a_look), .cores_are_free = [] { return true; }});
    if (other_first) t.choose(other.p.bound, other.offer);
    const auto before = t.stats().measured;
    t.choose(r.p.bound, r.offer);
    return t.stats().measured - before;
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(build(1, false), 1) << i;
  EXPECT_EQ(build(1e5, true), 0) << "the other problem took more than two seconds";
}

/// A convolution's real offer.
struct Convolution {
  Node node;
  ops::BoundNode bound;
  ops::Offer offer;
  explicit Convolution(int64_t width) {
    node.op = "Conv";
    node.name = "conv";
    node.inputs = {ValueId{0}, ValueId{1}};
    node.outputs = {ValueId{2}};
    bound.node = &node;
    bound.inputs = {{DType::f32, {1, 32, 8, width + 2}}, {DType::f32, {32, 32, 1, 3}}};
    bound.inputs[1].constant = Tensor::zeros(DType::f32, {32, 32, 1, 3});
    bound.outputs = {{DType::f32, {1, 32, 8, width}}};
    bound.inputs[0].layout = bound.outputs[0].layout = ops::Layout::nhwc;
    offer = ops::offer(bound, ops::this_machine(1));
  }
};

TEST(Tuner, held_up_by_other_work_measures_the_likeliest_alone_and_the_rest_another_time) {
  Convolution first(40), second(48);
  if (second.offer.candidates.size() < 5) GTEST_SKIP() << "few kernels for this processor";
  const auto load = std::make_shared<bool>(true);
  const auto cache = Cache::in_memory();
  const auto is_left = [](const NotChosen& n) { return n.reason.find("other work took too much time") != std::string::npos; };
  const auto timed = [&](double us_a_look, double share) {
    Tuner t(ops::this_machine(1), 3, {}, cache, {},
            {.watch = made_up(load, us_a_look, share), .cores_are_free = [] { return true; }});
    const Choice before = t.choose(first.bound, first.offer), c = t.choose(second.bound, second.offer);
    EXPECT_GT(before.timings.size(), 3u) << "it was not held up before";
    EXPECT_EQ(t.choose(second.bound, second.offer).timings.size(), c.timings.size()) << "the same problem, the same choice";
    EXPECT_EQ(std::ranges::any_of(c.others, is_left), c.timings.size() <= 3);
    return c.timings.size();
  };
  EXPECT_EQ(timed(1e5, 0.1), 3u) << "a tenth of the cores";
  *load = false;
  EXPECT_GT(timed(1, 1), 3u) << "of a later build, alone";
}

TEST(Tuner, keeps_its_time_limit_and_leaves_the_rest_to_estimates) {
  RealOffer first;
  ASSERT_TRUE(first.enough());
  auto cache = Cache::in_memory();
  // Every look at the clock takes a tenth of a second, so that the first problem uses the limit up.
  Tuner t(ops::this_machine(1), 3, {}, cache, {}, {.limit_s = 1, .watch = made_up(std::make_shared<bool>(false), 1e5)});
  const Choice cut = t.choose(first.p.bound, first.offer);
  EXPECT_TRUE(cut.out_of_time);
  EXPECT_TRUE(t.time_is_up());
  EXPECT_LT(t.stats().seconds, 2);
  EXPECT_TRUE(cache->list().empty()) << "a later build measures it";

  Problem second(8192);
  ops::Offer offer = ops::offer(second.bound, ops::this_machine(1));
  EXPECT_EQ(t.needed(offer).size(), 1u);
  const Choice estimated = t.choose(second.bound, offer);
  EXPECT_TRUE(estimated.out_of_time);
  EXPECT_TRUE(estimated.timings.empty());
  for (const ops::Candidate& c : offer.candidates) EXPECT_LE(offer.candidates[estimated.candidate].estimate_us, c.estimate_us);
  ASSERT_FALSE(estimated.others.empty());
  EXPECT_NE(estimated.others.back().reason.find("the time for measuring was up"), std::string::npos);
  EXPECT_EQ(t.stats().measured, 1);
  EXPECT_EQ(t.stats().out_of_time, 2);
  EXPECT_EQ(t.choose(first.p.bound, first.offer).candidate, cut.candidate) << "the same problem, the same choice";
}

TEST(Tuner, what_the_cache_knows_needs_no_time) {
  Problem p;
  auto cache = Cache::in_memory();
  Tuner t(ops::this_machine(1), 2, {}, cache, {}, {.limit_s = 1});
  t.spend(2);
  cache->keep(timings(t, 30, 12));
  const Choice c = t.choose(p.bound, offer_of({{"a", "", 1, {}}, {"b", "", 2, {}}}));
  EXPECT_EQ(c.candidate, 1u);
  EXPECT_FALSE(c.out_of_time);
}

TEST(Tuner, refuses_a_negative_time_limit) {
  EXPECT_THROW(Tuner(ops::this_machine(1), 2, {}, Cache::in_memory(), {}, {.limit_s = -1}), Error);
}

}  // namespace
}  // namespace smelt::tune
