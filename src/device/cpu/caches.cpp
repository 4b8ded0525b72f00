#include "device/cpu/caches.h"

#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace smelt::device::cpu {

int64_t core_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return int64_t{512} << 10;
}

#ifdef __x86_64__
namespace {

constexpr size_t line = 64;  // bytes

bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

/// From the line that `begin` lies in on.
__attribute__((target("clflushopt"))) void flush_side_by_side(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin / line * line; at < end; at += line) _mm_clflushopt(reinterpret_cast<void*>(at));
}

void flush_one_by_one(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin / line * line; at < end; at += line) _mm_clflush(reinterpret_cast<void*>(at));
}

}  // namespace

void evict(std::span<const std::byte> memory) {
  static const bool side_by_side = has_clflushopt();
  const auto begin = reinterpret_cast<uintptr_t>(memory.data()), end = begin + memory.size();
  side_by_side ? flush_side_by_side(begin, end) : flush_one_by_one(begin, end);
  _mm_mfence();
}
#else
void evict(std::span<const std::byte>) {}
#endif

}  // namespace smelt::device::cpu
