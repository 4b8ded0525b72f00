// Floats to bytes: quantized numbers.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "ops/cpu/integer/simd/bytes.h"
#include "ops/cpu/integer/simd/quantize.h"

namespace smelt::avx2 {
namespace {

using ops::integer::Requantization;

/// A quantization's numbers in registers: bytes that are stored may alias anything in memory.
struct Quantizer {
  __m256 divisor, inverse, low, high, of_nan;
  int32_t zero;
  explicit Quantizer(const Requantization& r)
      : divisor(_mm256_set1_ps(r.divisor)),
        inverse(_mm256_set1_ps(1 / r.divisor)),
        low(_mm256_set1_ps(r.low)),
        high(_mm256_set1_ps(r.high)),
        of_nan(_mm256_set1_ps(static_cast<float>(-r.zero))),
        zero(r.zero) {}
};

/// 8 numbers as whole ones, the zero point not added yet.
inline __attribute__((always_inline)) __m256i exact(const Quantizer& q, __m256 v) {
  v = _mm256_div_ps(v, q.divisor);
  const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  v = _mm256_min_ps(_mm256_max_ps(v, q.low), q.high);
  return _mm256_cvtps_epi32(_mm256_blendv_ps(v, q.of_nan, nan));
}

/// The same by multiplication; sets lanes of `doubtful` where that may be another number, and where v is NaN: minimum and maximum
/// return their second operand beside one.
inline __attribute__((always_inline)) __m256i guessed(const Quantizer& q, __m256 v, __m256& doubtful) {
  v = _mm256_min_ps(q.high, _mm256_max_ps(q.low, _mm256_mul_ps(v, q.inverse)));
  const __m256i whole = _mm256_cvtps_epi32(v);
  const __m256 distance = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_sub_ps(v, _mm256_cvtepi32_ps(whole)));
  doubtful = _mm256_or_ps(doubtful, _mm256_cmp_ps(distance, _mm256_set1_ps(next_to_half), _CMP_NLE_UQ));
  return whole;
}

/// The same of numbers whose quotient lies within 2^22, the zero point added: behind the addition of 1.5 · 2^23 a float's last bits
/// are its whole number.
constexpr float to_last_bits = 0x1.8p23f;
inline __attribute__((always_inline)) __m256i guessed_within(const Quantizer& q, __m256 v, __m256i less, __m256& doubtful) {
  const __m256 shifted = _mm256_fmadd_ps(v, q.inverse, _mm256_set1_ps(to_last_bits));
  const __m256 distance = _mm256_fmsub_ps(v, q.inverse, _mm256_sub_ps(shifted, _mm256_set1_ps(to_last_bits)));
  const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), distance);
  doubtful = _mm256_or_ps(doubtful, _mm256_cmp_ps(magnitude, _mm256_set1_ps(next_to_half), _CMP_NLE_UQ));
  return _mm256_sub_epi32(_mm256_castps_si256(shifted), less);
}

/// Stores 32 whole numbers as bytes that end with the type's range.
inline __attribute__((always_inline)) void store_saturated(uint8_t* to, const __m256i* q) {
  const __m256i words = _mm256_packus_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  store32(to, _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

/// load(i): numbers i to i + 7. Of at least 8.
template <class Load>
inline __attribute__((always_inline)) void quantize_row(const Quantizer& q, int64_t n, uint8_t* to, Load&& load) {
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(q.zero));
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i whole[4];
    __m256 doubtful = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) whole[j] = guessed(q, load(i + 8 * j), doubtful);
    if (__builtin_expect(_mm256_movemask_ps(doubtful) != 0, 0))
      for (int j = 0; j < 4; ++j) whole[j] = exact(q, load(i + 8 * j));
    store_bytes<4>(to + i, whole, zero);
  }
  const auto eight = [&](int64_t at) __attribute__((always_inline)) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + at), to_bytes(exact(q, load(at)), q.zero));
  };
  for (; i + 8 <= n; i += 8) eight(i);
  if (i < n) eight(n - 8);  // some again: numbers and bytes never share memory
}

}  // namespace

void quantize(const Requantization& r, const float* from, int64_t n, uint8_t* to) {
  const Quantizer q(r);
  if (n < 8) {
    alignas(32) float in[8] = {};
    alignas(16) uint8_t out[16];
    std::memcpy(in, from, static_cast<size_t>(n) * sizeof(float));
    store16(out, to_bytes(exact(q, _mm256_load_ps(in)), q.zero));
    std::memcpy(to, out, static_cast<size_t>(n));
    return;
  }
  quantize_row(
      q, n, to, [=](int64_t i) __attribute__((always_inline)) { return _mm256_loadu_ps(from + i); });
}

void quantize_within(const Requantization& r, const float* from, int64_t n, uint8_t* to) {
  const Quantizer q(r);
  const __m256i zero = _mm256_set1_epi32(r.zero);
  const __m256i less = _mm256_sub_epi32(_mm256_castps_si256(_mm256_set1_ps(to_last_bits)), zero);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i bytes[4];
    __m256 doubtful = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) bytes[j] = guessed_within(q, _mm256_loadu_ps(from + i + 8 * j), less, doubtful);
    if (__builtin_expect(_mm256_movemask_ps(doubtful) != 0, 0))
      for (int j = 0; j < 4; ++j) bytes[j] = _mm256_add_epi32(exact(q, _mm256_loadu_ps(from + i + 8 * j)), zero);
    store_saturated(to + i, bytes);
  }
  if (i < n) quantize(r, from + i, n - i, to + i);
}

}  // namespace smelt::avx2
#endif
