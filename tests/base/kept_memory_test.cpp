#include "base/kept_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {
namespace {

constexpr int64_t mib = int64_t{1} << 20;
KeptMemory::Block block(int64_t size) { return {std::malloc(static_cast<size_t>(size)), size}; }

TEST(KeptMemory, gives_a_block_back_to_a_request_of_its_size_or_half_of_it) {
  KeptMemory kept(64 * mib);
  const KeptMemory::Block four = block(4 * mib);
  ASSERT_TRUE(kept.keep(four));
  EXPECT_EQ(kept.bytes(), 4 * mib);
  EXPECT_EQ(kept.take(5 * mib).memory, nullptr);
  EXPECT_EQ(kept.take(2 * mib - 64).memory, nullptr) << "more than half of it would lie idle";
  const KeptMemory::Block again = kept.take(2 * mib);
  EXPECT_EQ(again.memory, four.memory);
  EXPECT_EQ(again.size, 4 * mib) << "its own size, for the next to keep it";
  EXPECT_EQ(kept.bytes(), 0);
  EXPECT_EQ(kept.take(4 * mib).memory, nullptr) << "it was given once";
  std::free(again.memory);
}

TEST(KeptMemory, sizes_are_at_most_an_eighth_apart) {
  EXPECT_EQ(KeptMemory::size_of(100), 100) << "malloc keeps those";
  for (int64_t bytes = KeptMemory::smallest; bytes < int64_t{1} << 40; bytes += bytes / 7 + 64) {
    const int64_t size = KeptMemory::size_of(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, bytes + bytes / 8);
    EXPECT_EQ(KeptMemory::size_of(size), size);
    EXPECT_EQ(size % 64, 0) << "aligned as before";
  }
  EXPECT_EQ(KeptMemory::size_of(INT64_MAX), INT64_MAX);
}

TEST(KeptMemory, is_bounded_and_lets_go_what_was_kept_longest) {
  KeptMemory kept(8 * mib);
  const KeptMemory::Block small = block(1024), large = block(9 * mib);
  EXPECT_FALSE(kept.keep(small)) << "malloc keeps those";
  EXPECT_FALSE(kept.keep(large)) << "above the limit";
  std::free(small.memory), std::free(large.memory);
  for (const int64_t size : {3, 4, 5}) ASSERT_TRUE(kept.keep(block(size * mib)));
  EXPECT_EQ(kept.bytes(), 5 * mib) << "the first two made room";
  for (const int64_t size : {1, 2}) ASSERT_TRUE(kept.keep(block(size * mib)));
  EXPECT_EQ(kept.bytes(), 8 * mib);
  for (size_t i = 0; i < KeptMemory::most_blocks; ++i) ASSERT_TRUE(kept.keep(block(KeptMemory::smallest)));
  EXPECT_EQ(kept.bytes(), static_cast<int64_t>(KeptMemory::most_blocks) * KeptMemory::smallest) << "they are counted, too";
  kept.drop();
  EXPECT_EQ(kept.bytes(), 0);
}

TEST(KeptMemory, hands_each_block_to_one_of_many_threads) {
  KeptMemory kept(64 * mib);
  const auto work = [&](int mark) {
    for (int i = 0; i < 300; ++i) {
      KeptMemory::Block b = kept.take(mib);
      if (!b.memory) b = block(mib);
      auto* const p = static_cast<volatile int*>(b.memory);
      *p = mark;
      std::this_thread::yield();
      EXPECT_EQ(*p, mark);
      if (!kept.keep(b)) std::free(b.memory);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
}

TEST(KeptMemory, keeps_what_tensors_let_go_while_there_is_a_plan) {
  const Shape shape = {1 << 20};
  Tensor::empty(DType::f32, shape);
  EXPECT_EQ(kept_memory().bytes(), 0) << "there is no plan";
  {
    const KeepsMemory keeps;
    const void* first = Tensor::empty(DType::f32, shape).raw();
    if (kept_memory().bytes() == 0) GTEST_SKIP() << "AddressSanitizer watches what is freed";
    EXPECT_EQ(kept_memory().bytes(), 4 * mib);
    EXPECT_EQ(Tensor::empty(DType::f32, shape).raw(), first);
    EXPECT_EQ(Tensor::empty(DType::f32, {(1 << 20) - 1000}).raw(), first) << "a little less needs a block of the same size";
  }
  EXPECT_EQ(kept_memory().bytes(), 0) << "the plan is gone";
}

}  // namespace
}  // namespace smelt
