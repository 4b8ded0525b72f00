// What processes take of the cores, from outside.
#include "device/cpu/processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace smelt::device::cpu {
namespace {

TEST(Processes, sees_itself_at_work) {
  const auto before = times_of(getpid());
  ASSERT_TRUE(before);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(60)) {
  }
  const auto after = times_of(getpid());
  EXPECT_GT(after->cpu_ns + after->waited_ns, before->cpu_ns + before->waited_ns + 20'000'000);
  EXPECT_GE(after->threads, 1);
  EXPECT_GT(after->resident, 1 << 20);
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  EXPECT_EQ(after->name, name);
  EXPECT_TRUE(all_process_times().contains(getpid()));
}

TEST(Processes, has_nothing_of_one_that_is_not_there) { EXPECT_FALSE(times_of(1 << 30)); }

TEST(Processes, reads_a_name_with_brackets_and_blanks) {
  const auto proc = std::filesystem::temp_directory_path() / ("proc_of_a_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(proc / "7" / "task" / "7");
  std::ofstream(proc / "7" / "stat") << "7 (a ) name) S 1 7 7 0 -1 4194304 10 0 0 0 250 50 0 0 20 0 3 0 100 1000000 25 0\n";
  std::ofstream(proc / "7" / "task" / "7" / "schedstat") << "1000 2000 3\n";
  const auto t = times_of(7, proc);
  std::filesystem::remove_all(proc);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->name, "a ) name");
  EXPECT_EQ(t->threads, 3);
  EXPECT_EQ(t->waited_ns, 2000);
  EXPECT_EQ(t->cpu_ns, 300 * (1'000'000'000 / sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(t->resident, 25 * sysconf(_SC_PAGESIZE));
}

TEST(Processes, lists_who_was_busiest_between_two_readings) {
  const std::map<int, ProcessTimes> before{{1, {"a", 0}}, {2, {"b", 1'000'000'000}}, {3, {"c", 0}}};
  const std::map<int, ProcessTimes> after{{1, {"a", 500'000'000}},
                                          {2, {"b", 3'000'000'000}},
                                          {3, {"c", 900'000'000}},
                                          {4, {"new", 100'000'000}},
                                          {5, {"idle", 1000}}};
  const auto list = busiest(before, after, 2, {3}, 2);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "b");
  EXPECT_DOUBLE_EQ(list[0].cores, 1);
  EXPECT_EQ(list[1].pid, 1);
}

}  // namespace
}  // namespace smelt::device::cpu
