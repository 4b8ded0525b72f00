#include "device/cpu/onednn_threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>
#include <vector>

#include "base/threads.h"

namespace smelt::device {
namespace {

/// Counts what it is asked for, and never does it.
class AbsentPool final : public ThreadPool {
 public:
  int threads() const override { return 2; }
  void schedule(std::function<void()>) override { ++asked; }
  std::atomic<int> asked{0};
};

struct Product {
  int64_t n;
  std::vector<float> a, b, y;
  explicit Product(int64_t size) : n(size), a(static_cast<size_t>(n * n)), b(a.size()), y(a.size()) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3, b[i] = static_cast<float>(i % 5) - 2;
  }
  void run() {
    onednn_uses_team();
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const dnnl::memory::desc desc({n, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    const dnnl::matmul product(dnnl::matmul::primitive_desc(engine, desc, desc, desc));
    product.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(desc, engine, a.data())},
                             {DNNL_ARG_WEIGHTS, dnnl::memory(desc, engine, b.data())},
                             {DNNL_ARG_DST, dnnl::memory(desc, engine, y.data())}});
    stream.wait();
  }
  /// Small whole numbers: f32 adds them exactly.
  void check() const {
    for (int64_t i = 0; i < n; i += 37) {
      for (int64_t j = 0; j < n; j += 11) {
        float sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += a[static_cast<size_t>(i * n + k)] * b[static_cast<size_t>(k * n + j)];
        ASSERT_EQ(y[static_cast<size_t>(i * n + j)], sum) << i << ", " << j;
      }
    }
  }
};

TEST(OneDnnThreads, the_library_is_bound) { EXPECT_TRUE(onednn_uses_team()); }

TEST(OneDnnThreads, regions_ask_the_teams_pool_and_need_no_helper) {
  const auto pool = std::make_shared<AbsentPool>();
  const threads::Scope scope(threads::Team{.threads = 3, .pool = threads::pool_on(pool)});
  Product p(256);
  p.run();
  p.check();
  EXPECT_GE(pool->asked, 2);
}

TEST(OneDnnThreads, a_team_of_one_asks_nobody) {
  const auto pool = std::make_shared<AbsentPool>();
  const threads::Scope scope(threads::Team{.threads = 1, .pool = threads::pool_on(pool)});
  Product p(256);
  p.run();
  p.check();
  EXPECT_EQ(pool->asked, 0);
}

TEST(OneDnnThreads, concurrent_callers_get_their_own_results) {
  std::vector<std::jthread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([c] {
      const threads::Scope scope(2 + c);
      for (int i = 0; i < 20; ++i) {
        Product p(64 + 32 * c);
        p.run();
        p.check();
      }
    });
  }
}

/// Batch normalisation that computes its statistics has barriers among the threads of a region.
TEST(OneDnnThreads, primitives_with_barriers_finish_beside_each_other) {
  onednn_uses_team();
  std::vector<std::jthread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([] {
      const threads::Scope scope(3);
      const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
      dnnl::stream stream(engine);
      constexpr int64_t batch = 4, channels = 16, side = 16, each = batch * side * side;
      const dnnl::memory::desc desc({batch, channels, side, side}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nchw),
          line({channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
      std::vector<float> x(static_cast<size_t>(each * channels)), y(x.size()), mean(channels), variance(channels);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2);
      const dnnl::batch_normalization_forward norm(
          {engine, dnnl::prop_kind::forward_training, desc, desc, 0.0f, dnnl::normalization_flags::none});
      for (int i = 0; i < 50; ++i) {
        norm.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(desc, engine, x.data())},
                              {DNNL_ARG_DST, dnnl::memory(desc, engine, y.data())},
                              {DNNL_ARG_MEAN, dnnl::memory(line, engine, mean.data())},
                              {DNNL_ARG_VARIANCE, dnnl::memory(line, engine, variance.data())}});
        stream.wait();
        for (int64_t k = 0; k < channels; ++k) {
          ASSERT_FLOAT_EQ(mean[static_cast<size_t>(k)], 0.5f);
          ASSERT_FLOAT_EQ(variance[static_cast<size_t>(k)], 0.25f);
        }
      }
    });
  }
}

}  // namespace
}  // namespace smelt::device
