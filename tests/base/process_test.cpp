// Programs that are run to their end.
#include "base/process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace smelt {
namespace {

TEST(Process, what_a_program_prints_comes_back) {
  const Finished f = run_program({"sh", "-c", "echo said; exit 3"}, -1, 60);
  EXPECT_TRUE(f.in_time);
  EXPECT_EQ(f.output, "said\n");
  EXPECT_EQ(WEXITSTATUS(f.status), 3);
}

TEST(Process, one_that_is_not_there_is_told_from_one_that_fails) {
  EXPECT_EQ(run_program({"no-program-of-this-name"}, -1, 60).not_started, ENOENT);
}

TEST(Process, one_that_waits_too_long_is_killed) {
  const Finished f = run_program({"sleep", "600"}, -1, 1);
  EXPECT_FALSE(f.in_time);
  EXPECT_EQ(WTERMSIG(f.status), SIGKILL);
}

TEST(Process, one_that_computes_for_too_long_is_killed) {
  const Finished f = run_program({"sh", "-c", "while :; do :; done"}, -1, 1);
  EXPECT_FALSE(f.in_time);
  EXPECT_TRUE(WIFSIGNALED(f.status) && WTERMSIG(f.status) == SIGKILL);
}

TEST(Process, time_without_a_core_does_not_count) {
  if (::access("/proc/self/schedstat", R_OK) != 0) GTEST_SKIP() << "the system does not say how long a process waited";
  using clock = std::chrono::steady_clock;
  cpu_set_t mine, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
  CPU_ZERO(&one);
  for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++c)
    if (CPU_ISSET(c, &mine)) CPU_SET(c, &one);
  const auto begin = clock::now();
  std::atomic<bool> taken{false};
  const auto take = [&] {  // the core, for longer than the limit
    ::sched_setaffinity(0, sizeof one, &one);
    ::setpriority(PRIO_PROCESS, 0, -10);  // where it may: a single wait is then longer than the limit
    taken = true;
    while (clock::now() < begin + std::chrono::seconds(3)) {
    }
  };
  std::thread others[] = {std::thread(take), std::thread(take)};
  Finished f;
  clock::duration took{};
  std::thread([&] {  // the program is of this thread's priority and core
    ::sched_setaffinity(0, sizeof one, &one);
    ::setpriority(PRIO_PROCESS, 0, 19);
    while (!taken) std::this_thread::yield();
    f = run_program({"sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"}, -1, 1);
    took = clock::now() - begin;
  })
      .join();
  for (std::thread& t : others) t.join();
  EXPECT_TRUE(f.in_time) << "it was killed after " << std::chrono::duration<double>(took).count() << " s";
  EXPECT_GT(took, std::chrono::seconds(1)) << "it had the core, so that this shows nothing";
}

}  // namespace
}  // namespace smelt
