// Memory that is put out of the processor's caches.
#include "device/cpu/caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "support/chain.h"

namespace smelt::device::cpu {
namespace {

double walk_us(const Chain& chain, uint32_t& seen) {
  const auto begin = std::chrono::steady_clock::now();
  seen += chain.walk();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Caches, a_core_has_one) { EXPECT_GE(core_cache_bytes(), 64 << 10); }

#ifdef __x86_64__
TEST(Caches, what_was_put_out_of_them_takes_longer_to_read) {
  const Chain chain(1024);  // 64 KiB
  uint32_t seen = 0;
  double warm = 1e9, cold = 1e9;
  for (int i = 0; i < 50; ++i) {
    walk_us(chain, seen);
    warm = std::min(warm, walk_us(chain, seen));
    evict(chain.memory());
    cold = std::min(cold, walk_us(chain, seen));
  }
  EXPECT_GT(cold, 2 * warm) << "walks ended at " << seen;
}

TEST(Caches, what_is_put_out_of_them_keeps_its_values) {
  std::vector<std::byte> memory(10'000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i);
  const std::vector<std::byte> before = memory;
  evict(std::span(memory).subspan(3, 9000));
  evict({});
  EXPECT_EQ(memory, before);
}
#endif

}  // namespace
}  // namespace smelt::device::cpu
