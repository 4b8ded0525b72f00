// Limiters by what counters say.
#include "profile/counted.h"

#include <gtest/gtest.h>

#include <limits>

#include "device/cuda/abi/cupti_profiler.h"
#include "device/cuda/library.h"

namespace smelt::profile {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

TEST(Counted, reads_values_in_the_order_of_its_metrics) {
  std::vector<double> v(counted_metrics().size(), 0.0);
  v[0] = 5000, v[1] = 80, v[2] = 10, v[5] = 60, v[8] = 4, v[9] = 1, v[11] = 3, v.back() = 1 << 20;
  const Counted c = counted(v);
  EXPECT_DOUBLE_EQ(c.us, 5);
  EXPECT_DOUBLE_EQ(c.compute, 0.8);
  EXPECT_DOUBLE_EQ(c.threads, 4);
  ASSERT_EQ(c.stalls.size(), 2u);
  EXPECT_TRUE(c.stalls[0].first.starts_with("fixed wait")) << c.stalls[0].first;
  EXPECT_DOUBLE_EQ(c.dram_bytes, 1 << 20);
}

TEST(Counted, adds_up_bytes_where_the_gpu_counts_their_parts) {
  std::vector<double> v(counted_metrics().size(), 0.0);
  const size_t n = v.size();
  v[n - 1] = v[n - 5] = none, v[n - 2] = 100, v[n - 3] = 50, v[n - 4] = 10;
  EXPECT_DOUBLE_EQ(counted(v).dram_bytes, 150);
  EXPECT_DOUBLE_EQ(counted(v).l2_bytes, 320) << "sectors of 32 bytes";
}

TEST(Counted, names_the_unit_that_is_busiest) {
  EXPECT_EQ(limiter_of({.us = 100, .compute = 0.8, .dram = 0.2}, 2), Limiter::compute);
  EXPECT_EQ(limiter_of({.us = 100, .compute = 0.4, .dram = 0.9}, 2), Limiter::memory);
  EXPECT_EQ(limiter_of({.us = 100, .compute = 0.1, .dram = 0.1, .l2 = 0.7}, 2), Limiter::memory)
      << "a cache's bandwidth is memory's";
  EXPECT_EQ(limiter_of({.us = 100, .compute = 0.02, .dram = 0.01}, 2), Limiter::latency);
  EXPECT_EQ(limiter_of({.us = 1.8, .compute = 0.02, .dram = 0.01}, 2), Limiter::launch);
  EXPECT_EQ(limiter_of({.us = 3, .compute = 0.6, .dram = 0.1}, 2), Limiter::compute) << "short, and busy all the same";
}

TEST(Counted, passes_over_what_the_gpu_does_not_say) {
  EXPECT_EQ(limiter_of({.us = 100, .compute = 0.8, .dram = none, .l2 = none, .l1 = none}, 2), Limiter::compute);
  EXPECT_EQ(limiter_of({.us = 100, .compute = none, .dram = none, .l2 = none, .l1 = none}, 2), Limiter::latency);
}

TEST(Counted, says_that_branches_diverge) {
  const Counted c{.us = 100, .compute = 0.8, .issue = 0.75, .threads = 3.1};
  EXPECT_EQ(because(c, Limiter::compute),
            "its busiest unit 80% busy, issue slots 75%; 3.1 of 32 threads an instruction: its branches diverge");
  EXPECT_EQ(because({.us = 100, .compute = 0.8, .issue = 0.75, .threads = 31}, Limiter::compute),
            "its busiest unit 80% busy, issue slots 75%");
}

/// CUPTI knows chips that are not there.
TEST(CountedMetrics, are_known_to_cupti_for_every_chip) {
  namespace abi = device::cuda::abi;
  const device::cuda::Library cupti("CUPTI", {"libcupti.so.13", "libcupti.so.12"}, "");
  const auto begin = reinterpret_cast<abi::CuptiResult (*)(abi::HostInitialize*)>(cupti.find("cuptiProfilerHostInitialize"));
  const auto add = reinterpret_cast<abi::CuptiResult (*)(abi::AddMetrics*)>(cupti.find("cuptiProfilerHostConfigAddMetrics"));
  const auto end = reinterpret_cast<abi::CuptiResult (*)(abi::HostEnd*)>(cupti.find("cuptiProfilerHostDeinitialize"));
  if (!begin || !add || !end) GTEST_SKIP() << cupti.missing();
  const auto knows = [&](const char* chip, const std::string& metric) {
    abi::HostInitialize h;
    h.size = abi::HostInitialize::bytes_used(), h.chip = chip;
    EXPECT_EQ(begin(&h), abi::cupti_success) << chip;
    const char* const name = metric.c_str();
    abi::AddMetrics a;
    a.size = abi::AddMetrics::bytes_used(), a.host = h.host, a.names = const_cast<const char**>(&name), a.count = 1;
    const bool known = add(&a) == abi::cupti_success;
    abi::HostEnd e;
    e.size = abi::HostEnd::bytes_used(), e.host = h.host;
    end(&e);
    return known;
  };
  for (const char* chip : {"TU102", "GA100", "GA102", "AD102", "GH100"})
    for (const std::string& metric : counted_metrics()) {
      const bool hoppers = metric.find("gmma") != std::string::npos;  // only Hopper has such products
      EXPECT_EQ(knows(chip, metric), !hoppers || std::string(chip) == "GH100") << chip << ": " << metric;
    }
}

}  // namespace
}  // namespace smelt::profile
