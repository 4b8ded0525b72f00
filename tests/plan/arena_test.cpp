#include "plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "smelt/error.h"

namespace smelt::plan {
namespace {

void expect_valid(const std::vector<Lifetime>& blocks, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % arena_alignment, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + blocks[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool same_time = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool apart =
          plan.offsets[i] + blocks[i].bytes <= plan.offsets[j] || plan.offsets[j] + blocks[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(!same_time || apart || blocks[i].bytes == 0 || blocks[j].bytes == 0) << i << " and " << j;
    }
  }
}

TEST(Arena, is_empty_for_nothing) { EXPECT_EQ(plan_arena({}).bytes, 0); }

TEST(Arena, reuses_memory_of_what_is_dead) {
  const std::vector<Lifetime> blocks{{640, 0, 1}, {640, 1, 2}, {640, 2, 3}};
  const ArenaPlan plan = plan_arena(blocks);
  expect_valid(blocks, plan);
  EXPECT_EQ(plan.bytes, 1280);
}

TEST(Arena, does_not_share_a_step_between_the_last_reader_and_the_writer) {
  const std::vector<Lifetime> blocks{{64, 0, 1}, {64, 1, 2}};
  EXPECT_NE(plan_arena(blocks).offsets[0], plan_arena(blocks).offsets[1]);
}

TEST(Arena, takes_the_smallest_gap_that_holds_a_block) {
  // Gaps of 128 and 64 bytes open between three long-lived blocks; the 64-byte block belongs into the smaller.
  const std::vector<Lifetime> blocks{{1024, 0, 9}, {128, 0, 0}, {512, 0, 9}, {64, 0, 0}, {256, 0, 9}, {64, 5, 5}};
  expect_valid(blocks, plan_arena(blocks));
}

TEST(Arena, refuses_blocks_beyond_the_address_space) {
  const std::vector<Lifetime> blocks{{INT64_MAX - 100, 0, 1}, {INT64_MAX - 100, 0, 1}};
  EXPECT_THROW(plan_arena(blocks), Error);
}

/// The most bytes alive at one step: no plan can take less.
int64_t lower_bound(const std::vector<Lifetime>& blocks) {
  int last = -1;
  for (const Lifetime& b : blocks) last = std::max(last, b.last);
  std::vector<int64_t> change(static_cast<size_t>(last) + 2, 0);
  for (const Lifetime& b : blocks) {
    const int64_t bytes = (b.bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
    change[static_cast<size_t>(b.first)] += bytes;
    change[static_cast<size_t>(b.last) + 1] -= bytes;
  }
  int64_t alive = 0, peak = 0;
  for (int64_t c : change) peak = std::max(peak, alive += c);
  return peak;
}

TEST(Arena, never_overlaps_live_blocks_and_stays_near_the_lower_bound_on_random_lifetimes) {
  std::mt19937 random(7);
  double worst = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> blocks(1 + random() % 60);
    for (Lifetime& b : blocks) {
      b.first = static_cast<int>(random() % 40);
      b.last = b.first + static_cast<int>(random() % 6);
      b.bytes = static_cast<int64_t>(random() % 5000);
    }
    const ArenaPlan plan = plan_arena(blocks);
    expect_valid(blocks, plan);
    const int64_t bound = lower_bound(blocks);
    EXPECT_GE(plan.bytes, bound);
    if (bound > 0) worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(bound));
  }
  EXPECT_LE(worst, 1.5);
}

TEST(Arena, places_blocks_that_all_meet_by_the_steps_where_they_are_many) {
  std::vector<Lifetime> blocks;
  constexpr int many = 6000;  // 18 million pairs
  for (int i = 0; i < many; ++i) blocks.push_back({64 * (1 + i % 7), i, many + i % 50});
  for (int i = 0; i < 3000; ++i) blocks.push_back({640, 3 * many + i, 3 * many + i + 1});  // one after the other, two at a time
  const ArenaPlan plan = plan_arena(blocks);
  EXPECT_EQ(plan.bytes, lower_bound(blocks));
  std::vector<std::pair<int64_t, int64_t>> at_once;  // while all of the first are alive
  for (size_t i = 0; i < many; ++i) at_once.emplace_back(plan.offsets[i], plan.offsets[i] + blocks[i].bytes);
  std::ranges::sort(at_once);
  for (size_t i = 1; i < at_once.size(); ++i) ASSERT_LE(at_once[i - 1].second, at_once[i].first);
  const std::vector<Lifetime> last(blocks.end() - 200, blocks.end());
  ArenaPlan of_last{{plan.offsets.end() - 200, plan.offsets.end()}, plan.bytes};
  expect_valid(last, of_last);
}

}  // namespace
}  // namespace smelt::plan
