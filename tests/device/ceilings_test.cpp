#include "device/cpu/ceilings.h"

#include <gtest/gtest.h>

namespace smelt::device::cpu {
namespace {

TEST(Ceilings, are_plausible_for_any_machine_that_runs_this) {
  std::vector<std::string> told;
  const Ceilings c = measure_ceilings(1, 0.4, [&](const std::string& what) { told.push_back(what); });
  EXPECT_EQ(c.threads, 1);
  EXPECT_GT(c.read_bytes_per_s, 5e8);
  EXPECT_LT(c.read_bytes_per_s, 2e12);
  EXPECT_GT(c.copy_bytes_per_s, 5e8);
  ASSERT_FALSE(c.rates.empty());
  EXPECT_EQ(c.rates.front().type, DType::f32);
  EXPECT_GT(c.rates.front().flops_per_s, 1e9);
  EXPECT_LT(c.rates.front().flops_per_s, 1e12);  // one core
  EXPECT_FALSE(told.empty());
}

TEST(Ceilings, a_product_does_not_exceed_the_multiply_add_loop_of_its_type) {
  const Ceilings c = measure_ceilings(1, 0.8);
  // The loop keeps every unit busy from registers: oneDNN's f32 product may reach it but not pass it, so the loop's row stays.
  EXPECT_NE(c.rates.front().how.find("loop"), std::string::npos) << c.rates.front().how;
}

}  // namespace
}  // namespace smelt::device::cpu
