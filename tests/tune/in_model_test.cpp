// Finalists chosen by a whole model's time: on models that are made up, with noise.
#include "tune/in_model.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>

namespace smelt::tune {
namespace {

/// A model whose problems' finalists differ by so much; each trial's time has noise, and each batch's clocks are others.
struct MadeUpModel {
  std::vector<Finalists> problems;
  std::vector<std::vector<double>> us;  // by problem and finalist
  double rest_us = 0, noise_us = 0.2, drift = 0.005;
  size_t trials = 1024;
  std::mt19937 random;

  MadeUpModel(size_t count, double each_us, double spread, uint32_t seed) : random(seed) {
    std::mt19937 made(seed / 1000 + 1);
    std::uniform_int_distribution<size_t> several(2, 6);
    std::exponential_distribution<double> above(1 / spread);
    for (size_t p = 0; p < count; ++p) {
      std::vector<double>& of = us.emplace_back();
      for (size_t c = several(made); c > 0; --c) of.push_back(each_us * (1 + above(made)));
      problems.push_back({of.size(), each_us});
      rest_us += each_us / 4;
    }
  }
  double time(const Lineup& lineup) const {
    double sum = rest_us;
    for (size_t p = 0; p < us.size(); ++p) sum += us[p][lineup[p]];
    return sum;
  }
  double best_us() const {
    double sum = rest_us;
    for (const auto& of : us) sum += *std::ranges::min_element(of);
    return sum;
  }
  Final race() {
    size_t left = trials;
    return race_in_model(problems, [&](std::span<const Lineup> lineups) -> std::vector<double> {
      if (left < lineups.size()) return {};
      left -= lineups.size();
      const double clock = 1 + drift * std::uniform_real_distribution<double>(-1, 1)(random);
      std::vector<double> times;
      for (const Lineup& l : lineups) times.push_back(time(l) * clock + std::normal_distribution<double>(0, noise_us)(random));
      return times;
    });
  }
};

TEST(InModel, what_is_faster_in_the_model_is_chosen) {
  MadeUpModel m(1, 10, 1, 1);
  m.us = {{10, 8, 12}};
  m.problems = {{3, 10}};
  const Final f = m.race();
  EXPECT_EQ(f.chosen, std::vector<size_t>{1});
  EXPECT_NEAR(f.us[0][0], 2, 0.3);
  EXPECT_NEAR(f.us[0][2], 4, 0.3);
  EXPECT_EQ(f.undecided, 0u);
  EXPECT_LT(f.trials, 100u);
}

TEST(InModel, of_equal_ones_the_first_in_order_is_chosen) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    MadeUpModel m(20, 5, 1, seed);
    for (auto& of : m.us) std::ranges::fill(of, 5.0);
    const Final f = m.race();
    EXPECT_THAT(f.chosen, testing::Each(0u)) << seed;
    for (const std::vector<double>& us : f.us) EXPECT_EQ(*std::ranges::min_element(us), 0);  // what is slower than the fastest
  }
}

/// Two builds of one model whose finalists differ by anything: how often they choose otherwise, and what a choice loses.
TEST(InModel, two_builds_choose_the_same_for_nearly_all_problems_and_lose_little) {
  for (const double spread : {0.02, 0.05, 0.1}) {
    size_t otherwise = 0, problems = 0;
    double lost = 0;
    constexpr uint32_t models = 3;
    for (uint32_t i = 1; i <= models; ++i) {
      MadeUpModel one(40, 4, spread, i * 1000), other(40, 4, spread, i * 1000 + 1);
      const Final a = one.race(), b = other.race();
      for (size_t p = 0; p < a.chosen.size(); ++p) otherwise += a.chosen[p] != b.chosen[p], ++problems;
      const double loss = one.time(a.chosen) / one.best_us() - 1;
      EXPECT_LT(loss, 0.02) << "spread " << spread << " model " << i;
      EXPECT_LT(std::abs(one.time(a.chosen) / one.time(b.chosen) - 1), 0.01);
      lost += loss / models;
    }
    EXPECT_LT(static_cast<double>(otherwise), 0.1 * static_cast<double>(problems)) << spread << ", " << otherwise;
    EXPECT_LT(lost, 0.01) << spread;
  }
}

TEST(InModel, where_the_time_is_up_at_once_nothing_changes) {
  MadeUpModel m(10, 5, 0.1, 1);
  m.trials = 0;
  const Final f = m.race();
  EXPECT_THAT(f.chosen, testing::Each(0u));
  EXPECT_EQ(f.trials, 0u);
  EXPECT_EQ(f.undecided, 10u);
}

std::vector<Timing> timings_of(std::initializer_list<double> all) {
  std::vector<Timing> timings;
  for (const double us : all) timings.push_back({.tactic = "t", .min = us, .samples = 3});
  return timings;
}

TEST(InModel, finalists_are_the_first_in_order_of_those_that_are_near) {
  std::vector<Timing> timings = timings_of({30.0, 11.2, 13.4, 13.6, 10.9, 10.0});
  EXPECT_EQ(finalists(timings), (std::vector<size_t>{1, 2, 4, 5}));
  EXPECT_EQ(finalists(std::span(timings).first(1)), std::vector<size_t>());
  timings.resize(2);
  timings[0].samples = 0;
  EXPECT_EQ(finalists(timings), std::vector<size_t>());
  // Which of those behind them is the fastest makes no difference but for the first that takes as long as that.
  EXPECT_EQ(finalists(timings_of({12, 12, 12, 12, 12, 12, 12, 12, 12, 10.1, 10})), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 9}));
  EXPECT_EQ(finalists(timings_of({12, 12, 12, 12, 12, 12, 12, 12, 12, 10, 10.1})), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 9}));
}

TEST(InModel, without_a_model_the_first_that_takes_as_long_is_chosen) {
  EXPECT_EQ(first_alone(timings_of({2.4, 2.3, 2.0})), 1u);
  EXPECT_EQ(first_alone(timings_of({110, 104, 102.9, 100})), 2u);
  std::vector<Timing> timings = timings_of({1, 1});
  timings[0].samples = 0;
  EXPECT_EQ(first_alone(timings), 1u);
}

/// One that is 3% faster is worth two places, and no more than two.
TEST(InModel, a_place_further_back_has_a_price) {
  MadeUpModel m(1, 10, 1, 1);
  m.problems = {{4, 10}}, m.us = {{10, 10, 9.7, 9.7}};
  EXPECT_EQ(m.race().chosen, std::vector<size_t>{2});
  m.us = {{10, 10, 10, 9.8}};
  EXPECT_EQ(m.race().chosen, std::vector<size_t>{0});
}

TEST(InModel, few_trials_are_for_what_takes_longest) {
  const std::vector<Finalists> problems{{3, 5}, {2, 50}, {1, 500}, {4, 20}};
  EXPECT_EQ(worth_trials(problems, 1000), (std::vector<size_t>{1, 3, 0}));
  EXPECT_EQ(worth_trials(problems, 30), (std::vector<size_t>{1}));
  EXPECT_TRUE(worth_trials(problems, 0).empty());
}

}  // namespace
}  // namespace smelt::tune
