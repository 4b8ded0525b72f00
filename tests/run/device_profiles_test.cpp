// What a profiled run on a device says of its copies, on a device that is made up.
#include <gmock/gmock.h>

#include "made_up_device.h"
#include "profile/profile.h"

namespace smelt::run {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Profiled {
  std::vector<StepTime> times;
  std::vector<CopyTime> copies;

  explicit Profiled(Execution& execution) { execution.run_profiled(times, &copies); }
  /// "x to device, 96 bytes".
  std::vector<std::string> said() const {
    constexpr const char* ways[] = {"to device", "to host", "on device", "elsewhere"};
    std::vector<std::string> all;
    for (const CopyTime& c : copies)
      all.push_back(fmt::format("{} {}, {} bytes", c.name, ways[static_cast<size_t>(c.way)], c.bytes));
    return all;
  }
};

/// A made-up device that sees what is copied.
Made seeing(Graph g) {
  Made m(std::move(g));
  m.device->traces = true;
  return m;
}

TEST(DeviceCopies, are_named_after_the_inputs_and_outputs_on_the_host) {
  Made m = seeing(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 3)});
  const Profiled run(*execution);
  EXPECT_THAT(run.said(), ElementsAre("x to device, 96 bytes", "y_out to host, 192 bytes", "sum_out to host, 96 bytes"));
  ASSERT_EQ(run.times.size(), execution->steps().size());
  EXPECT_LE(run.copies[0].end_ns, run.times.front().begin_ns);
  EXPECT_GE(run.copies[1].begin_ns, run.times.back().end_ns);
}

TEST(DeviceCopies, there_are_none_of_tensors_on_the_device) {
  Made m = seeing(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{m.place(random_tensor({4, 6}, 3))});
  const Profiled run(*execution);
  EXPECT_THAT(run.copies, IsEmpty()) << "those of the concatenation are a step";
  EXPECT_GT(run.times.back().end_ns, 0);
}

TEST(DeviceCopies, a_tensor_on_the_device_that_kernels_cannot_use_is_copied_there) {
  Made m = seeing(copying_graph());
  const Tensor larger = m.device->allocate(DType::f32, {25}, "");
  const Tensor x = Tensor::borrow(DType::f32, {4, 6}, static_cast<float*>(const_cast<void*>(larger.raw())) + 1);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});
  EXPECT_THAT(Profiled(*execution).said(), ElementsAre("x on device, 96 bytes"));
}

TEST(DeviceCopies, of_steps_on_the_host_and_what_they_made_have_names) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(1)});
  const ValueId once = b.node("once", "Unique", {x}, {Dim("k"), Dim(1)}, DType::f32, {{"axis", int64_t{0}}});
  b.output(b.node("doubled", "Add", {once, once}, {Dim("k"), Dim(1)}));
  Made m = seeing(std::move(b.g));
  const auto execution = m.plan->execution();
  execution->bind(std::vector{m.place(Tensor::of<float>({4, 1}, {1, 2, 1, 3}))});
  const Profiled run(*execution);
  EXPECT_THAT(run.said(), ElementsAre("once to host, 16 bytes", "once_out to device, 12 bytes"));
  EXPECT_EQ(run.times.size(), execution->steps().size());
}

TEST(DeviceCopies, of_counts_that_sizes_depend_on_have_a_name) {
  Made m = seeing(selecting_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{m.place(Tensor::of<float>({4}, {1, -1, 2, 3}))});
  EXPECT_THAT(Profiled(*execution).said(), ElementsAre("counts of results to host, 8 bytes"));
}

TEST(DeviceCopies, where_nobody_sees_them_there_are_none_to_tell) {
  Made m(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 3)});
  std::vector<StepTime> times;
  std::vector<CopyTime> copies{{.name = "of an earlier run"}};
  execution->run_profiled(times, &copies);
  EXPECT_THAT(copies, IsEmpty());
}

TEST(DeviceCopies, a_profile_times_them_in_runs_from_and_to_the_host) {
  Made m = seeing(copying_graph());
  const Tensor x = random_tensor({4, 6}, 3);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{m.place(x)});
  const profile::ProfileOptions options{.iterations = 4, .warmup = 1};
  profile::Profile p = profile::profile(*m.plan, *execution, options, {});
  EXPECT_THAT(p.copies, IsEmpty());
  const auto host = m.plan->execution();
  host->bind(std::vector{x});
  profile::profile_copies(p, *execution, *host, options);
  ASSERT_EQ(p.copies.size(), 3u);
  EXPECT_EQ(p.copies[0].name, "x");
  EXPECT_EQ(p.copies[0].way, CopyTime::Way::to_device);
  EXPECT_EQ(p.copies[0].bytes, 96);
  EXPECT_EQ(p.copies[0].us.count, 4);
  EXPECT_DOUBLE_EQ(p.copies[0].us.median, 1e-3) << "the made-up device's nanosecond";
  EXPECT_GE(p.host_latency_us.count, 25);
  EXPECT_GT(p.host_latency_us.median, 0);
  EXPECT_GT(p.device_latency_us, 0);
  EXPECT_EQ(p.host_run.steps.size(), p.steps.size());
  EXPECT_EQ(p.host_run.copies.size(), 3u);
}

TEST(DeviceCopies, a_plan_of_the_processor_has_none) {
  const auto plan = Plan::build(copying_graph(), quick());
  const Tensor x = random_tensor({4, 6}, 3);
  const auto execution = plan->execution();
  execution->bind(std::vector{x});
  profile::Profile p;
  profile::profile_copies(p, *execution, *execution, {});
  EXPECT_THAT(p.copies, IsEmpty());
  EXPECT_EQ(p.host_latency_us.count, 0);
}

}  // namespace
}  // namespace smelt::run
