// Every number of 16 bits as f32, however its elements lie.
#include "ops/cpu/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace smelt::ops {
namespace {

template <class T> void every_number(DType type) {
  constexpr int64_t count = 1 << 16;
  for (const int64_t from_stride : {1, 3}) {
    std::vector<uint16_t> from(static_cast<size_t>(count * from_stride), 0x3c00);
    for (int64_t i = 0; i < count; ++i) from[static_cast<size_t>(i * from_stride)] = static_cast<uint16_t>(i);
    for (const int64_t to_stride : {1, 2}) {
      std::vector<float> to(static_cast<size_t>(count * to_stride) + 1, 7);
      copy_as_f32(to.data(), to_stride, from.data(), from_stride, count, type);
      for (int64_t i = 0; i < count; ++i) {
        const float want = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i))),
                    got = to[static_cast<size_t>(i * to_stride)];
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(got)) << i;
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i;
        if (to_stride == 2) ASSERT_EQ(to[static_cast<size_t>(2 * i + 1)], 7) << i;
      }
      EXPECT_EQ(to.back(), 7);
    }
  }
}

TEST(Convert, f16) { every_number<Half>(DType::f16); }
TEST(Convert, bf16) { every_number<BFloat>(DType::bf16); }

TEST(Convert, any_count_and_nothing_behind_it) {
  const std::vector<uint16_t> from(300, 0x3c00);
  for (int64_t count = 0; count < 300; ++count) {
    std::vector<float> to(301, 7);
    copy_as_f32(to.data(), 1, from.data(), 1, count, DType::f16);
    for (int64_t i = 0; i < 301; ++i) ASSERT_EQ(to[static_cast<size_t>(i)], i < count ? 1 : 7) << count;
  }
}

}  // namespace
}  // namespace smelt::ops
