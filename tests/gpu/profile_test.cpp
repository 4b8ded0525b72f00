// What a profiled run on GPU 0 says of its steps and copies; what is copied is tests/run/device_profiles_test.cpp's.
#include "plans.h"

namespace smelt::run {
namespace {

TEST(GpuProfile, sees_every_step_and_its_times_add_up) {
  const auto plan = Plan::build(block(4096, 2048, 1), on_gpu());
  const auto execution = plan->execution();
  execution->bind(std::vector{plan->place(random_tensor({4096, 2048}, 2))});
  execution->run();
  std::vector<StepTime> times;
  execution->run_profiled(times);
  ASSERT_EQ(times.size(), execution->steps().size());
  double sum = 0;
  int64_t end = 0;
  for (const StepTime& t : times) {
    EXPECT_GE(t.begin_ns, end);
    EXPECT_GE(t.end_ns, t.begin_ns);
    end = t.end_ns;
    sum += static_cast<double>(t.end_ns - t.begin_ns) * 1e-3;
  }
  const double whole = execution->run_timed(20);
  EXPECT_GT(sum, 0.5 * whole);
  EXPECT_LT(sum, 1.3 * whole);
}

std::vector<CopyTime> copies_of(const Plan& plan, const std::vector<Tensor>& inputs) {
  const auto execution = plan.execution();
  execution->bind(inputs);
  execution->run();
  std::vector<StepTime> times;
  std::vector<CopyTime> copies;
  execution->run_profiled(times, &copies);
  EXPECT_EQ(times.size(), execution->steps().size());
  return copies;
}

void expect_copy(const CopyTime& c, const std::string& name, CopyTime::Way way, int64_t bytes) {
  EXPECT_EQ(c.name, name);
  EXPECT_EQ(c.way, way) << name;
  EXPECT_EQ(c.bytes, bytes) << name;
  EXPECT_LT(c.begin_ns, c.end_ns) << name;
}

TEST(GpuProfile, sees_the_copies_of_tensors_on_the_host) {
  using Way = CopyTime::Way;
  constexpr int64_t rows = 1024, width = 2048, bytes = rows * width * 4;
  const auto plan = Plan::build(block(rows, width, 1), on_gpu());
  const Tensor x = random_tensor({rows, width}, 2);
  const std::vector<CopyTime> copies = copies_of(*plan, {x});
  ASSERT_EQ(copies.size(), 3u);
  expect_copy(copies[0], "x", Way::to_device, bytes);
  expect_copy(copies[1], "both_out", Way::to_host, 2 * bytes);
  expect_copy(copies[2], "turned_out", Way::to_host, bytes);
  for (const CopyTime& c : copies) {
    const double rate = static_cast<double>(c.bytes) / static_cast<double>(c.end_ns - c.begin_ns);  // GB/s
    EXPECT_GT(rate, 0.2) << c.name;
    EXPECT_LT(rate, 1000) << c.name;
  }
  EXPECT_TRUE(copies_of(*plan, {plan->place(x)}).empty());
  const Tensor larger = plan->place(random_tensor({rows * width + 1}, 3));
  float* const odd = static_cast<float*>(const_cast<void*>(larger.raw())) + 1;
  const std::vector<CopyTime> there = copies_of(*plan, {Tensor::borrow(DType::f32, {rows, width}, odd)});
  ASSERT_EQ(there.size(), 1u);
  expect_copy(there[0], "x", Way::on_device, bytes);
}

TEST(GpuProfile, sees_the_copies_of_counts_and_of_steps_on_the_host) {
  using Way = CopyTime::Way;
  Builder found;
  const ValueId x = found.input("x", to_sym({100, 3}));
  found.output(found.node("where", "NonZero", {x}, {Dim(2), Dim("k")}, DType::i64));
  auto plan = Plan::build(std::move(found.g), on_gpu());
  std::vector<CopyTime> copies = copies_of(*plan, {plan->place(random_tensor({100, 3}, 1))});
  ASSERT_EQ(copies.size(), 1u);
  expect_copy(copies[0], "counts of results", Way::to_host, 8);
  Builder rows;  // of slices along an axis there is no kernel
  const ValueId y = rows.input("y", to_sym({100, 3}));
  rows.output(rows.node("distinct", "Unique", {y}, {Dim("k"), Dim(3)}, DType::f32, {{"axis", int64_t{0}}}));
  plan = Plan::build(std::move(rows.g), on_gpu());
  copies = copies_of(*plan, {plan->place(random_tensor({100, 3}, 1))});
  ASSERT_FALSE(copies.empty());
  expect_copy(copies[0], "distinct", Way::to_host, 100 * 3 * 4);
}

}  // namespace
}  // namespace smelt::run
