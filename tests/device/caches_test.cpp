// Memory that is put out of the processor's caches.
#include "device/cpu/caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace smelt::device::cpu {
namespace {

double read_us(const std::vector<std::byte>& memory, unsigned& sum) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < memory.size(); i += 64) sum += std::to_integer<unsigned>(memory[i]);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Caches, a_core_has_one) { EXPECT_GE(core_cache_bytes(), 64 << 10); }

#ifdef __x86_64__
TEST(Caches, what_was_put_out_of_them_takes_longer_to_read) {
  std::vector<std::byte> memory(256 << 10, std::byte{1});
  unsigned sum = 0;
  double warm = 1e9, cold = 1e9;
  for (int i = 0; i < 50; ++i) {
    read_us(memory, sum);
    warm = std::min(warm, read_us(memory, sum));
    evict(memory);
    cold = std::min(cold, read_us(memory, sum));
  }
  EXPECT_GT(cold, 1.5 * warm) << warm << " us from the cache; " << sum;
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
