#include "base/stop.h"

#include <gtest/gtest.h>

#include <thread>

#include "smelt/error.h"

namespace smelt {
namespace {

/// The message that ends a loop of check_stop(); empty where none does within 10 s.
std::string stopped_by() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  try {
    while (std::chrono::steady_clock::now() < end) check_stop();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::stopped);
    return e.what();
  }
  return "";
}

TEST(Stop, nothing_stops_a_thread_that_nobody_asked) { EXPECT_NO_THROW(check_stop()); }

TEST(Stop, a_cancellation_by_another_thread_does) {
  std::atomic<bool> cancelled = false;
  const std::function<bool()> never;
  Stop stop(&cancelled, 0, never);
  const StopScope scope(stop);
  EXPECT_NO_THROW(check_stop());
  const std::jthread other([&] { cancelled = true; });
  EXPECT_EQ(stopped_by(), "cancelled");
}

TEST(Stop, a_time_limit_does_when_it_is_over) {
  const std::function<bool()> never;
  const auto begin = std::chrono::steady_clock::now();
  Stop stop(nullptr, 0.05, never);
  const StopScope scope(stop);
  EXPECT_NE(stopped_by().find("0.05 s"), std::string::npos);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
}

TEST(Stop, the_callers_question_does) {
  const std::function<bool()> yes = [] { return true; };
  Stop stop(nullptr, 0, yes);
  const StopScope scope(stop);
  EXPECT_EQ(stopped_by(), "stopped");
}

TEST(Stop, the_outer_of_two_does_too_and_only_on_its_thread) {
  std::atomic<bool> cancelled = true;
  const std::function<bool()> never;
  {
    Stop outer(&cancelled, 0, never);
    const StopScope around(outer);
    Stop inner(nullptr, 0, never);
    const StopScope scope(inner);
    EXPECT_THROW(check_stop(), Error);
    const std::jthread other([] { EXPECT_NO_THROW(check_stop()); });
  }
  EXPECT_NO_THROW(check_stop());
}

}  // namespace
}  // namespace smelt
