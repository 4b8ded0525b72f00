#include <gmock/gmock.h>
#include <atomic>
#include <vector>

#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

TEST(Parallel, calls_each_piece_once_with_the_indexes_of_the_threads_asked_for) {
  const Threads scope(4);
  for (const int threads : {1, 2, 3, 4, 9}) {
    for (const int64_t count : {0, 1, 3, 4, 5, 1000}) {
      std::vector<int> contiguous(static_cast<size_t>(count)), dynamic = contiguous;
      std::atomic<int> largest{0};
      const auto see = [&](int thread) {
        for (int old = largest; thread > old && !largest.compare_exchange_weak(old, thread);) {
        }
      };
      parallel(threads, count, 1, [&](int64_t begin, int64_t end, int thread) {
        see(thread);
        for (int64_t i = begin; i < end; ++i) ++contiguous[static_cast<size_t>(i)];
      });
      parallel_dynamic(threads, count, [&](int64_t i, int thread) {
        see(thread);
        ++dynamic[static_cast<size_t>(i)];
      });
      EXPECT_THAT(contiguous, testing::Each(1)) << threads << " threads";
      EXPECT_THAT(dynamic, testing::Each(1)) << threads << " threads";
      EXPECT_LT(largest, threads);
    }
  }
}

TEST(Parallel, gives_parts_that_begin_at_multiples_of_the_grain) {
  const Threads scope(3);
  std::vector<int> begins(100);
  parallel(3, 100, 16, [&](int64_t begin, int64_t, int) { begins[static_cast<size_t>(begin)] = 1; });
  for (size_t i = 0; i < begins.size(); ++i) EXPECT_TRUE(begins[i] == 0 || i % 16 == 0) << i;
}

TEST(Parallel, gives_each_thread_some_parts_so_that_others_can_take_them) {
  std::atomic<int> calls{0};
  parallel(2, 1000, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_GT(calls, 2);
  EXPECT_LE(calls, 8);
}

}  // namespace
}  // namespace smelt::ops
