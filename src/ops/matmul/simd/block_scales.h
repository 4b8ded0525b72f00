// Words of weights in blocks, and the scales and zero points of a row: for the *.simd.cpp sources that multiply them.
#pragma once

#include "expr/simd/reduce.h"
#include "ops/matmul/simd/block.h"

namespace smelt::SMELT_ISA {

using ops::matmul::BlockTable;
using ops::matmul::BlockWeights;

#if defined(__AVX512F__)
SMELT_INLINE I32 load_words(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
SMELT_INLINE I32 operator^(I32 a, I32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n> SMELT_INLINE I32 shift_right(I32 a) { return {_mm512_srli_epi32(a.v, n)}; }
SMELT_INLINE F32 from_bytes(const uint8_t* p) {
  return to_float(I32{_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))});
}
#elif defined(__AVX2__)
SMELT_INLINE I32 load_words(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
SMELT_INLINE I32 operator^(I32 a, I32 b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int n> SMELT_INLINE I32 shift_right(I32 a) { return {_mm256_srli_epi32(a.v, n)}; }
SMELT_INLINE F32 from_bytes(const uint8_t* p) {
  return to_float(I32{_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))});
}
#else
SMELT_INLINE I32 load_words(const uint8_t* p) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))}; }
SMELT_INLINE I32 operator^(I32 a, I32 b) { return {_mm_xor_si128(a.v, b.v)}; }
template <int n> SMELT_INLINE I32 shift_right(I32 a) { return {_mm_srli_epi32(a.v, n)}; }
SMELT_INLINE F32 from_bytes(const uint8_t* p) {
  float v[lanes];
  for (int i = 0; i < lanes; ++i) v[i] = static_cast<float>(p[i]);
  return load(v);
}
#endif

template <int bits> inline int32_t sign_of_words(bool is_signed) {
  if (!is_signed) return 0;
  uint32_t sign = 0;
  for (int j = 0; j < 32 / bits; ++j) sign |= 1u << (bits * j + bits - 1);
  return static_cast<int32_t>(sign);
}

template <class F> SMELT_INLINE void with_bits(int bits, F&& f) {
  if (bits == 2) return f.template operator()<2>();
  if (bits == 4) return f.template operator()<4>();
  return f.template operator()<8>();
}

/// Floats that scales_of_row() writes at most for so many.
inline int64_t scales_step(int64_t count) { return (count + lanes - 1) / lanes * lanes + lanes; }

/// Scales [first, last) of a row as floats, and zeros behind them up to whole chunks.
inline void scales_of_row(const BlockWeights& w, int64_t row, int64_t first, int64_t last, float* to) {
  with_float_type(w.scale_kind, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(w.scales) + row * w.blocks + first;
    for_registers(last - first, [&](int64_t i, int64_t count) { store(to + i, get(from + i, count)); });
  });
  for (int64_t i = last - first; i < scales_step(last - first); ++i) to[i] = 0;
}

/// Scale times what is left of a zero point, from a row's scales.
inline void scaled_zeros(const BlockWeights& w, int64_t row, int64_t first, int64_t last, const float* scales, float* to) {
  const F32 same = splat(static_cast<float>(w.zero - w.taken)), taken = splat(static_cast<float>(w.taken));
  const uint8_t* zeros = w.zeros ? w.zeros + row * w.blocks + first : nullptr;
  for_registers(last - first, [&](int64_t i, int64_t count) {
    F32 z = same;
    if (zeros) {
      uint8_t some[lanes] = {};
      if (count < lanes) {
        for (int64_t j = 0; j < count; ++j) some[j] = zeros[i + j];
      }
      z = from_bytes(count < lanes ? some : zeros + i) - taken;
    }
    store(to + i, load(scales + i) * z);
  });
}

/// BlockTable::start.
inline void start_blocks(const BlockWeights& w, int64_t columns, const float* a_sums, int64_t sums_step, int rows, float* y,
                         int64_t y_step, float* memory) {
  float* by = memory + w.blocks + 2 * lanes;
  for (int64_t j = 0; j < columns; ++j) {
    scales_of_row(w, j, 0, w.blocks, memory);
    scaled_zeros(w, j, 0, w.blocks, memory, by);
    for (int m = 0; m < rows; ++m) {
      const float* sums = a_sums + m * sums_step;
      F32 total = splat(0.0f);
      for_registers(w.blocks, [&](int64_t i, int64_t count) { total = fma(load(by + i), get(sums + i, count), total); });
      y[m * y_step + j] = -sum(total);
    }
  }
}

}  // namespace smelt::SMELT_ISA
