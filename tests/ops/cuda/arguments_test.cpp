// A kernel's argument as the host lays it out, against what the compiler makes of the same structure.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/cuda/gpu.h"

namespace smelt::ops {
namespace {

struct Inner {
  uint8_t flag;
  uint16_t number;
};
struct Whole {
  const void* x;
  bool yes;
  uint32_t count;
  Inner inner;
  int64_t step;
  uint16_t last;
};

TEST(Arguments, lie_as_the_compiler_has_a_structure_of_them) {
  const int memory = 0;
  Whole want;
  std::memset(static_cast<void*>(&want), 0, sizeof want);
  want.x = &memory, want.yes = true, want.count = 7, want.inner.flag = 3, want.inner.number = 9, want.step = -1, want.last = 5;
  Inner inner;
  std::memset(&inner, 0, sizeof inner);
  inner.flag = 3, inner.number = 9;
  Arguments got;
  got.tensor(nullptr).value(true).value(uint32_t{7}).value(inner).value(int64_t{-1}).value(uint16_t{5});
  got.set(offsetof(Whole, x), &memory);
  EXPECT_EQ(got.size(), sizeof want);
  EXPECT_EQ(std::memcmp(got.data(), &want, offsetof(Whole, last) + sizeof want.last), 0);
}

TEST(Arguments, say_that_they_are_too_many) {
  const std::vector<std::byte> large(Arguments::most_bytes);
  Arguments a;
  a.bytes(large.data(), large.size());
  EXPECT_THROW(a.value(uint8_t{1}), Error);
}

}  // namespace
}  // namespace smelt::ops
