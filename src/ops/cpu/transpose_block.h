// Square blocks of elements of 1, 2, 4 or 8 bytes, transposed in registers; and lines of few elements, put together and taken apart.
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

/// Each round of unpacking vectors r and r + count / 2 doubles what lies side by side.
template <class T, int count> inline void unpack_rounds(__m128i (&v)[count], int first_round) {
  __m128i w[count];
  for (int round = first_round; round < count; round *= 2) {
#pragma GCC unroll 8
    for (int r = 0; r < count / 2; ++r) {
      w[2 * r] = low<T>(v[r], v[r + count / 2]);
      w[2 * r + 1] = high<T>(v[r], v[r + count / 2]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) v[r] = w[r];
  }
}

/// Vectors of `n` elements, n rows.
template <class T, int n> inline void transpose_vectors(T* to, int64_t to_row, const T* from, int64_t from_row) {
  __m128i v[n];
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) v[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + r * from_row));
  unpack_rounds<T, n>(v, 1);
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * to_row), v[r]);
}

/// The first `loads` lines of `m` elements, the others 0, transposed; of the result the first `stores` lines are written, in their
/// order. m elements are a register or half of one.
template <class T, int m>
inline void transpose_part(T* to, int64_t to_row, const T* from, int64_t from_row, int loads, int stores) {
  constexpr int n = 16 / static_cast<int>(sizeof(T));
  static_assert(m == n || 2 * m == n);
  __m128i v[m];
#pragma GCC unroll 16
  for (int r = 0; r < m; ++r) {
    const auto* line = reinterpret_cast<const __m128i*>(from + r * from_row);
    v[r] = r >= loads ? _mm_setzero_si128() : m == n ? _mm_loadu_si128(line) : _mm_loadl_epi64(line);
  }
  if constexpr (m == n) {
    unpack_rounds<T, m>(v, 1);
#pragma GCC unroll 16
    for (int r = 0; r < m; ++r)
      if (r < stores) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * to_row), v[r]);
  } else {
    __m128i pairs[m / 2];
#pragma GCC unroll 8
    for (int r = 0; r < m / 2; ++r) pairs[r] = low<T>(v[r], v[r + m / 2]);
    unpack_rounds<T, m / 2>(pairs, 1);
#pragma GCC unroll 8
    for (int r = 0; r < m / 2; ++r) {
      if (2 * r < stores) _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * r * to_row), pairs[r]);
      if (2 * r + 1 < stores)
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + (2 * r + 1) * to_row), _mm_unpackhi_epi64(pairs[r], pairs[r]));
    }
  }
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

#ifdef __SSE2__
/// `rows` lines of `columns` elements, fewer than m, side by side in the target, from as many lines of `rows` elements. How many rows are
/// done: what is written behind a row is the next one's place, so that the last rows are left.
template <class T, int m> inline int64_t put_together(T* to, const T* from, int64_t rows, int64_t columns, int64_t from_column) {
  int64_t i = 0;
  for (; (i + m - 1) * columns + m <= rows * columns && i + m <= rows; i += m)
    transpose_block_detail::transpose_part<T, m>(to + i * columns, columns, from + i, from_column, static_cast<int>(columns), m);
  return i;
}

/// Two lines of at least a register's elements in turn.
template <class T> inline void zip(T* to, const T* first, const T* second, int64_t rows) {
  constexpr int64_t n = 16 / static_cast<int64_t>(sizeof(T));
  using namespace transpose_block_detail;
  for (int64_t i = 0; i < rows; i += n) {
    const int64_t row = i < rows - n ? i : rows - n;
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first + row));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second + row));
    auto* pairs = reinterpret_cast<__m128i*>(to + 2 * row);
    _mm_storeu_si128(pairs, low<T>(a, b));
    _mm_storeu_si128(pairs + 1, high<T>(a, b));
  }
}

/// The other way about: `columns` places of `rows` elements, fewer than m, become lines. How many columns are done: m elements are read at
/// each place, which the last ones do not have.
template <class T, int m>
inline int64_t take_apart(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
  int64_t j = 0;
  for (; (j + m - 1) * from_column + m <= (columns - 1) * from_column + rows && j + m <= columns; j += m)
    transpose_block_detail::transpose_part<T, m>(to + j, to_row, from + j * from_column, from_column, m, static_cast<int>(rows));
  return j;
}

/// Blocks of m by m elements, of at least m rows and columns. Those that end with the rows or columns copy some elements again.
template <class T, int m>
inline void transpose_small(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
  for (int64_t j = 0; j < columns; j += m) {
    const int64_t column = j < columns - m ? j : columns - m;
    for (int64_t i = 0; i < rows; i += m) {
      const int64_t row = i < rows - m ? i : rows - m;
      transpose_block_detail::transpose_part<T, m>(to + row * to_row + column, to_row, from + row + column * from_column,
                                                   from_column, m, m);
    }
  }
}
#endif

}  // namespace smelt::ops
