// Plans for devices that are not here, and names of devices.
#include "base/error.h"
#include "device/cuda/compiler.h"
#include "made_up_device.h"
#include "ops/cuda/asked_tactics.h"
#include "ops/cuda/gpu.h"
#include "run/platform.h"

namespace smelt::run {
namespace {

TEST(Device, a_plan_for_a_gpu_that_is_not_here_is_made_but_not_run) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 6}));
  b.output(b.node("y", "Sigmoid", {x}, to_sym({4, 6})));
  Options o = quick();
  o.arch = "sm_87";
  const auto plan = Plan::build(std::move(b.g), o);
  const auto execution = plan->execution();
  try {
    execution->bind(std::vector{random_tensor({4, 6}, 1)});
    FAIL() << "it was bound";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("sm_87"), std::string::npos) << e.what();
  }
  o.arch = "sm_12";
  EXPECT_THROW(Plan::build(copying_graph(), o), Error);
}

TEST(Device, products_of_two_computed_8_bit_operands_have_kernels_for_a_gpu) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Builder b;
  const SymShape rows = to_sym({2, 19, 40}), turned = to_sym({2, 40, 19}), square = to_sym({2, 19, 19});
  const ValueId x = b.input("x", rows, DType::u8), s = b.scalar(0.1), z = b.constant("z", Tensor::scalar<uint8_t>(9));
  const ValueId d = b.node("d", "DequantizeLinear", {x, s, z}, rows);
  const ValueId t = b.node("t", "Transpose", {d}, turned, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const ValueId tq = b.node("tq", "QuantizeLinear", {t, s, z}, turned, DType::u8);
  const ValueId td = b.node("td", "DequantizeLinear", {tq, s, z}, turned);
  b.output(b.node("q", "QuantizeLinear", {b.node("product", "MatMul", {d, td}, square), s, z}, square, DType::u8));
  Options o = quick();
  o.arch = "sm_90a";
  EXPECT_NO_THROW(Plan::build(std::move(b.g), o));
}

TEST(Device, engines_whose_results_differ_from_run_to_run_are_let_in_by_their_own_name) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Options o = quick();
  o.arch = "sm_90a";
  for (const auto& [tactics, asked] : {std::pair{"", false},
                                       {"+all", false},
                                       {"+nondeterministic", true},
                                       {"+nondeterministic,-cuda", true},
                                       {"+nondeterministic,-nondeterministic", false}}) {
    o.tactics = tactics;
    EXPECT_EQ(platform_for(o, {}).context->tuner.machine().gpu->nondeterministic, asked) << tactics;
  }
}

TEST(Device, convolutions_in_cute_are_let_in_by_their_own_name) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Options o = quick();
  o.arch = "sm_90a";
  for (const auto& [tactics, asked] : {std::pair{"", false}, {"+all", false}, {"+cute", true}, {"+cute,-cute", false}}) {
    o.tactics = tactics;
    EXPECT_EQ(platform_for(o, {}).context->tuner.machine().gpu->caches->get<ops::AskedTactics>().cute, asked) << tactics;
  }
}

TEST(Device, names_of_devices_are_checked) {
  Options o = quick();
  for (const char* device : {"gpu0", "-1", "", "cuda:x", "1x"}) {
    o.device = device;
    EXPECT_THROW(Plan::build(copying_graph(), o), Error) << device;
  }
}

}  // namespace
}  // namespace smelt::run
