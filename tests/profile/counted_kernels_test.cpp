// Which steps of a GPU's plan are counted, what their counters make of their limits, and what Nsight Compute prints.
#include "profile/counted_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/errors.h"

namespace smelt::profile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StepRow row(const char* name, const char* problem, double us) {
  StepRow r;
  r.step.name = name, r.step.op = "Conv", r.step.problem = problem, r.step.tactic = "cuda";
  r.us.median = us;
  return r;
}

TEST(StepsToCount, are_one_of_each_kind_those_that_take_longest_first) {
  const std::vector<StepRow> rows{row("a", "p", 5), row("b", "q", 7), row("c", "p", 5), row("d", "", 1), row("e", "", 1)};
  const std::vector<size_t> kernels{1, 2, 1, 1, 0};
  EXPECT_THAT(steps_to_count(rows, kernels, 100), ElementsAre(0, 1, 3)) << "c is a's kind, e has no kernel";
  EXPECT_THAT(steps_to_count(rows, kernels, 1), ElementsAre(0)) << "two of p take longer than q";
  EXPECT_THAT(steps_to_count(rows, kernels, 2), ElementsAre(0, 3)) << "q's two have no room beside p's";
}

TEST(Refine, takes_the_kernel_that_takes_longest) {
  StepRow r = row("a", "p", 5);
  refine(r, {}, 2);
  EXPECT_EQ(r.limiter, Limiter::unknown);
  const std::vector<Counted> kernels{{.us = 3, .compute = 0.9}, {.us = 30, .compute = 0.1, .dram = 0.8}};
  refine(r, kernels, 2);
  EXPECT_EQ(r.limiter, Limiter::memory);
  EXPECT_EQ(r.because, "memory 80% busy; the longest of 2 kernels");
  ASSERT_TRUE(r.counted);
  EXPECT_EQ(r.counted->us, 30);
}

constexpr const char* printed = R"csv(==PROF== Connected to process 77 (smelt)
==PROF== Profiling "conv" - 0: 0%....50%....100% - 12 passes
"ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum","no.such"
"","","","byte","ns",""
"0","77","conv<float, 4>","1,048,576","12,345.5","n/a"
"1","77","void k(int, float)","64","800",""
)csv";

TEST(NsightCompute, table_is_read_by_the_names_of_its_columns) {
  const auto values = read_nsight_compute(printed, {"gpu__time_duration.sum", "dram__bytes.sum", "no.such", "absent"});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_DOUBLE_EQ(values[0][0], 12345.5);
  EXPECT_DOUBLE_EQ(values[0][1], 1048576);
  EXPECT_TRUE(std::isnan(values[0][2]) && std::isnan(values[0][3]));
  EXPECT_DOUBLE_EQ(values[1][0], 800);
}

TEST(NsightCompute, own_words_say_why_there_is_no_table) {
  const auto refused =
      error_from([] { read_nsight_compute("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", {"a"}); });
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->what(), HasSubstr("ERR_NVGPUCTRPERM"));
  EXPECT_TRUE(error_from([] { read_nsight_compute("", {"a"}); }));
}

}  // namespace
}  // namespace smelt::profile
