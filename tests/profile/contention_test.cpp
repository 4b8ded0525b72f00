// What models on the same cores lose to each other.
#include "profile/contention.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace smelt::profile {
namespace {

Served served(int requests, double service_us, double queue_us, double cpu_us, double waited_us, std::vector<double> steps = {}) {
  Served s;
  s.response_us.assign(static_cast<size_t>(requests), service_us + queue_us);
  s.service_us.assign(static_cast<size_t>(requests), service_us);
  s.step_us = std::move(steps);
  s.cpu_us = cpu_us * requests, s.waited_us = waited_us * requests;
  s.seconds = 1;
  return s;
}

TEST(SlowDown, is_split_into_cores_memory_and_queueing) {
  // Two threads that wait 400 µs each while it runs; 100 µs are left to memory.
  const SlowDown d = slow_down(served(100, 1000, 0, 2000, 0), served(100, 1500, 250, 2200, 800));
  EXPECT_NEAR(d.queueing_us, 250, 1e-9);
  EXPECT_NEAR(d.cores_us, 400, 1e-9);
  EXPECT_NEAR(d.memory_us, 100, 1e-9);
  EXPECT_NEAR(d.cores_us + d.memory_us + d.queueing_us, d.together_us - d.alone_us, 1e-9);
  EXPECT_NEAR(d.ratio(), 1.75, 1e-9);
}

TEST(SlowDown, by_waiting_is_no_more_than_the_run_is_longer_by) {
  const SlowDown d = slow_down(served(10, 1000, 0, 1000, 0), served(10, 1100, 0, 1000, 900));
  EXPECT_NEAR(d.cores_us, 100, 1e-9);
  EXPECT_EQ(d.memory_us, 0);
}

TEST(SlowDown, leaves_out_what_waited_alone_too) {
  const SlowDown d = slow_down(served(10, 1000, 0, 800, 200), served(10, 1400, 0, 800, 500));
  EXPECT_NEAR(d.cores_us, 300, 1e-9);
  EXPECT_NEAR(d.memory_us, 100, 1e-9);
}

TEST(SlowDown, of_steps_bears_cores_by_time_and_gives_the_rest_to_memory) {
  const auto steps = step_slow_downs(served(10, 1000, 0, 1000, 0, {600, 400}), served(10, 1500, 0, 1000, 300, {780, 720}));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_NEAR(steps[0].cores_us, 180, 1e-9);
  EXPECT_NEAR(steps[0].memory_us, 0, 1e-9);
  EXPECT_NEAR(steps[1].cores_us, 120, 1e-9);
  EXPECT_NEAR(steps[1].memory_us, 200, 1e-9);
}

Alone alone(double service_us, double cores, double bytes = 0) {
  Alone a;
  a.served = served(100, service_us, 0, service_us * cores, 0);
  a.steps.resize(1);
  a.steps[0].bytes = static_cast<int64_t>(bytes);
  return a;
}

TEST(Prediction, shares_cores_in_proportion_to_what_each_wants) {
  const auto slow = predicted_slow_downs({alone(1000, 2), alone(3000, 2)}, 2, 0, 0);
  EXPECT_NEAR(slow[0], 2, 1e-6);
  EXPECT_NEAR(slow[1], 2, 1e-6);
  EXPECT_NEAR(predicted_slow_downs({alone(1000, 1), alone(3000, 1)}, 2, 0, 0)[0], 1, 1e-6) << "a core each";
  EXPECT_NEAR(predicted_slow_downs({alone(1000, 2), alone(1000, 2), alone(1000, 2)}, 4, 0, 0)[2], 1.5, 1e-6);
}

TEST(Prediction, counts_what_waited_alone_as_wanted) {
  Alone disturbed = alone(1000, 1);
  disturbed.served.waited_us = 1000 * 100;  // others had its second core
  EXPECT_NEAR(disturbed.busy_cores(), 2, 1e-9);
}

TEST(Prediction, goes_by_what_each_loses_beside_busy_cores) {
  Alone short_steps = alone(1000, 2), long_steps = alone(3000, 2);
  short_steps.beside_busy = 2.8, long_steps.beside_busy = 2.1;
  const auto slow = predicted_slow_downs({short_steps, long_steps}, 2, 0, 0);
  EXPECT_NEAR(slow[0], 2.8, 1e-6);
  EXPECT_NEAR(slow[1], 2.1, 1e-6);
  EXPECT_NEAR(predicted_slow_downs({short_steps, alone(1000, 1)}, 2, 0, 0)[0], 1.9, 1e-6) << "the other wants half as much";
  EXPECT_NEAR(predicted_slow_downs({short_steps, alone(1000, 1)}, 3, 0, 0)[0], 1, 1e-6) << "there are cores for both";
}

TEST(Prediction, goes_by_what_each_loses_beside_those_who_fill_its_caches) {
  Alone in_caches = alone(1000, 2), moving = alone(1000, 2, 5e6);  // 5 GB/s
  in_caches.beside_busy = 2, in_caches.beside_reads = 4, in_caches.read_bytes_per_s = 10e9;
  EXPECT_NEAR(predicted_slow_downs({in_caches, moving}, 2, 0, 0)[0], 3, 1e-6) << "half as much as the readers";
  EXPECT_NEAR(predicted_slow_downs({in_caches, alone(1000, 2, 50e6)}, 2, 0, 0)[0], 4, 1e-6) << "no more than beside them";
  EXPECT_NEAR(predicted_slow_downs({in_caches, alone(1000, 2)}, 2, 0, 0)[0], 2, 1e-6);
  EXPECT_NEAR(predicted_slow_downs({in_caches, moving}, 4, 0, 0)[0], 1, 1e-6) << "a core for each";
}

TEST(Served, stretches_of_time_are_joined) {
  const Served all = joined({served(10, 1000, 0, 1000, 300, {600, 400}), served(30, 2000, 0, 3000, 100, {1000, 800})});
  EXPECT_EQ(all.service_us.size(), 40u);
  EXPECT_NEAR(mean(all.service_us), 1750, 1e-9);
  ASSERT_EQ(all.step_us.size(), 2u);
  EXPECT_NEAR(all.step_us[0], 900, 1e-9);
  EXPECT_NEAR(all.step_us[1], 700, 1e-9);
}

TEST(Prediction, shares_memory_where_that_is_the_scarcer) {
  // 15 GB/s each of 20.
  const auto slow = predicted_slow_downs({alone(1000, 1, 15e6), alone(1000, 1, 15e6)}, 2, 20e9, 0);
  EXPECT_NEAR(slow[0], 1.5, 1e-6);
}

TEST(Prediction, counts_only_the_time_in_which_the_others_are_busy) {
  // Each is busy some of the time; alone a third and a tenth of it.
  const double rate = 100;
  const auto slow = predicted_slow_downs({alone(3333, 2), alone(1000, 2)}, 2, 0, rate);
  EXPECT_GT(slow[0], 1.05);
  EXPECT_LT(slow[0], 1.15);
  EXPECT_GT(slow[1], slow[0]) << "the shorter one meets the longer one more often";
  EXPECT_LT(slow[1], 1.4);
}

Served with_runs(int64_t from_ns, int64_t apart_ns, int count) {
  Served s;
  for (int i = 0; i < count; ++i)
    s.last.push_back({from_ns + i * apart_ns, from_ns + i * apart_ns, from_ns + (i + 1) * apart_ns, {}});
  return s;
}

TEST(CommonWindow, is_where_the_requests_of_all_models_lie) {
  using Window = std::pair<int64_t, int64_t>;
  EXPECT_EQ(common_window({with_runs(100, 10, 5), with_runs(120, 100, 1)}, 1000), Window(120, 150));
  EXPECT_EQ(common_window({with_runs(100, 10, 5), with_runs(120, 100, 1)}, 20), Window(130, 150)) << "the last part of it";
  EXPECT_EQ(common_window({with_runs(100, 10, 5), with_runs(200, 10, 5)}, 1000), Window(0, 0)) << "they never met";
  EXPECT_EQ(common_window({with_runs(100, 10, 5), Served{}}, 1000), Window(0, 0));
}

/// Takes 20 ms a run.
class Sleeping final : public Execution {
 public:
  void bind(std::span<const Tensor>, std::span<const Tensor>, std::span<const Cache>) override {}
  void run() override { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
  void cancel() override {}
  void enqueue(void*) override {}
  double run_timed(int) override { return 0; }
  void run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>*) override {
    run();
    times = {{0, 20'000'000}};
  }
  std::span<const Tensor> outputs() const override { return {}; }
  const std::vector<StepInfo>& steps() const override { return steps_; }
  MemoryInfo memory() const override { return {}; }
  bool on_gpu() const override { return false; }

 private:
  std::vector<StepInfo> steps_;
};

TEST(Serve, has_requests_wait_for_those_before_them_where_they_come_too_fast) {
  Sleeping model;
  const Served fast = serve(model, {.seconds = 0.4, .rate = 100});
  ASSERT_GE(fast.response_us.size(), 4u);
  EXPECT_GT(fast.response_us.back(), fast.service_us.back() + 20000) << "each comes 10 ms after the last and takes 20";
  EXPECT_GT(slow_down(serve(model, {.seconds = 0.3}), fast).queueing_us, 10000);
  EXPECT_NEAR(fast.step_us.at(0), 20000, 1);
  ASSERT_EQ(fast.last.size(), fast.response_us.size());
  for (const ServedRun& r : fast.last) EXPECT_TRUE(r.arrival_ns <= r.begin_ns && r.begin_ns < r.end_ns && r.steps.size() == 1);
}

TEST(Serve, paces_requests_that_are_quick_enough) {
  Sleeping model;
  const Served slow = serve(model, {.seconds = 0.5, .rate = 10});
  EXPECT_LE(slow.response_us.size(), 6u);
  EXPECT_LT(slow.cpu_us, 250000);
}

}  // namespace
}  // namespace smelt::profile
