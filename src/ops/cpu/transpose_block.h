// Square blocks of elements of 1, 2, 4 or 8 bytes, transposed in registers.
#pragma once

#include <cstdint>
#include <type_traits>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace smelt::ops {

/// Elements of a block's side.
inline constexpr int64_t block_side = 16;

#ifdef __SSE2__
namespace transpose_block_detail {

/// The elements of the first and the second half of a and b in turn; T: how long an element is.
template <class T> inline __m128i low(__m128i a, __m128i b) {
  if constexpr (sizeof(T) == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (sizeof(T) == 4) return _mm_unpacklo_epi32(a, b);
  return _mm_unpacklo_epi64(a, b);
}
template <class T> inline __m128i high(__m128i a, __m128i b) {
  if constexpr (sizeof(T) == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (sizeof(T) == 4) return _mm_unpackhi_epi32(a, b);
  return _mm_unpackhi_epi64(a, b);
}

/// Vectors of `n` elements, n rows: each round of unpacking rows r and r + n / 2 doubles what lies side by side.
template <class T, int n> inline void transpose_vectors(T* to, int64_t to_row, const T* from, int64_t from_row) {
  __m128i v[n], w[n];
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) v[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + r * from_row));
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int r = 0; r < n / 2; ++r) {
      w[2 * r] = low<T>(v[r], v[r + n / 2]);
      w[2 * r + 1] = high<T>(v[r], v[r + n / 2]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < n; ++r) v[r] = w[r];
  }
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * to_row), v[r]);
}

}  // namespace transpose_block_detail
#endif

/// to[i * to_row + j] = from[j * from_row + i] for i, j < block_side.
template <class T> inline void transpose_block(T* to, int64_t to_row, const T* from, int64_t from_row) {
#ifdef __SSE2__
  constexpr int n = 16 / static_cast<int>(sizeof(T));
  for (int64_t i = 0; i < block_side; i += n)
    for (int64_t j = 0; j < block_side; j += n)
      transpose_block_detail::transpose_vectors<T, n>(to + i * to_row + j, to_row, from + j * from_row + i, from_row);
#else
  for (int64_t i = 0; i < block_side; ++i)
    for (int64_t j = 0; j < block_side; ++j) to[i * to_row + j] = from[j * from_row + i];
#endif
}

}  // namespace smelt::ops
