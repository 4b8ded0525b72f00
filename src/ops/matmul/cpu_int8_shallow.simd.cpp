#include "expr/simd/isa.h"
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

#ifdef __AVX512F__
#define SMELT_DOTS __attribute__((target("avx512vnni")))

/// Four rows of 16 columns, column by column.
__m512i quad_of(const ShallowColumns& c, int64_t k, int64_t n) {
  const __m128i flip = _mm_set1_epi8(static_cast<char>(c.is_signed ? 0 : 128));
  const auto row = [&](int64_t i) {
    if (k + i >= c.k) return _mm_setzero_si128();
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(c.from + (k + i) * c.row + n)), flip);
  };
  const __m128i a = row(0), b = row(1), d = row(2), e = row(3);
  const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b), low2 = _mm_unpacklo_epi8(d, e),
                high2 = _mm_unpackhi_epi8(d, e);
  __m512i quad = _mm512_castsi128_si512(_mm_unpacklo_epi16(low, low2));
  quad = _mm512_inserti32x4(quad, _mm_unpackhi_epi16(low, low2), 1);
  quad = _mm512_inserti32x4(quad, _mm_unpacklo_epi16(high, high2), 2);
  return _mm512_inserti32x4(quad, _mm_unpackhi_epi16(high, high2), 3);
}

__m512i quad_by_elements(const ShallowColumns& c, int64_t k, int64_t n) {
  int8_t bytes[4 * wide] = {};
  for (int64_t j = 0; j < wide && n + j < c.count; ++j)
    for (int64_t i = 0; i < 4 && k + i < c.k; ++i)
      bytes[4 * j + i] = static_cast<int8_t>(c.from[(k + i) * c.row + (n + j) * c.column] ^ (c.is_signed ? 0 : 128));
  return _mm512_loadu_si512(bytes);
}

SMELT_DOTS void pack_quads(int8_t* panel, const ShallowColumns& c, const int32_t* start, int32_t a_zero, int32_t* starts) {
  const __m512i ones = _mm512_set1_epi8(1), zero = _mm512_set1_epi32(a_zero);
  for (int64_t n = 0; n < c.count; n += wide) {
    const bool whole = c.column == 1 && n + wide <= c.count;
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = 0; k < c.k; k += 4, panel += 4 * wide) {
      const __m512i quad = whole ? quad_of(c, k, n) : quad_by_elements(c, k, n);
      _mm512_storeu_si512(panel, quad);
      sum = _mm512_dpbusd_epi32(sum, ones, quad);
    }
    _mm512_storeu_si512(starts + n, _mm512_sub_epi32(_mm512_loadu_si512(start + n), _mm512_mullo_epi32(zero, sum)));
  }
}

/// So many rows and panels from column n on: a quad of a is broadcast once for all of them.
template <int rows, int panels> SMELT_DOTS SMELT_INLINE void some_panels(const int32_t* a, const int8_t* panel, int64_t quads,
                                                                         int64_t columns, const int32_t* starts, int32_t* sums,
                                                                         int64_t stride) {
  __m512i s[rows][panels];
  SMELT_UNROLL
  for (int j = 0; j < panels; ++j) {
    const __m512i start = _mm512_loadu_si512(starts + wide * j);
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) s[r][j] = start;
  }
  for (int64_t p = 0; p < quads; ++p) {
    __m512i b[panels];
    SMELT_UNROLL
    for (int j = 0; j < panels; ++j) b[j] = _mm512_loadu_si512(panel + (j * quads + p) * 4 * wide);
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const __m512i x = _mm512_set1_epi32(a[r * quads + p]);
      SMELT_UNROLL
      for (int j = 0; j < panels; ++j) s[r][j] = _mm512_dpbusd_epi32(s[r][j], x, b[j]);
    }
  }
  SMELT_UNROLL
  for (int j = 0; j < panels; ++j) {
    const int64_t left = columns - j * wide;
    const auto mask = static_cast<__mmask16>(left >= wide ? 0xffff : (1 << left) - 1);
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) _mm512_mask_storeu_epi32(sums + r * stride + j * wide, mask, s[r][j]);
  }
}

template <int rows> SMELT_DOTS void some_rows_by_quads(const int32_t* a, const int8_t* panel, int64_t quads, int64_t columns,
                                                       const int32_t* starts, int32_t* sums, int64_t stride) {
  int64_t n = 0;
  for (; n + 3 * wide < columns; n += 4 * wide)
    some_panels<rows, 4>(a, panel + n * quads * 4, quads, columns - n, starts + n, sums + n, stride);
  for (; n < columns; n += wide) some_panels<rows, 1>(a, panel + n * quads * 4, quads, columns - n, starts + n, sums + n, stride);
}

void multiply_quads(const int32_t* a, int64_t rows, const int8_t* panel, int64_t quads, int64_t columns, const int32_t* starts,
                    int32_t* sums, int64_t stride) {
  constexpr int64_t most = 4;  // more rows of a result, a power of two apart, would share a place of the cache
  for (; rows >= most; rows -= most, a += most * quads, sums += most * stride)
    some_rows_by_quads<most>(a, panel, quads, columns, starts, sums, stride);
  for (; rows > 0; --rows, a += quads, sums += stride) some_rows_by_quads<1>(a, panel, quads, columns, starts, sums, stride);
}
#endif

}  // namespace

const ops::matmul::Int8ShallowTable& int8_shallow() {
#ifdef __AVX512F__
  static const ops::matmul::Int8ShallowTable table =
      simd::has_dots() ? ops::matmul::Int8ShallowTable{pack, multiply, pack_quads, multiply_quads}
                       : ops::matmul::Int8ShallowTable{pack, multiply};
#else
  static constexpr ops::matmul::Int8ShallowTable table = {pack, multiply};
#endif
  return table;
}

}  // namespace smelt::SMELT_ISA
