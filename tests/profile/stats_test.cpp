#include "profile/stats.h"

#include <gtest/gtest.h>

#include <random>

namespace smelt::profile {
namespace {

std::vector<double> noisy(double centre, double spread, int n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(centre, spread);
  std::vector<double> v;
  for (int i = 0; i < n; ++i) v.push_back(draw(random));
  return v;
}

TEST(Stats, percentiles_interpolate_between_ranks) {
  const std::vector<double> v{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(v), 2.5);
  EXPECT_DOUBLE_EQ(percentile(v, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(v, 1), 4);
  EXPECT_DOUBLE_EQ(percentile(v, 0.9), 3.7);
}

TEST(Stats, a_against_a_is_neither_faster_nor_slower) {
  int claims = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Ratio r = ratio_interval(noisy(10, 1, 60, 2 * seed), noisy(10, 1, 60, 2 * seed + 1), 500);
    claims += r.faster() || r.slower();
  }
  EXPECT_LE(claims, 6);  // 5% of 40 expected; six would be three standard deviations
}

TEST(Stats, a_real_gain_is_proven_and_the_interval_nearly_always_holds_it) {
  int holds = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Ratio r = ratio_interval(noisy(10, 0.5, 80, 2 * seed), noisy(8, 0.5, 80, 2 * seed + 1), 500);
    EXPECT_TRUE(r.faster());
    holds += r.low <= 0.8 && 0.8 <= r.high;
  }
  EXPECT_GE(holds, 32);  // 95% of 40 is 38; 32 is four standard deviations below
}

TEST(Stats, the_same_samples_give_the_same_interval) {
  const auto a = noisy(10, 1, 50, 1), b = noisy(9, 1, 50, 2);
  const Ratio first = ratio_interval(a, b), second = ratio_interval(a, b);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
}

TEST(Stats, a_drift_common_to_both_does_not_become_a_difference) {
  std::vector<double> a = noisy(10, 0.1, 100, 1), b = noisy(10, 0.1, 100, 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] += 0.05 * static_cast<double>(i), b[i] += 0.05 * static_cast<double>(i);
  const Ratio r = ratio_interval(a, b);
  EXPECT_FALSE(r.faster() || r.slower());
}

/// Ten rounds of 30 pairs; each side's times have a factor of their round's, by where its memory lies, with a deviation of 3%.
Ratio of_rounds(double after, uint64_t seed) {
  std::vector<double> a, b;
  std::vector<size_t> ends;
  const std::vector<double> places = noisy(1, 0.03, 20, seed);
  for (size_t round = 0; round < 10; ++round) {
    for (const double v : noisy(10 * places[2 * round], 0.05, 30, seed * 100 + 2 * round)) a.push_back(v);
    for (const double v : noisy(after * places[2 * round + 1], 0.05, 30, seed * 100 + 2 * round + 1)) b.push_back(v);
    ends.push_back(a.size());
  }
  return ratio_interval(a, b, ends, 500);
}

TEST(Stats, factors_of_rounds_are_no_difference_and_a_gain_beyond_them_is) {
  int claims = 0, proven = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Ratio same = of_rounds(10, seed);
    claims += same.faster() || same.slower();
    proven += of_rounds(9, seed).faster();
  }
  EXPECT_LE(claims, 6);
  EXPECT_GE(proven, 38);  // 10% is seven standard deviations of the mean of ten rounds (3% · √2 / √10)
}

TEST(Stats, fewer_than_six_pairs_prove_nothing) {
  const std::vector<double> before{10, 10.1, 10, 10.2, 10, 10.1}, after{5, 5.1, 5, 5.2, 5, 5.1};
  const Ratio five = ratio_interval(std::span(before).first(5), std::span(after).first(5));
  EXPECT_LT(five.high, 1);
  EXPECT_FALSE(five.faster());
  EXPECT_TRUE(ratio_interval(before, after).faster());
  EXPECT_TRUE(ratio_interval(after, before).slower());
}

TEST(Stats, one_sample_has_no_interval_wider_than_itself) {
  const std::vector<double> a{2}, b{1};
  const Ratio r = ratio_interval(a, b);
  EXPECT_DOUBLE_EQ(r.value, 0.5);
}

}  // namespace
}  // namespace smelt::profile
