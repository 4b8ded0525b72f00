#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <deque>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace smelt::threads {
namespace {

using std::chrono::milliseconds;

template <class F> void each(int threads, int64_t pieces, F f) {
  run(
      threads, pieces, [](void* data, int64_t i, int thread) { (*static_cast<F*>(data))(i, thread); }, &f);
}

/// Waits until it holds, at most ten seconds.
template <class F> bool in_time(F holds) {
  for (int i = 0; i < 10000; ++i, std::this_thread::sleep_for(milliseconds(1)))
    if (holds()) return true;
  return false;
}

/// Every piece runs once, and no thread's number is used by two pieces at a time.
void check_regions(int threads, int64_t pieces, int regions) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(pieces)), busy(static_cast<size_t>(threads));
  std::atomic<bool> shared{false};
  for (int r = 0; r < regions; ++r) {
    each(threads, pieces, [&](int64_t i, int thread) {
      if (busy[static_cast<size_t>(thread)].fetch_add(1) != 0) shared = true;
      seen[static_cast<size_t>(i)]++;
      busy[static_cast<size_t>(thread)]--;
    });
    for (auto& s : seen) ASSERT_EQ(s.exchange(0), 1);
  }
  EXPECT_FALSE(shared);
}

TEST(Threads, runs_every_piece_once) {
  for (int threads : {1, 2, 3, 7})
    for (int64_t pieces : {0, 1, 2, 5, 100}) check_regions(threads, pieces, 200);
}

TEST(Threads, regions_of_several_callers_share_the_helpers) {
  std::vector<std::jthread> callers;
  for (int c = 0; c < 4; ++c) callers.emplace_back([c] { check_regions(2 + c, 20, 500); });
}

TEST(Threads, helpers_that_sleep_are_woken) {
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(5));  // longer than they spin
    std::atomic<int> there{0};
    // A piece each, which ends only when all have begun.
    each(3, 3, [&](int64_t, int) {
      there++;
      EXPECT_TRUE(in_time([&] { return there == 3; }));
    });
  }
}

TEST(Threads, a_region_inside_a_region_has_one_thread) {
  std::atomic<int> pieces{0}, others{0};
  each(2, 4, [&](int64_t, int) {
    EXPECT_TRUE(in_region());
    EXPECT_EQ(team_threads(), 1);
    const auto self = std::this_thread::get_id();
    each(2, 3, [&](int64_t, int thread) {
      pieces++;
      if (thread != 0 || std::this_thread::get_id() != self) others++;
    });
  });
  EXPECT_FALSE(in_region());
  EXPECT_EQ(pieces, 12);
  EXPECT_EQ(others, 0);
}

TEST(Threads, a_scope_ends_with_what_was_before) {
  const int before = team_threads();
  {
    const Scope scope(before + 2);
    EXPECT_EQ(team_threads(), before + 2);
    {
      const Scope inner(Team{.threads = 5, .spin = false});
      EXPECT_EQ(team_threads(), 5);
      EXPECT_FALSE(team().spin);
    }
    EXPECT_EQ(team_threads(), before + 2);
    EXPECT_TRUE(team().spin);
    std::jthread([&] { EXPECT_EQ(team_threads(), usable_cores()); });
  }
  EXPECT_EQ(team_threads(), before);
}

TEST(Threads, a_forked_process_has_helpers_of_its_own) {
  check_regions(3, 9, 10);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> there{0};
    each(3, 3, [&](int64_t, int) {
      there++;
      in_time([&] { return there == 3; });
    });
    _exit(there == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Threads that keep what they are asked to do until they are told.
class HeldPool final : public ThreadPool {
 public:
  int threads() const override { return 2; }
  void schedule(std::function<void()> task) override {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  size_t run_all() {
    std::deque<std::function<void()>> tasks;
    {
      std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (auto& task : tasks) task();
    return tasks.size();
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
};

TEST(Threads, the_caller_does_what_no_helper_begins) {
  const auto held = std::make_shared<HeldPool>();
  const Scope scope(Team{.threads = 3, .pool = pool_on(held)});
  std::set<int64_t> done;
  each(3, 30, [&](int64_t i, int thread) {
    EXPECT_EQ(thread, 0);
    done.insert(i);
  });
  EXPECT_EQ(done.size(), 30u);
  EXPECT_EQ(held->run_all(), 2u);  // too late: they find nothing
  EXPECT_EQ(done.size(), 30u);
}

TEST(Threads, tasks_that_come_late_do_not_keep_the_callers_pool) {
  static std::vector<std::function<void()>> tasks;
  struct Forgetful final : ThreadPool {
    int threads() const override { return 1; }
    void schedule(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  };
  auto pool = std::make_shared<Forgetful>();
  {
    const Scope scope(Team{.threads = 2, .pool = pool_on(pool)});
    check_regions(2, 8, 3);
  }
  const std::weak_ptr<Forgetful> kept = pool;
  pool.reset();
  EXPECT_TRUE(kept.expired());
  ASSERT_EQ(tasks.size(), 3u);
  for (auto& task : tasks) task();
  tasks.clear();
}

TEST(Threads, the_callers_pool_helps) {
  const auto held = std::make_shared<HeldPool>();
  const Scope scope(Team{.threads = 2, .pool = pool_on(held)});
  std::jthread helper;
  std::set<std::thread::id> seen;
  std::mutex mutex;
  each(2, 2, [&](int64_t i, int) {
    {
      std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    }
    if (i == 0) helper = std::jthread([&] { held->run_all(); });
    EXPECT_TRUE(in_time([&] {
      std::lock_guard lock(mutex);
      return seen.size() == 2;
    }));
  });
}

TEST(Threads, sleep_where_spinning_is_off) {
  const auto cpu = [] {
    rusage r;
    getrusage(RUSAGE_SELF, &r);
    return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
  };
  const Scope scope(Team{.threads = 2, .spin = false});
  const double before = cpu();
  for (int i = 0; i < 100; ++i) {
    each(2, 2, [](int64_t, int) {});
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_LT(cpu() - before, 0.06);  // spinning takes a millisecond a region and more
}

cpu_set_t processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

cpu_set_t only(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  return set;
}

void run_on(const cpu_set_t& set) { sched_setaffinity(0, sizeof set, &set); }

/// Calls f on the helpers of so many threads, while the caller has nothing else to do.
template <class F> void on_helpers(int threads, F f) {
  std::atomic<int> there{0};
  each(threads, threads, [&](int64_t, int thread) {
    there++;
    EXPECT_TRUE(in_time([&] { return there == threads; }));
    if (thread > 0) f(thread);
  });
}

/// Eight threads that never wait have one processor; the calling thread has another, its own.
struct Crowd {
  const cpu_set_t mine = processors();
  int crowded = -1, callers = -1;  // -1: there are no two
  std::atomic<bool> stop{false};
  std::vector<std::jthread> neighbours;

  Crowd() {
    if (CPU_COUNT(&mine) < 2) return;
    for (int p = 0; callers < 0; ++p)
      if (CPU_ISSET(static_cast<size_t>(p), &mine)) (crowded < 0 ? crowded : callers) = p;
    for (int i = 0; i < 8; ++i) {
      neighbours.emplace_back([this] {
        run_on(only(crowded));
        while (!stop) {
        }
      });
    }
    run_on(only(callers));
  }
  ~Crowd() {
    stop = true;
    run_on(mine);
  }
  /// Called by a helper: goes among the crowd, and works until it is brought to its caller's processor, at most ten seconds.
  bool is_brought() const {
    run_on(only(crowded));
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10); std::chrono::steady_clock::now() < end;)
      if (sched_getcpu() == callers) return true;
    return false;
  }
};

TEST(Threads, a_helper_that_lost_its_core_is_brought_to_its_callers) {
  const Crowd crowd;
  if (crowd.callers < 0) GTEST_SKIP() << "needs two processors";
  bool was_brought = false;
  on_helpers(2, [&](int) { was_brought = crowd.is_brought(); });
  // It is not kept there; while it sleeps in a piece it may be brought once more.
  EXPECT_TRUE(in_time([&] {
    cpu_set_t after = only(crowd.callers);
    on_helpers(2, [&](int) { after = processors(); });
    return CPU_ISSET(static_cast<size_t>(crowd.crowded), &after);
  }));
  on_helpers(2, [&](int) { run_on(crowd.mine); });
  EXPECT_TRUE(was_brought);
}

TEST(Threads, helpers_are_brought_one_at_a_time) {
  const Crowd crowd;
  if (crowd.callers < 0) GTEST_SKIP() << "needs two processors";
  constexpr int threads = 4;
  std::atomic<pid_t> inside[threads]{};
  std::atomic<bool> stop{false};
  int most = 0, brought = 0;
  const auto is_brought = [&](pid_t helper) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return helper > 0 && sched_getaffinity(helper, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
           CPU_ISSET(static_cast<size_t>(crowd.callers), &set);
  };
  std::jthread watch([&] {
    run_on(crowd.mine);
    while (!stop) {
      std::vector<const std::atomic<pid_t>*> here;
      for (const auto& helper : inside)
        if (is_brought(helper)) here.push_back(&helper);
      // Those that are still there: the first may have left before the next came.
      most = std::max(most, static_cast<int>(std::ranges::count_if(here, [](const auto* helper) { return *helper > 0; })));
    }
  });
  std::mutex counting;
  on_helpers(threads, [&](int thread) {
    run_on(only(crowd.crowded));
    inside[thread] = static_cast<pid_t>(gettid());
    const bool was_brought = crowd.is_brought();
    for (const auto end = std::chrono::steady_clock::now() + milliseconds(20); std::chrono::steady_clock::now() < end;) {
    }
    inside[thread] = 0;
    const std::lock_guard lock(counting);
    brought += was_brought ? 1 : 0;
  });
  on_helpers(threads, [&](int) { run_on(crowd.mine); });
  stop = true;
  watch.join();
  EXPECT_EQ(brought, threads - 1);
  EXPECT_LE(most, 1);
}

/// Calls f in a piece of the calling thread, which has gone among the crowd and may run on `allowed`. Its helper has the other processor
/// and nothing to do. What the thread may run on after the region.
template <class F> cpu_set_t in_a_piece_among(const Crowd& crowd, const cpu_set_t& allowed, F f) {
  const pid_t caller = gettid();
  std::atomic<bool> there{false};
  on_helpers(2, [&](int) { run_on(only(crowd.callers)); });
  run_on(allowed);
  each(2, 2, [&](int64_t piece, int thread) {
    if (piece == 1 && thread == 1) {
      const cpu_set_t among = only(crowd.crowded);
      sched_setaffinity(caller, sizeof among, &among);
      sched_setaffinity(caller, sizeof allowed, &allowed);  // which does not move it
      there = true;
    }
    if (piece == 0 && thread == 0 && in_time([&] { return there.load(); })) f();
  });
  const cpu_set_t after = processors();
  run_on(only(crowd.callers));
  on_helpers(2, [&](int) { run_on(crowd.mine); });
  return after;
}

/// Whether it holds at some time of these milliseconds, which the thread works.
template <class F> bool holds_within(milliseconds time, F holds) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
    if (holds()) return true;
  return false;
}

TEST(Threads, a_caller_that_lost_its_core_is_brought_to_its_helpers) {
  const Crowd crowd;
  if (crowd.callers < 0) GTEST_SKIP() << "needs two processors";
  const cpu_set_t there = only(crowd.callers);
  const auto is_brought_and_free_again = [&] {
    bool was_brought = false;
    const cpu_set_t after = in_a_piece_among(crowd, crowd.mine, [&] {
      was_brought = holds_within(milliseconds(100), [&] {
        const cpu_set_t now = processors();  // of a thread that the system moved: both
        return CPU_EQUAL(&now, &there);
      });
    });
    return was_brought && CPU_EQUAL(&after, &crowd.mine);
  };
  bool once = false;
  for (int tries = 0; !once && tries < 20; ++tries) once = is_brought_and_free_again();
  EXPECT_TRUE(once);
}

TEST(Threads, a_caller_is_not_brought_where_it_may_not_run) {
  const Crowd crowd;
  if (crowd.callers < 0) GTEST_SKIP() << "needs two processors";
  const cpu_set_t allowed = only(crowd.crowded);
  bool was_moved = false;
  for (int i = 0; i < 5; ++i) {
    const cpu_set_t after = in_a_piece_among(crowd, allowed, [&] {
      was_moved = was_moved || holds_within(milliseconds(20), [&] { return sched_getcpu() != crowd.crowded; });
    });
    EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
  }
  EXPECT_FALSE(was_moved);
}

struct Groups : testing::Test {
  std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "smelt_groups";
  void SetUp() override { std::filesystem::remove_all(root); }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
};

TEST_F(Groups, a_quota_is_rounded_up_to_cores) {
  write("app/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota_cores("0::/app\n", root), 2);
}

TEST_F(Groups, the_least_quota_of_the_groups_above_counts) {
  write("cpu.max", "400000 100000\n");
  write("a/cpu.max", "100000 100000\n");
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_cores("0::/a/b\n", root), 1);
  EXPECT_EQ(quota_cores("0::/\n", root), 4);
}

TEST_F(Groups, version_one_has_quota_and_period_in_two_files) {
  write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "300000\n");
  write("cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota_cores("5:cpu,cpuacct:/docker/x\n4:memory:/y\n", root), 3);
  write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota_cores("5:cpu,cpuacct:/docker/x\n", root), INT_MAX);
}

TEST_F(Groups, without_a_quota_there_is_no_limit) { EXPECT_EQ(quota_cores("0::/nowhere\n\nnonsense", root), INT_MAX); }

}  // namespace
}  // namespace smelt::threads
