#include "base/booleans.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace smelt {
namespace {

TEST(Booleans, one_other_byte_is_found_wherever_it_lies) {
  // Below, at and above a register of the loop, and over several threads' parts.
  for (const int64_t n : {0, 1, 15, 63, 64, 65, 130, 700001}) {
    Tensor t = Tensor::empty(DType::boolean, {n});
    auto* bytes = static_cast<uint8_t*>(t.raw());
    for (int64_t i = 0; i < n; ++i) bytes[i] = i % 3 == 0;
    EXPECT_FALSE(has_other_booleans(t)) << n;
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      if (at < 0 || at >= n) continue;
      for (const uint8_t other : {2, 3, 128, 255}) {
        const uint8_t before = std::exchange(bytes[at], other);
        EXPECT_TRUE(has_other_booleans(t)) << n << ' ' << at << ' ' << +other;
        bytes[at] = before;
      }
    }
  }
}

TEST(Booleans, become_0_or_1) {
  Tensor t = Tensor::empty(DType::boolean, {4});
  auto* bytes = static_cast<uint8_t*>(t.raw());
  bytes[0] = 0, bytes[1] = 1, bytes[2] = 2, bytes[3] = 255;
  make_booleans_0_or_1(t);
  EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + 4), (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST(Booleans, other_types_bytes_are_not_looked_at) {
  const Tensor t = Tensor::of<uint8_t>({2}, {7, 255});
  EXPECT_FALSE(has_other_booleans(t));
}

}  // namespace
}  // namespace smelt
