#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "ops/conv/simd/winograd_bytes.h"

namespace smelt::avx2 {
namespace {

using ops::conv::WinogradBytesTable;
using ops::conv::WinogradPixels;

/// Four values along an axis to the four of Bᵀ. Twice applied, 9-bit values stay within 11 bits.
inline __attribute__((always_inline)) void forward(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
  const __m256i first = _mm256_sub_epi16(a, c), second = _mm256_add_epi16(b, c), third = _mm256_sub_epi16(c, b),
                fourth = _mm256_sub_epi16(b, d);
  a = first;
  b = second;
  c = third;
  d = fourth;
}

/// 16 channels; load(i): the bytes of pixel i.
template <bool is_signed, class Load>
inline __attribute__((always_inline)) void input_step(__m256i zero, int16_t* to, int64_t step, Load load) {
  __m256i v[4][4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const __m128i bytes = load(4 * y + x);
      v[y][x] = _mm256_sub_epi16(is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes), zero);
    }
    forward(v[0][x], v[1][x], v[2][x], v[3][x]);
  }
#pragma GCC unroll 4
  for (int y = 0; y < 4; ++y) {
    forward(v[y][0], v[y][1], v[y][2], v[y][3]);
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (4 * y + x) * step), v[y][x]);
  }
}

template <bool is_signed> void transform(const WinogradPixels& p, int16_t* to, int64_t step) {
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(p.zero));
  int64_t c = 0;
  for (; c + 16 <= p.channels; c += 16) {
    input_step<is_signed>(zero, to + c, step,
                          [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p.pixels[i] + c)); });
  }
  if (c == p.channels) return;
  const size_t left = static_cast<size_t>(p.channels - c);
  input_step<is_signed>(zero, to + c, step, [&](int i) {
    alignas(16) uint8_t bytes[16];
    std::memset(bytes, p.zero, sizeof bytes);         // which becomes 0
    std::memcpy(bytes, p.pixels[i] + c, left);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  });
}

void input(const WinogradPixels& p, int16_t* to, int64_t step) {
  if (p.is_signed) transform<true>(p, to, step);
  else transform<false>(p, to, step);
}

void output(const int32_t* sums, int64_t step, const int32_t* start, int64_t columns, int32_t* const* outputs) {
  for (int64_t c = 0; c < columns; c += 8) {
    const auto load = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + i * step + c)); };
    __m256i rows[2][4];
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      const __m256i m0 = load(x), m1 = load(4 + x), m2 = load(8 + x), m3 = load(12 + x);
      rows[0][x] = _mm256_add_epi32(m0, _mm256_add_epi32(m1, m2));
      rows[1][x] = _mm256_sub_epi32(_mm256_sub_epi32(m1, m2), m3);
    }
    const __m256i base = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(start + c));
    const auto store = [&](int i, __m256i v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(outputs[i] + c), _mm256_add_epi32(_mm256_srai_epi32(v, 2), base));
    };
#pragma GCC unroll 2
    for (int y = 0; y < 2; ++y) {
      const __m256i* r = rows[y];
      store(2 * y, _mm256_add_epi32(r[0], _mm256_add_epi32(r[1], r[2])));
      store(2 * y + 1, _mm256_sub_epi32(_mm256_sub_epi32(r[1], r[2]), r[3]));
    }
  }
}

}  // namespace

const WinogradBytesTable& winograd_bytes_table() {
  static constexpr WinogradBytesTable table = {input, output};
  return table;
}

}  // namespace smelt::avx2
#endif
