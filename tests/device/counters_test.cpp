// Samples of counters over time, by the system's own events, which machines without hardware counters have too.
#include "device/cpu/counters.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <chrono>
#include <thread>

#include "base/error.h"

namespace smelt::device::cpu {
namespace {

using Clock = std::chrono::steady_clock;

SampledEvents system_events() {
  const auto software = [](uint64_t config) { return CountedEvent{PERF_TYPE_SOFTWARE, config}; };
  constexpr uint64_t a_millisecond = 1'000'000;
  return {{software(PERF_COUNT_SW_CPU_CLOCK), software(PERF_COUNT_SW_PAGE_FAULTS), software(PERF_COUNT_SW_CONTEXT_SWITCHES)},
          a_millisecond};
}

TEST(CounterSampler, samples_a_busy_thread_on_the_clock_of_steps) {
  std::unique_ptr<CounterSampler> sampler;
  try {
    sampler = std::make_unique<CounterSampler>(system_events());
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const auto now = [] { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); };
  const int64_t begin = now();
  sampler->start();
  while (now() - begin < 300'000'000) {
  }
  const auto threads = sampler->stop();
  const int64_t end = now();
  size_t samples = 0;
  for (const auto& list : threads)
    for (size_t i = 0; i < list.size(); ++i, ++samples) {
      EXPECT_TRUE(list[i].at_ns >= begin && list[i].at_ns <= end);
      if (i > 0) {
        EXPECT_TRUE(list[i].at_ns > list[i - 1].at_ns && list[i].counts[0] > list[i - 1].counts[0]);
      }
    }
  EXPECT_GT(samples, 3u) << "it ran for a good part of 300 ms";
}

TEST(CounterSampler, says_why_hardware_is_not_counted) {
  const std::string why = counters_missing();
  if (why.empty()) {
    EXPECT_NO_THROW(CounterSampler());
    return;
  }
  try {
    const CounterSampler sampler;
    FAIL() << "counts what is missing";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::unsupported);
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos);
  }
}

}  // namespace
}  // namespace smelt::device::cpu
