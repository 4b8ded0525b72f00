// What models on streams of one made-up GPU lose to each other.
#include "profile/gpu_contention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "profile/gpu_serving.h"
#include "support/errors.h"

namespace smelt::profile {
namespace {

GpuWork kernel(double us, double waves, double memory = 0, double compute = 0) {
  return {.name = "k", .us = us, .waves = waves, .compute = compute, .memory = memory, .l2 = memory};
}

std::vector<double> slow(const GpuAlone& a, const GpuAlone& b, double rate = 0) {
  const std::vector<GpuAlone> models{a, b};
  return predicted_gpu_slow_downs(models, rate);
}

TEST(GpuPrediction, kernels_of_few_blocks_run_beside_each_other) {
  const auto s = slow({{kernel(100, 0.3)}, 0}, {{kernel(70, 0.5)}, 0});
  EXPECT_NEAR(s[0], 1.5, 0.1) << "it takes longer by what the other has";
  EXPECT_NEAR(s[1], 1.3, 0.1);
}

TEST(GpuPrediction, kernels_that_fill_the_gpu_run_in_turn) {
  const auto s = slow({{kernel(100, 8)}, 0}, {{kernel(50, 8)}, 0});
  EXPECT_NEAR(s[0], 1.5, 0.05) << "each waits for one of the other's";
  EXPECT_NEAR(s[1], 3, 0.1);
}

TEST(GpuPrediction, a_model_of_many_short_kernels_waits_for_long_ones_at_each_of_them) {
  GpuAlone many;
  for (int i = 0; i < 10; ++i) many.work.push_back(kernel(10, 4));
  const auto s = slow(many, {{kernel(100, 20)}, 0});
  EXPECT_NEAR(s[0], 11, 1);
  EXPECT_LT(s[1], 1.2);
}

TEST(GpuPrediction, the_last_wave_leaves_room) {
  // Two waves: all multiprocessors, then a tenth of them.
  const auto s = slow({{kernel(100, 1.1)}, 0}, {{kernel(40, 0.9)}, 1000});
  EXPECT_LT(s[1], 1.06) << "at most half a run of 1040 µs to wait for";
  EXPECT_GT(s[1], 1.0);
}

TEST(GpuPrediction, blocks_that_hold_half_of_a_multiprocessor_leave_room_for_others) {
  GpuWork brief = kernel(10, 1), lengthy = kernel(200, 1);
  EXPECT_GT(slow({{brief}, 0}, {{lengthy}, 0})[0], 10) << "it waits until the other's blocks end";
  brief.share = lengthy.share = 0.5;
  EXPECT_LT(slow({{brief}, 0}, {{lengthy}, 0})[0], 2.2) << "beside each other";
}

TEST(GpuPrediction, blocks_of_a_wave_end_one_after_the_other) {
  // Each of the brief one's kernels begins when a quarter of the other's blocks have ended, not when all have.
  const auto s = slow({{kernel(1, 0.2)}, 0}, {{kernel(1000, 1)}, 0});
  EXPECT_LT(s[0], 20) << "some run in every tail of 150 µs";
}

TEST(GpuPrediction, memory_is_shared_where_both_want_most_of_it) {
  const auto s = slow({{kernel(100, 0.4, 0.9)}, 0}, {{kernel(100, 0.4, 0.9)}, 0});
  const auto little = slow({{kernel(100, 0.4, 0.1)}, 0}, {{kernel(100, 0.4, 0.95)}, 0});
  EXPECT_GT(s[0], 1.6);
  EXPECT_LT(little[0], 0.95 * s[0]) << "it takes little of it";
}

TEST(GpuPrediction, a_rate_leaves_time_between_requests) {
  const GpuAlone busy{{kernel(100, 8)}, 10};
  const auto s = slow(busy, busy, 1000);  // each a tenth of the time
  EXPECT_LT(s[0], 2.0);
  EXPECT_GE(s[0], 1.0);
}

TEST(GpuPrediction, says_nothing_of_a_model_without_work) {
  EXPECT_EQ(slow({}, {{kernel(1, 1)}, 0}), (std::vector<double>{1, 1}));
}

/// One run of two kernels at 0, alone 10 µs each with 1 µs between.
GpuAlone two_kernels(double memory) {
  GpuAlone a{{kernel(10, 0.5, memory), kernel(10, 0.5, memory)}, 5};
  a.work[1].before_us = 1, a.work[1].step = 1;
  return a;
}

TEST(GpuLoss, is_split_by_what_both_take_and_by_waiting) {
  const std::vector<GpuAlone> alone{two_kernels(0), {{kernel(40, 0.5, 0.8)}, 0}};
  // The first kernel takes 4 µs more beside the other; the second begins 3 µs later than alone.
  const std::vector<std::vector<TracedRun>> together{{{{0, 14000}, {18000, 28000}}}, {{{0, 40000}}}};
  const GpuLoss loss = gpu_loss(0, alone, together, 2);
  ASSERT_EQ(loss.steps.size(), 2u);
  EXPECT_NEAR(loss.steps[0].cores_us, 4, 1e-9) << "it moves nothing: what they share is multiprocessors";
  EXPECT_NEAR(loss.steps[1].queueing_us, 3, 1e-9);
  EXPECT_NEAR(loss.whole.together_us - loss.whole.alone_us, 7, 1e-9);
}

TEST(GpuLoss, goes_to_memory_where_both_move_much) {
  const std::vector<GpuAlone> alone{two_kernels(0.8), {{kernel(40, 0.05, 0.8)}, 0}};
  const std::vector<std::vector<TracedRun>> together{{{{0, 14000}, {15000, 25000}}}, {{{0, 40000}}}};
  const GpuLoss loss = gpu_loss(0, alone, together, 2);
  EXPECT_GT(loss.steps[0].memory_us + loss.steps[0].l2_us, 3.5);
  EXPECT_NEAR(loss.steps[0].cores_us + loss.steps[0].memory_us + loss.steps[0].l2_us, 4, 1e-9);
}

TEST(GpuLoss, of_a_request_is_scaled_to_what_it_took_longer) {
  GpuLoss loss;
  loss.whole.cores_us = 30, loss.whole.queueing_us = 10;
  Served alone, together;
  alone.response_us = alone.service_us = {100, 100, 4000};
  together.response_us = {230, 230, 230}, together.service_us = {180, 180, 180};
  const SlowDown d = gpu_slow_down(alone, together, loss);
  EXPECT_NEAR(d.cores_us, 60, 1e-9);
  EXPECT_NEAR(d.queueing_us, 20 + 50, 1e-9) << "and what it waited for the request before it";
  EXPECT_NEAR(d.cores_us + d.queueing_us, d.together_us - d.alone_us, 1e-9);
}

device::cuda::Activity seen(uint64_t begin_us, uint64_t end_us, uint64_t node) {
  device::cuda::Activity a;
  a.begin_ns = begin_us * 1000, a.end_ns = end_us * 1000, a.graph_node = node;
  return a;
}

const std::vector<TracedModel> two_models{{{1, 2}, {1, 0, 1}}, {{7}, {1}}};

TEST(GpuTrace, is_told_apart_by_the_graphs_nodes) {
  const auto runs = runs_of(
      std::vector{seen(0, 5, 1), seen(2, 9, 7), seen(6, 8, 2), seen(9, 9, 0), seen(10, 15, 1), seen(11, 19, 7), seen(16, 18, 2)},
      two_models);
  ASSERT_EQ(runs.size(), 2u);
  ASSERT_EQ(runs[0].size(), 2u);
  EXPECT_EQ(runs[0][1][1].end_ns, 18000);
  EXPECT_EQ(runs[1].size(), 2u);
  EXPECT_TRUE(error_from([] { runs_of(std::vector{seen(0, 5, 1)}, two_models); })) << "half a run";
}

TEST(GpuTrace, lies_within_the_requests_on_their_clock) {
  // The host's clock is 1 s ahead, and a request begins and ends 2 µs around its work.
  const std::vector<std::vector<TracedRun>> runs{{{{0, 5000}, {6000, 8000}}, {{20000, 25000}, {26000, 28000}}}};
  Served s;
  s.response_us = {12};
  s.last = {{1'000'018'000, 1'000'018'000, 1'000'030'000, {}}};  // the second run's: the first is a warm-up
  put_on_one_clock({&s, 1}, runs, std::span(two_models).first(1));
  ASSERT_EQ(s.last[0].steps.size(), 3u);
  EXPECT_EQ(s.last[0].steps[0].begin_ns, 2000);
  EXPECT_EQ(s.last[0].steps[0].end_ns, 7000);
  EXPECT_EQ(s.last[0].steps[1].end_ns - s.last[0].steps[1].begin_ns, 0) << "a step without work";
  EXPECT_EQ(s.last[0].steps[2].end_ns, 10000);
  EXPECT_NEAR(s.step_us[0], 5, 1e-9);
}

TEST(GpuTrace, of_a_model_alone_says_what_its_kernels_take) {
  const device::cuda::DeviceInfo h100 = device::cuda::info_of_arch("sm_90");
  std::vector<device::cuda::Activity> first{seen(0, 5, 1), seen(6, 8, 2)};
  first[0].grid = {264, 1, 1}, first[0].block = {1024, 1, 1}, first[0].registers = 32;  // two blocks a multiprocessor
  first[1].kind = device::cuda::Activity::Kind::copy;
  std::vector<StepRow> steps(3);
  steps[0].memory_us = 2.5, steps[0].compute_us = 1;
  const std::vector<TracedRun> runs{
      {{0, 5000}, {6000, 8000}}, {{20000, 25000}, {27000, 29000}}, {{40000, 45000}, {47000, 49000}}};
  std::vector<GpuWork> work = work_of(runs, first, two_models[0], h100, steps);
  ASSERT_EQ(work.size(), 2u);
  EXPECT_NEAR(work[0].waves, 1, 1e-9);
  EXPECT_NEAR(work[0].memory, 0.5, 1e-9);
  EXPECT_NEAR(work[0].compute, 0.2, 1e-9);
  EXPECT_TRUE(work[1].is_copy());
  EXPECT_EQ(work[1].step, 2u);
  EXPECT_NEAR(work[1].before_us, 2, 1e-9);
  steps[0].counted = Counted{.compute = 0.7, .dram = 0.3, .l2 = 0.4};
  work = work_of(runs, first, two_models[0], h100, steps);
  EXPECT_NEAR(work[0].compute, 0.7, 1e-9);
  EXPECT_NEAR(work[0].l2, 0.4, 1e-9);
}

}  // namespace
}  // namespace smelt::profile
