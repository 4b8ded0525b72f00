// Strided elements to contiguous memory, in registers. For *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

using Bytes32 = uint8_t __attribute__((vector_size(32)));
using Bytes16 = uint8_t __attribute__((vector_size(16)));

/// Writes `bytes` bytes at `to` by get(at, r), which sets r, a Bytes32 or a shorter type, to those from byte `at` on: a register at
/// a time, the last one over a part of the one before it. Rows are often shorter than a loop's prologue is long.
template <class Get> SMELT_INLINE void write_bytes(uint8_t* to, int64_t bytes, Get get) {
  const auto put = [&]<class R>(R* r, int64_t at) {
    get(at, *r);
    std::memcpy(to + at, r, sizeof(R));
  };
  const auto both_ends = [&]<class R>(R* r) {
    put(r, 0);
    put(r, bytes - static_cast<int64_t>(sizeof(R)));
  };
  if (bytes >= 32) {
    Bytes32 r;
    int64_t i = 0;
    for (; i + 32 <= bytes; i += 32) put(&r, i);
    if (i < bytes) put(&r, bytes - 32);
  } else if (bytes >= 16) {
    Bytes16 r;
    both_ends(&r);
  } else if (bytes >= 8) {
    uint64_t r;
    both_ends(&r);
  } else if (bytes >= 4) {
    uint32_t r;
    both_ends(&r);
  } else if (bytes >= 2) {
    uint16_t r;
    both_ends(&r);
  } else if (bytes == 1) {
    uint8_t r;
    put(&r, 0);
  }
}

SMELT_INLINE void copy_row(uint8_t* to, const uint8_t* from, int64_t bytes) {
  write_bytes(to, bytes, [&](int64_t at, auto& r) { std::memcpy(&r, from + at, sizeof r); });
}

/// One element, `bytes` bytes of copies of it.
template <class T> SMELT_INLINE void fill_row(uint8_t* to, T value, int64_t bytes) {
  T all[32 / sizeof(T)];
  for (T& v : all) v = value;
  write_bytes(to, bytes, [&](int64_t, auto& r) { std::memcpy(&r, all, sizeof r); });
}

#ifdef __AVX2__
inline constexpr int64_t most_repeats = 16;

/// Of elements of `size` bytes that are each to be there n times: which bytes of a register that holds the elements go into each of the n
/// registers that hold the copies. Those of n begin at register n (n - 1) / 2.
template <int size> struct Repeats {
  uint8_t bytes[most_repeats * (most_repeats + 1) / 2][16] = {};
  constexpr Repeats() {
    for (int64_t n = 1; n <= most_repeats; ++n)
      for (int64_t b = 0; b < 16 * n; ++b)
        bytes[n * (n - 1) / 2 + b / 16][b % 16] = static_cast<uint8_t>(b / size / n * size + b % size);
  }
};
template <class T> inline constexpr Repeats<sizeof(T)> repeats_of{};

/// n copies of each of `rows` elements that lie one behind the other, a register of them at a time; returns of how many. n is at most
/// most_repeats.
template <class T> SMELT_INLINE int64_t repeat_elements(T* to, const T* from, int64_t n, int64_t rows) {
  constexpr int64_t each = 16 / static_cast<int64_t>(sizeof(T));
  const auto* order = reinterpret_cast<const __m128i*>(repeats_of<T>.bytes[n * (n - 1) / 2]);
  int64_t row = 0;
  for (; row + each <= rows; row += each) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row));
    auto* out = reinterpret_cast<__m128i*>(to + row * n);
    for (int64_t k = 0; k < n; ++k) _mm_storeu_si128(out + k, _mm_shuffle_epi8(v, _mm_loadu_si128(order + k)));
  }
  return row;
}
#endif

/// The first of each pair, four at a time; returns how many. The second one of the last pair may not be there.
SMELT_INLINE int64_t gather_pairs(uint32_t* to, const uint32_t* from, int64_t n) {
  using Four = uint32_t __attribute__((vector_size(16)));
  int64_t i = 0;
  for (; i + 4 < n; i += 4) {
    Four a, b;
    std::memcpy(&a, from + 2 * i, sizeof a);
    std::memcpy(&b, from + 2 * i + 4, sizeof b);
    const Four firsts = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    std::memcpy(to + i, &firsts, sizeof firsts);
  }
  return i;
}

/// `rows` rows of n elements, `stride` apart in a row and `row_stride` from row to row, one behind the other.
template <class T>
SMELT_INLINE void gather_rows(T* to, const T* from, int64_t stride, int64_t n, int64_t row_stride, int64_t rows) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
#ifdef __AVX2__
  if (stride == 0 && row_stride == 1 && n > 0 && n <= most_repeats) {
    const int64_t made = repeat_elements(to, from, n, rows);
    to += made * n, from += made, rows -= made;
  }
#endif
  for (; rows > 0; --rows, to += n, from += row_stride) {
    if (stride == 1) {
      copy_row(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from), bytes);
    } else if (stride == 0) {
      if (n > 0) fill_row(reinterpret_cast<uint8_t*>(to), *from, bytes);
    } else {
      int64_t i = 0;
      if constexpr (sizeof(T) == 4) {
        if (stride == 2) i = gather_pairs(to, from, n);
      }
      for (; i < n; ++i) to[i] = from[i * stride];
    }
  }
}

}  // namespace smelt::SMELT_ISA
