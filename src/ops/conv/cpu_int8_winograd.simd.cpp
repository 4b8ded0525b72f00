#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "ops/conv/simd/int8_winograd.h"
#include "ops/conv/simd/winograd_transform.h"

namespace smelt::avx2 {
namespace {

using ops::conv::WinogradBytesTable;
using ops::conv::WinogradPixels;

/// 16 channels; load(i): the bytes of pixel i. Twice transformed, 9-bit values stay within 11 bits.
template <bool is_signed, class Load>
inline __attribute__((always_inline)) void input_step(__m256i zero, int16_t* to, int64_t step, Load load) {
  winograd_input<I16Lanes>(
      [&](int i) {
        const __m128i bytes = load(i);
        return _mm256_sub_epi16(is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes), zero);
      },
      [&](int i, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * step), v); });
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
    std::memset(bytes, p.zero, sizeof bytes);  // which becomes 0
    std::memcpy(bytes, p.pixels[i] + c, left);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  });
}

void input(const WinogradPixels& p, int16_t* to, int64_t step) {
  if (p.is_signed)
    transform<true>(p, to, step);
  else
    transform<false>(p, to, step);
}

void output(const int32_t* sums, int64_t step, const int32_t* start, int64_t columns, int32_t* const* outputs) {
  for (int64_t c = 0; c < columns; c += 8) {
    const __m256i base = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(start + c));
    winograd_output<I32Lanes>([&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + i * step + c)); },
                              [&](int i, __m256i v) {
                                _mm256_storeu_si256(reinterpret_cast<__m256i*>(outputs[i] + c),
                                                    _mm256_add_epi32(_mm256_srai_epi32(v, 2), base));
                              });
  }
}

}  // namespace

const WinogradBytesTable& winograd_bytes_table() {
  static constexpr WinogradBytesTable table = {input, output};
  return table;
}

}  // namespace smelt::avx2
#endif
