#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// A thread for each task, and a count of them.
class CountedPool final : public ThreadPool {
 public:
  explicit CountedPool(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void schedule(std::function<void()> task) override {
    ++asked;
    const std::lock_guard lock(mutex_);
    running_.emplace_back(std::move(task));
  }
  std::atomic<int> asked{0};

 private:
  int threads_;
  std::mutex mutex_;
  std::vector<std::jthread> running_;
};

/// Never does anything.
class AbsentPool final : public ThreadPool {
 public:
  int threads() const override { return 3; }
  void schedule(std::function<void()>) override { ++asked; }
  std::atomic<int> asked{0};
};

Options on(std::shared_ptr<ThreadPool> pool, int threads = 0) {
  Options options = quick();
  options.pool = std::move(pool);
  options.threads = threads;
  return options;
}

void check(Session& session, const Graph& g) {
  const Tensor x = random_tensor({64, 300, 4}, 5);  // large enough to be shared
  expect_same(session.run({{"x", x}}).at("y_out"), ops::evaluate(g, std::vector{x})[0], 1e-5);
}

TEST(SessionThreads, runs_on_the_callers_pool) {
  const Graph g = symbolic_graph();
  const auto pool = std::make_shared<CountedPool>(2);
  Session session(Plan::build(clone(g), on(pool)));
  check(session, g);
  EXPECT_GT(pool->asked, 0);
  EXPECT_NE(session.plan()->device().find("3 threads"), std::string::npos) << session.plan()->device();
}

TEST(SessionThreads, finishes_when_the_callers_pool_does_nothing) {
  const Graph g = symbolic_graph();
  const auto pool = std::make_shared<AbsentPool>();
  Session session(Plan::build(clone(g), on(pool)));
  check(session, g);
  EXPECT_GT(pool->asked, 0);
}

TEST(SessionThreads, one_thread_asks_the_pool_for_nothing) {
  const Graph g = symbolic_graph();
  const auto pool = std::make_shared<AbsentPool>();
  Session session(Plan::build(clone(g), on(pool, 1)));
  check(session, g);
  EXPECT_EQ(pool->asked, 0);
}

TEST(SessionThreads, more_threads_than_the_pool_has_are_refused) {
  try {
    Plan::build(symbolic_graph(), on(std::make_shared<CountedPool>(2), 4));
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "4 threads: the pool given has 2, and with the calling thread that is 3");
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

TEST(SessionThreads, sessions_that_do_not_spin_compute_the_same) {
  const Graph g = symbolic_graph();
  Options options = quick();
  options.threads = 3;
  options.spin = false;
  Session session(Plan::build(clone(g), options));
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i) callers.emplace_back([&] { check(session, g); });
}

}  // namespace
}  // namespace smelt::run
