// Loops over a row of elements, a register at a time, and the sum and the maximum of a row. For *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/half.h"

namespace smelt::SMELT_ISA {

/// Calls body(i, count) for elements i to i + count - 1 of n: count is `lanes`, or less in the last call.
template <class F> SMELT_INLINE void for_registers(int64_t n, F&& body) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, int64_t{lanes});
  if (i < n) body(i, n - i);
}
template <class H> SMELT_INLINE F32 get(const H* p, int64_t count) { return count == lanes ? load(p) : load_first(p, count); }
template <class H> SMELT_INLINE void put(H* p, F32 v, int64_t count) {
  if (count == lanes)
    store(p, v);
  else
    store_first(p, v, count);
}

/// v in its first `count` lanes, `other` in the rest of them.
SMELT_INLINE F32 first_or(F32 v, int64_t count, F32 other) {
#if defined(__AVX512F__)
  return pick({first_lanes(count)}, v, other);
#elif defined(__AVX2__)
  return pick({_mm256_castsi256_ps(first_lanes(count))}, v, other);
#else
  return pick({_mm_castsi128_ps(first_lanes(count))}, v, other);
#endif
}

/// Sum of f(x) over n elements. Four accumulators hide the latency of an addition. f computes lane by lane.
template <class F> SMELT_INLINE float sum_of(const float* row, int64_t n, F f) {
  F32 sums[4] = {F32(0), F32(0), F32(0), F32(0)};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int u = 0; u < 4; ++u) sums[u] = sums[u] + f(load(row + i + u * lanes));
  for (; i + lanes <= n; i += lanes) sums[0] = sums[0] + f(load(row + i));
  if (i < n) sums[1] = sums[1] + first_or(f(load_first(row + i, n - i)), n - i, F32(0));
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// Maximum of n elements, ignoring NaNs; -infinity when there is no other element.
SMELT_INLINE float largest(const float* row, int64_t n) {
  F32 tops[4];
  for (F32& t : tops) t = F32(-__builtin_inf());
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int u = 0; u < 4; ++u) tops[u] = raw_max(load(row + i + u * lanes), tops[u]);
  for (; i + lanes <= n; i += lanes) tops[0] = raw_max(load(row + i), tops[0]);
  if (i < n) tops[1] = raw_max(first_or(load_first(row + i, n - i), n - i, tops[1]), tops[1]);
  float each[lanes], top = -__builtin_inff();
  store(each, raw_max(raw_max(tops[0], tops[1]), raw_max(tops[2], tops[3])));
  for (float e : each) top = e > top ? e : top;
  return top;
}

}  // namespace smelt::SMELT_ISA
