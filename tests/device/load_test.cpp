#include "device/cpu/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <thread>

#include "base/threads.h"
#include "device/cpu/ceilings.h"

namespace smelt::device::cpu {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// A made-up procfs and control groups.
class MadeUp : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("smelt_load_" + std::to_string(getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path proc() const { return root_ / "proc"; }
  fs::path groups() const { return root_ / "cgroup"; }
  fs::path root_;
};

TEST_F(MadeUp, adds_up_what_the_threads_waited) {
  write(proc() / "self/task/11/schedstat", "900 50000 3\n");
  LoadMeter meter(proc(), groups());
  write(proc() / "self/task/12/schedstat", "100 7000 1\n");
  EXPECT_TRUE(meter.counts_waiting());
  EXPECT_EQ(meter.brief().waited_ns, 50'000) << "the other thread was started since";
  meter.find_threads();
  EXPECT_EQ(meter.brief().waited_ns, 57'000);
  write(proc() / "self/task/12/schedstat", "200 307000 2\n");
  EXPECT_EQ((meter.brief()).waited_ns, 357'000);
}

TEST_F(MadeUp, finds_stolen_time_of_its_own_processors_and_what_quotas_throttled) {
  std::string stat = "cpu 1 1 1 1 1 1 1 999999 0 0\n";
  cpu_set_t ours;
  CPU_ZERO(&ours);
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  int count = 0;
  for (int cpu = 0; cpu < 1024; ++cpu) {
    stat += "cpu" + std::to_string(cpu) + " 1 1 1 1 1 1 1 " + (CPU_ISSET(cpu, &ours) ? "3" : "77") + " 0 0\n";
    count += CPU_ISSET(cpu, &ours) ? 1 : 0;
  }
  write(proc() / "stat", stat + "intr 5\n");
  write(proc() / "self/cgroup", "4:cpu,cpuacct:/box/a\n0::/slice\n");
  write(groups() / "cpu,cpuacct/box/a/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 5000\n");
  write(groups() / "slice/cpu.stat", "usage_usec 100\nthrottled_usec 7\n");
  LoadMeter meter(proc(), groups());
  EXPECT_FALSE(meter.counts_waiting()) << "there is no schedstat";
  const Interruptions i = meter.full();
  EXPECT_EQ(i.stolen_ns, count * 3 * (1'000'000'000 / sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(i.throttled_ns, 12'000);
}

TEST_F(MadeUp, says_nothing_where_the_kernel_says_nothing) {
  LoadMeter meter(proc(), groups());
  const Interruptions i = meter.full();
  EXPECT_EQ(i.waited_ns, 0);
  EXPECT_EQ(i.stolen_ns, 0);
  EXPECT_EQ(i.throttled_ns, 0);
}

TEST(Disturbed, takes_more_than_the_housekeeping_of_a_quiet_machine) {
  EXPECT_FALSE(disturbed({.waited_ns = 90'000}, 50));
  EXPECT_TRUE(disturbed({.waited_ns = 110'000}, 50));
  EXPECT_FALSE(disturbed({.waited_ns = 400'000}, 10'000));
  EXPECT_TRUE(disturbed({.waited_ns = 600'000}, 10'000));
  EXPECT_TRUE(disturbed({.stolen_ns = 10'000'000}, 50'000));
  EXPECT_FALSE(disturbed({.stolen_ns = 10'000'000}, 500'000));
  EXPECT_TRUE(disturbed({.throttled_ns = 10'000'000}, 50'000));
}

TEST(Disturbed, takes_a_preemption_of_a_short_span_or_where_nothing_else_tells) {
  EXPECT_TRUE(disturbed({.preempted = 1}, 50));
  EXPECT_FALSE(disturbed({.preempted = 1}, 5000));
  EXPECT_TRUE(disturbed({.preempted = 1}, 5000, false));
}

TEST(Load, is_noticed_where_more_threads_spin_than_there_are_cores) {
  LoadMeter probe;
  if (!probe.counts_waiting()) GTEST_SKIP() << "this kernel does not count how long threads wait";
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2 * threads::usable_cores(); ++i)
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  const bool free = cores_are_free(probe, 60);
  stop = true;
  for (std::thread& t : busy) t.join();
  EXPECT_FALSE(free);
}

TEST(Load, accounts_for_the_calling_thread) {
  LoadMeter meter;
  if (!meter.counts_waiting()) GTEST_SKIP() << "no threads are listed";
  using Clock = std::chrono::steady_clock;
  const auto ns_since = [](Clock::time_point t) { return std::chrono::duration<double, std::nano>(Clock::now() - t).count(); };
  // A hypervisor that steals makes some spans look shorter, none longer.
  double most = 0;
  for (int i = 0; i < 20; ++i) {
    const auto outer = Clock::now();
    const CallerTime before = meter.caller();
    const auto inner = Clock::now();
    double least_ns = 0;
    while (least_ns < 1e6) least_ns = ns_since(inner);
    const CallerTime after = meter.caller();
    EXPECT_EQ(after.slept, before.slept);
    const auto account = static_cast<double>(after.ran_ns - before.ran_ns + after.waited_ns - before.waited_ns);
    EXPECT_LE(account, 1.05 * ns_since(outer) + 2e4);
    most = std::max(most, account / least_ns);
  }
  EXPECT_GE(most, 0.95);
  const int64_t slept = meter.caller().slept;
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  EXPECT_GT(meter.caller().slept, slept);
}

TEST(Load, tells_how_long_each_thread_had_a_core) {
  LoadMeter meter;
  if (!meter.counts_waiting()) GTEST_SKIP() << "no threads are listed";
  const auto most = [&](const std::function<void()>& f) {
    std::vector<int64_t> before, after;
    meter.ran(before);
    f();
    meter.ran(after);
    int64_t ns = 0;
    for (size_t i = 0; i < before.size(); ++i) ns = std::max(ns, after[i] - before[i]);
    return 1e-6 * static_cast<double>(ns);
  };
  const auto processor_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
  };
  // To this moment, not to a tick of the scheduler.
  double ran = 0;
  const double took = most([&] {
    for (const double begin = processor_ms(); ran < 1.5; ran = processor_ms() - begin) {
    }
  });
  EXPECT_NEAR(took, ran, 0.3);
  EXPECT_LT(most([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }), 5);
}

TEST(GatherTeam, has_every_thread_running_at_once) {
  const threads::Scope scope(2);
  EXPECT_TRUE(gather_team(5000));
}

/// Threads that never come.
struct NoThreads : ThreadPool {
  int threads() const override { return 3; }
  void schedule(std::function<void()>) override {}
};

TEST(GatherTeam, gives_up_on_threads_that_never_come) {
  const threads::Scope scope(threads::Team{3, threads::pool_on(std::make_shared<NoThreads>())});
  EXPECT_FALSE(gather_team(2));
}

TEST(BestOf, takes_the_higher_of_each_ceiling) {
  Ceilings a{.threads = 2, .read_bytes_per_s = 5, .copy_bytes_per_s = 2, .launch_us = 3, .under_load = true}, b = a;
  a.rates = {{DType::f32, 10, "loop"}};
  b.rates = {{DType::f32, 8, "product"}, {DType::bf16, 20, "product"}};
  b.read_bytes_per_s = 4, b.copy_bytes_per_s = 9, b.launch_us = 1;
  const Ceilings both = best_of(a, b);
  EXPECT_EQ(both.read_bytes_per_s, 5);
  EXPECT_EQ(both.copy_bytes_per_s, 9);
  EXPECT_EQ(both.launch_us, 1);
  ASSERT_EQ(both.rates.size(), 2u);
  EXPECT_EQ(both.rates[0].flops_per_s, 10);
  EXPECT_EQ(both.rates[0].how, "loop");
  EXPECT_TRUE(both.under_load);
  b.under_load = false;
  EXPECT_FALSE(best_of(a, b).under_load);
}

}  // namespace
}  // namespace smelt::device::cpu
