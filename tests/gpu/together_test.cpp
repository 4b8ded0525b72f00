// Plans on streams of one process: what they compute there, and what is seen of them.
#include <cstring>

#include "device/cuda/stream_place.h"
#include "plans.h"
#include "profile/counted_kernels.h"
#include "profile/gpu_serving.h"
#include "run/single_steps.h"

namespace smelt::run {
namespace {

using device::cuda::Multiprocessors;
using device::cuda::StreamPlace;

std::vector<Tensor> results(Execution& e) {
  e.run();
  std::vector<Tensor> all;
  for (const Tensor& t : e.outputs()) all.push_back(to_host(t));
  return all;
}

void expect_same_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), static_cast<size_t>(a[i].nbytes())), 0) << "output " << i;
}

/// A plan without cuDNN, which cannot run on a part of the multiprocessors.
struct Bound {
  explicit Bound(int64_t rows) : plan(Plan::build(block(rows, 2048, 1), on_gpu())) {
    inputs = {plan->place(random_tensor({rows, 2048}, 2))};
  }
  std::unique_ptr<Execution> execution() const {
    auto e = plan->execution();
    e->bind(inputs);
    return e;
  }
  std::shared_ptr<const Plan> plan;
  std::vector<Tensor> inputs;
};

TEST(GpuTogether, plans_compute_the_same_wherever_their_streams_are) {
  const Bound b(1024);
  const auto usual = b.execution();
  const std::vector<Tensor> expected = results(*usual);
  for (const auto priority : {StreamPlace::Priority::first, StreamPlace::Priority::last}) {
    const StreamPlace place(priority);
    expect_same_bytes(results(*b.execution()), expected);
  }
}

TEST(GpuTogether, plans_compute_the_same_on_a_part_of_the_multiprocessors) {
  const Bound b(1024);
  const auto usual = b.execution();
  const std::vector<Tensor> expected = results(*usual);
  const auto device = device_of(*usual);
  const auto [mine, others] = Multiprocessors::split(device, 32);
  EXPECT_GE(mine->count(), 32);
  EXPECT_LE(mine->count() + others->count(), device->info().multiprocessors);
  const StreamPlace place(StreamPlace::Priority::usual, mine);
  const auto few = b.execution();
  expect_same_bytes(results(*few), expected);
  const double all_us = usual->run_timed(20), few_us = few->run_timed(20);
  fmt::print("on all {} multiprocessors {:.1f} us, on {} of them {:.1f} us\n", device->info().multiprocessors, all_us,
             mine->count(), few_us);
  EXPECT_GT(few_us, 1.1 * all_us) << "a quarter of the multiprocessors";
}

TEST(GpuTogether, steps_can_run_by_themselves_and_compute_the_same) {
  const Bound b(512);
  const auto e = b.execution();
  const std::vector<Tensor> expected = results(*e);
  EXPECT_EQ(no_single_steps(*e), "");
  std::vector<size_t> steps(e->steps().size());
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = i;
  run_steps(*e, steps);
  std::vector<Tensor> after;
  for (const Tensor& t : e->outputs()) after.push_back(to_host(t));
  expect_same_bytes(after, expected);
  EXPECT_EQ(recorded_work(*e).size(), steps.size());
}

TEST(GpuTogether, each_models_runs_are_seen_among_all_work) {
  const Bound a(2048), b(256);
  const auto first = a.execution(), second = b.execution();
  profile::GpuServing serving({first.get(), second.get()});
  const std::vector<double> rates{0, 0};
  const auto [served, runs] = serving.traced(0.1, rates);
  ASSERT_EQ(runs.size(), 2u);
  for (size_t m = 0; m < 2; ++m) {
    EXPECT_EQ(runs[m].size(), served[m].response_us.size() + 1) << "one to warm up";
    ASSERT_FALSE(served[m].last.empty());
    for (const profile::ServedRun& r : served[m].last) {
      ASSERT_EQ(r.steps.size(), serving.models()[m].pieces.size());
      EXPECT_GE(r.steps.front().begin_ns, -20000) << "on the requests' clock";
      EXPECT_LE(r.begin_ns + r.steps.back().end_ns, r.end_ns + 20000);
    }
  }
}

TEST(GpuTogether, counters_name_the_limits_of_a_plans_steps) {
  const Bound b(4096);
  const auto e = b.execution();
  profile::Roof roof;
  roof.bytes_per_s = 2.5e12, roof.launch_us = 1;
  const profile::Profile p = profile::profile(*b.plan, *e, {.iterations = 3, .counters = {profile::by_cupti()}}, roof);
  if (!p.not_counted.empty()) GTEST_SKIP() << p.not_counted;
  EXPECT_EQ(p.limits_from, "counters (CUPTI)");
  for (const profile::StepRow& r : p.steps) {
    if (r.us.median < 1 || r.step.op == "Concat") continue;  // which is copies
    ASSERT_TRUE(r.counted) << r.step.name;
    fmt::print("{:12} {:7.1f} us, counted {:7.1f}: {} ({})\n", r.step.name, r.us.median, r.counted->us, name(r.limiter),
               r.because);
    EXPECT_LT(r.counted->us, 3 * r.us.median + 10) << r.step.name;
  }
  e->run();
}

}  // namespace
}  // namespace smelt::run
