#include "expr/simd/transpose.h"
#include "ops/matmul/simd/int8_shallow.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::matmul::ShallowColumns;

constexpr int64_t wide = 16;  // columns of a panel

int16_t element(const ShallowColumns& c, int64_t k, int64_t n) {
  const uint8_t byte = c.from[k * c.row + n * c.column];
  return static_cast<int16_t>((c.is_signed ? static_cast<int8_t>(byte) : byte) - c.zeros[n]);
}

#ifdef __AVX2__
/// 16 columns of row k, less their zero points: columns 0-3, 8-11, then 4-7, 12-15, so that halves of pairs unpack in order.
__m256i row_of(const ShallowColumns& c, int64_t k, int64_t n, __m256i zeros) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(c.from + k * c.row + n));
  const __m256i wide_row = c.is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
  return _mm256_permute4x64_epi64(_mm256_sub_epi16(wide_row, zeros), 0xd8);
}

void pack_sixteen(int16_t* to, const ShallowColumns& c, int64_t n) {
  const auto* z = reinterpret_cast<const __m256i*>(c.zeros + n);
  const __m256i zeros = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_loadu_si256(z), _mm256_loadu_si256(z + 1)), 0xd8);
  for (int64_t k = 0; k < c.k; k += 2, to += 2 * wide) {
    const __m256i even = row_of(c, k, n, zeros), odd = k + 1 < c.k ? row_of(c, k + 1, n, zeros) : _mm256_setzero_si256();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_unpacklo_epi16(even, odd));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + wide), _mm256_unpackhi_epi16(even, odd));
  }
}
#endif

void pack(int16_t* panel, const ShallowColumns& c) {
  const int64_t pairs = (c.k + 1) / 2;
  for (int64_t n = 0; n < c.count; n += wide, panel += 2 * wide * pairs) {
#ifdef __AVX2__
    if (c.column == 1 && n + wide <= c.count) {
      pack_sixteen(panel, c, n);
      continue;
    }
#endif
    const int64_t used = c.count - n < wide ? c.count - n : wide;
    for (int64_t p = 0; p < pairs; ++p)
      for (int64_t j = 0; j < wide; ++j)
        for (int64_t half = 0; half < 2; ++half)
          panel[(p * wide + j) * 2 + half] = j < used && 2 * p + half < c.k ? element(c, 2 * p + half, n + j) : int16_t{0};
  }
}

#ifdef __AVX2__
/// So many rows, whose sums of a panel stay in registers.
template <int rows> void some_rows(const int32_t* a, const int16_t* panel, int64_t pairs, int64_t columns, const int32_t* start,
                                   int32_t* sums, int64_t stride) {
  for (int64_t n = 0; n < columns; n += wide) {
    const auto* from = reinterpret_cast<const __m256i*>(start + n);
    __m256i s[rows][2];
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) s[r][0] = _mm256_loadu_si256(from), s[r][1] = _mm256_loadu_si256(from + 1);
    for (int64_t p = 0; p < pairs; ++p, panel += 2 * wide) {
      const auto* b = reinterpret_cast<const __m256i*>(panel);
      const __m256i left = _mm256_loadu_si256(b), right = _mm256_loadu_si256(b + 1);
      SMELT_UNROLL
      for (int r = 0; r < rows; ++r) {
        const __m256i x = _mm256_set1_epi32(a[r * pairs + p]);
        s[r][0] = _mm256_add_epi32(s[r][0], _mm256_madd_epi16(x, left));
        s[r][1] = _mm256_add_epi32(s[r][1], _mm256_madd_epi16(x, right));
      }
    }
    if (n + wide <= columns) {
      SMELT_UNROLL
      for (int r = 0; r < rows; ++r) {
        auto* to = reinterpret_cast<__m256i*>(sums + r * stride + n);
        _mm256_storeu_si256(to, s[r][0]), _mm256_storeu_si256(to + 1, s[r][1]);
      }
    } else {
      const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), left = _mm256_set1_epi32(static_cast<int>(columns - n));
      const __m256i first = _mm256_cmpgt_epi32(left, numbers),
                    second = _mm256_cmpgt_epi32(left, _mm256_add_epi32(numbers, _mm256_set1_epi32(8)));
      SMELT_UNROLL
      for (int r = 0; r < rows; ++r) {
        int32_t* to = sums + r * stride + n;
        _mm256_maskstore_epi32(to, first, s[r][0]), _mm256_maskstore_epi32(to + 8, second, s[r][1]);
      }
    }
  }
}
#else
template <int rows> void some_rows(const int32_t* a, const int16_t* panel, int64_t pairs, int64_t columns, const int32_t* start,
                                   int32_t* sums, int64_t stride) {
  for (int r = 0; r < rows; ++r)
    for (int64_t n = 0; n < columns; ++n) {
      const int16_t* b = panel + (n / wide * pairs * wide + n % wide) * 2;
      int32_t sum = start[n];
      for (int64_t p = 0; p < pairs; ++p, b += 2 * wide) {
        const int32_t x = a[r * pairs + p];
        sum += static_cast<int16_t>(x) * b[0] + (x >> 16) * b[1];
      }
      sums[r * stride + n] = sum;
    }
}
#endif

void multiply(const int32_t* a, int64_t rows, const int16_t* panel, int64_t pairs, int64_t columns, const int32_t* start,
              int32_t* sums, int64_t stride) {
  constexpr int64_t most = 4;
  for (; rows >= most; rows -= most, a += most * pairs, sums += most * stride)
    some_rows<most>(a, panel, pairs, columns, start, sums, stride);
  for (; rows > 0; --rows, a += pairs, sums += stride) some_rows<1>(a, panel, pairs, columns, start, sums, stride);
}

}  // namespace

const ops::matmul::Int8ShallowTable& int8_shallow() {
  static constexpr ops::matmul::Int8ShallowTable table = {pack, multiply};
  return table;
}

}  // namespace smelt::SMELT_ISA
