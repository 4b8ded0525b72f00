// Which freed memory may be used again, and by whom.
#include "device/cuda/free_blocks.h"

#include <gtest/gtest.h>

namespace smelt::device::cuda {
namespace {

struct Switch final : Moment {
  mutable bool on = false;
  bool passed() const override { return on; }
  void wait() const override { on = true; }
};

abi::Stream stream(uintptr_t number) { return reinterpret_cast<abi::Stream>(number); }

TEST(FreeBlocks, the_smallest_of_about_the_size_is_taken_once) {
  FreeBlocks blocks;
  blocks.add({1, 4096, {}});
  blocks.add({2, 1088, {}});
  blocks.add({3, 1024, {}});
  EXPECT_EQ(blocks.take(1024)->address, 3u);
  EXPECT_EQ(blocks.take(1024)->address, 2u);
  EXPECT_FALSE(blocks.take(1024)) << "4096 bytes are more than an eighth too large";
  EXPECT_FALSE(blocks.take(8192));
  EXPECT_EQ(blocks.take_all().size(), 1u);
  EXPECT_TRUE(blocks.empty());
}

TEST(FreeBlocks, what_a_stream_still_uses_only_that_stream_gets) {
  const auto end = std::make_shared<Switch>();
  FreeBlocks blocks;
  blocks.add({1, 1024, {{stream(16), end}}});
  EXPECT_FALSE(blocks.take(1024)) << "for use anywhere";
  EXPECT_FALSE(blocks.take(1024, stream(32)));
  EXPECT_FALSE(blocks.take(1024, stream(0))) << "the default stream is one like others";
  const auto block = blocks.take(1024, stream(16));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->uses.size(), 1u) << "the use goes on";
  blocks.add(*block);
  end->on = true;
  const auto free = blocks.take(1024, stream(32));
  ASSERT_TRUE(free);
  EXPECT_TRUE(free->uses.empty());
}

TEST(FreeBlocks, every_stream_must_be_done) {
  const auto first = std::make_shared<Switch>(), second = std::make_shared<Switch>();
  FreeBlocks blocks;
  blocks.add({1, 1024, {{stream(16), first}, {stream(32), second}}});
  EXPECT_FALSE(blocks.take(1024, stream(16))) << "stream 32 is not done";
  second->on = true;
  EXPECT_TRUE(blocks.take(1024, stream(16)));
}

TEST(FreeBlocks, one_in_use_is_passed_over_for_one_that_is_free) {
  FreeBlocks blocks;
  blocks.add({1, 1024, {{stream(16), std::make_shared<Switch>()}}});
  blocks.add({2, 1056, {}});
  EXPECT_EQ(blocks.take(1024, stream(32))->address, 2u);
  EXPECT_FALSE(blocks.take(1024, stream(32)));
}

}  // namespace
}  // namespace smelt::device::cuda
