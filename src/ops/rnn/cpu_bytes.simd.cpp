// Products of bytes: AVX-512's dot products of four; AVX2's of two, which add in 16 bits what is known to fit them; else bytes are widened to
// pairs of 16-bit integers.
#include "expr/simd/reduce.h"
#include "ops/rnn/simd/byte_products.h"
#include "ops/rnn/simd/products.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::BytePanelProduct;

constexpr int gates = ops::byte_gates;

#ifdef __AVX2__
SMELT_INLINE I32 load_int(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
SMELT_INLINE void store_int(int32_t* p, I32 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.v); }
SMELT_INLINE I32 times(I32 a, I32 b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
#else
/// 2 · lanes bytes as 16-bit integers.
SMELT_INLINE I32 widened(const int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8)};
}
/// Adds the products of pairs of 16-bit integers.
SMELT_INLINE I32 add_pairs(I32 a, I32 b, I32 sum) { return {_mm_add_epi32(sum.v, _mm_madd_epi16(a.v, b.v))}; }
SMELT_INLINE I32 load_int(const int32_t* p) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))}; }
SMELT_INLINE void store_int(int32_t* p, I32 v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v.v); }
/// SSE2 multiplies the even lanes only, into 64 bits.
SMELT_INLINE I32 times(I32 a, I32 b) {
  const __m128i even = _mm_mul_epu32(a.v, b.v), odd = _mm_mul_epu32(_mm_srli_si128(a.v, 4), _mm_srli_si128(b.v, 4));
  return {_mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08))};
}
#endif

/// Four bytes of a row: a pair of 16-bit values, or four values.
SMELT_INLINE int32_t group_of(const void* a, int64_t at) {
  int32_t group;
  std::memcpy(&group, static_cast<const char*>(a) + at, sizeof group);
  return group;
}

/// Takes the zero points out of a row's sums of one panel, and scales them.
SMELT_INLINE void finish(const BytePanelProduct& p, int64_t n, int64_t r, const I32 (&sums)[gates]) {
  const ops::QuantizedRow& row = p.a_rows[r * p.a_row_step];
  const I32 zero = splat(row.zero), row_sum = splat(p.row_sums ? p.row_sums[r] : row.sum);
  const F32 scale = splat(row.scale);
  for (int g = 0; g < gates; ++g) {
    const int64_t at = (n * gates + g) * lanes;
    const I32 sum = sums[g] - times(zero, load_int(p.offsets + at)) - times(row_sum, load_int(p.zeros + at));
    const F32 y = to_float(sum) * (scale * load(p.scales + at));
    store(p.sums + r * p.sums_stride + at, p.start ? y + load(p.start + at) : y);
  }
}

#ifndef __AVX2__
template <int rows> SMELT_INLINE void pairs_tile(const BytePanelProduct& p, int64_t n, int64_t first) {
  constexpr int64_t step = 2 * gates * lanes;
  const int8_t* panel = p.panels + n * p.groups * step;
  const char* a = static_cast<const char*>(p.a) + first * p.a_stride;
  I32 v[rows][gates];
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < gates; ++g) v[r][g] = splat(int32_t{0});
  }
  for (int64_t i = 0; i < p.groups; ++i, panel += step) {
    I32 x[rows];
    for (int r = 0; r < rows; ++r) x[r] = splat(group_of(a, r * p.a_stride + 4 * i));
    for (int g = 0; g < gates; ++g) {
      const I32 b = widened(panel + 2 * g * lanes);
      for (int r = 0; r < rows; ++r) v[r][g] = add_pairs(x[r], b, v[r][g]);
    }
  }
  for (int r = 0; r < rows; ++r) finish(p, n, first + r, v[r]);
}

constexpr int pairs_rows = 2;  // eight sums, and a register more for each product than floats need

void product_of_pairs(const BytePanelProduct& p) {
  for (int64_t n = 0; n < p.count; ++n) {
    for (int64_t r = 0; r < p.rows; r += pairs_rows)
      with_rows<pairs_rows>(p.rows - r, [&]<int rows>() { pairs_tile<rows>(p, n, r); });
  }
}
#else
/// Adds what bytes make with weights whose products fit 16 bits two by two.
SMELT_INLINE I32 add_quads(__m256i bytes, __m256i weights, I32 sum) {
  return {_mm256_add_epi32(sum.v, _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, weights), _mm256_set1_epi16(1)))};
}

template <int rows> SMELT_INLINE void quads_tile(const BytePanelProduct& p, int64_t n, int64_t first) {
  constexpr int64_t block = 4 * lanes;
  const int8_t* panel = p.panels + n * p.groups * gates * block;
  const char* a = static_cast<const char*>(p.a) + first * p.a_stride;
  const auto weights = [](const int8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
  I32 v[rows][gates];
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < gates; ++g) v[r][g] = splat(int32_t{0});
  }
  for (int64_t i = 0; i < p.groups; ++i, panel += gates * block) {
    __m256i x[rows];
    for (int r = 0; r < rows; ++r) x[r] = _mm256_set1_epi32(group_of(a, r * p.a_stride + 4 * i));
    for (int g = 0; g < gates; ++g) {
      const __m256i b = weights(panel + g * block);
      for (int r = 0; r < rows; ++r) v[r][g] = add_quads(x[r], b, v[r][g]);
    }
  }
  for (int g = 0; g < gates; ++g) {
    for (int32_t s = p.split.begin[n * gates + g]; s < p.split.begin[n * gates + g + 1]; ++s) {
      const __m256i b = weights(p.split.weights + s * block);
      for (int r = 0; r < rows; ++r)
        v[r][g] = add_quads(_mm256_set1_epi32(group_of(a, r * p.a_stride + int64_t{4} * p.split.groups[s])), b, v[r][g]);
    }
  }
  for (int r = 0; r < rows; ++r) finish(p, n, first + r, v[r]);
}

/// The sums of `count` gates from `gate` on, in 32 bits: a lane's two, of the first and of the last two of its weights, lie beside each other.
template <int rows, int count>
SMELT_INLINE void wide_quads(const BytePanelProduct& p, int64_t n, int64_t first, int gate, I32 (&sums)[rows][gates]) {
  constexpr int64_t block = 4 * lanes;
  const int8_t* panel = p.panels + (n * p.groups * gates + gate) * block;
  const char* a = static_cast<const char*>(p.a) + first * p.a_stride;
  __m256i v[rows][count][2];
  for (auto& row : v)
    for (auto& of_gate : row) of_gate[0] = of_gate[1] = _mm256_setzero_si256();
  for (int64_t i = 0; i < p.groups; ++i, panel += gates * block) {
    __m256i x[rows];
    for (int r = 0; r < rows; ++r) x[r] = _mm256_cvtepu8_epi16(_mm_set1_epi32(group_of(a, r * p.a_stride + 4 * i)));
    for (int g = 0; g < count; ++g) {
      for (int half = 0; half < 2; ++half) {
        const auto* at = reinterpret_cast<const __m128i*>(panel + g * block + half * block / 2);
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(at));
        for (int r = 0; r < rows; ++r) v[r][g][half] = _mm256_add_epi32(v[r][g][half], _mm256_madd_epi16(x[r], b));
      }
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < count; ++g)
      sums[r][gate + g] = {_mm256_permute4x64_epi64(_mm256_hadd_epi32(v[r][g][0], v[r][g][1]), 0b11'01'10'00)};
}

template <int rows> SMELT_INLINE void wide_quads_tile(const BytePanelProduct& p, int64_t n, int64_t first) {
  constexpr int at_once = gates / rows;  // as many as registers have room for
  I32 sums[rows][gates];
  for (int gate = 0; gate < gates; gate += at_once) wide_quads<rows, at_once>(p, n, first, gate, sums);
  for (int r = 0; r < rows; ++r) finish(p, n, first + r, sums[r]);
}

constexpr int quads_rows = 2;

void product_of_quads(const BytePanelProduct& p) {
  for (int64_t n = 0; n < p.count; ++n) {
    for (int64_t r = 0; r < p.rows; r += quads_rows) {
      with_rows<quads_rows>(p.rows - r, [&]<int rows>() {
        if (p.split.begin)
          quads_tile<rows>(p, n, r);
        else
          wide_quads_tile<rows>(p, n, r);
      });
    }
  }
}
#endif

#ifdef __AVX2__
#define SMELT_DOT __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")))

template <int rows> SMELT_DOT void dot_tile(const BytePanelProduct& p, int64_t n, int64_t first) {
  constexpr int chains = rows * gates < 8 ? 2 : 1;
  constexpr int64_t step = 4 * gates * lanes;
  const int8_t* panel = p.panels + n * p.groups * step;
  const char* a = static_cast<const char*>(p.a) + first * p.a_stride;
  __m256i v[chains][rows][gates];
  for (int c = 0; c < chains; ++c) {
    for (int r = 0; r < rows; ++r) {
      for (int g = 0; g < gates; ++g) v[c][r][g] = _mm256_setzero_si256();
    }
  }
  int64_t i = 0;
  for (; i + chains <= p.groups; i += chains) {
    for (int c = 0; c < chains; ++c, panel += step) {
      __m256i x[rows];
      for (int r = 0; r < rows; ++r) x[r] = _mm256_set1_epi32(group_of(a, r * p.a_stride + 4 * (i + c)));
      for (int g = 0; g < gates; ++g) {
        __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + 4 * g * lanes));
        if constexpr (rows > 1) asm("" : "+v"(b));  // as hold() does
        for (int r = 0; r < rows; ++r) v[c][r][g] = _mm256_dpbusd_epi32(v[c][r][g], x[r], b);
      }
    }
  }
  for (; i < p.groups; ++i, panel += step) {
    for (int g = 0; g < gates; ++g) {
      const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + 4 * g * lanes));
      for (int r = 0; r < rows; ++r)
        v[0][r][g] = _mm256_dpbusd_epi32(v[0][r][g], _mm256_set1_epi32(group_of(a, r * p.a_stride + 4 * i)), b);
    }
  }
  for (int r = 0; r < rows; ++r) {
    I32 sums[gates];
    for (int g = 0; g < gates; ++g) {
      for (int c = 1; c < chains; ++c) v[0][r][g] = _mm256_add_epi32(v[0][r][g], v[c][r][g]);
      sums[g] = {v[0][r][g]};
    }
    finish(p, n, first + r, sums);
  }
}

constexpr int dot_rows = 4;

void product_of_dots(const BytePanelProduct& p) {
  for (int64_t n = 0; n < p.count; ++n) {
    for (int64_t r = 0; r < p.rows; r += dot_rows) with_rows<dot_rows>(p.rows - r, [&]<int rows>() { dot_tile<rows>(p, n, r); });
  }
}
#endif

void range(const float* x, int64_t n, float* low, float* high) {
  F32 least = splat(*low), most = splat(*high);
  for_registers(n, [&](int64_t i, int64_t count) {
    // Zeros behind the end are within the range, which holds zero.
    const F32 v = get(x + i, count);
    least = raw_min(v, least), most = raw_max(v, most);
  });
  float a[lanes], b[lanes];
  store(a, least), store(b, most);
  for (int i = 0; i < lanes; ++i) {
    *low = a[i] < *low ? a[i] : *low;
    *high = b[i] > *high ? b[i] : *high;
  }
}

/// lanes values within 0 … 255.
SMELT_INLINE void store_narrow(int16_t* to, I32 q) {
#ifdef __AVX2__
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packs_epi32(_mm256_castsi256_si128(q.v), _mm256_extracti128_si256(q.v, 1)));
#else
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(q.v, q.v));
#endif
}
#ifdef __AVX2__
SMELT_INLINE void store_narrow(uint8_t* to, I32 q) {
  const __m128i narrow = _mm_packs_epi32(_mm256_castsi256_si128(q.v), _mm256_extracti128_si256(q.v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(narrow, narrow));
}
#endif

template <class T> int32_t quantize(const float* x, int64_t n, float scale, int32_t zero, void* data) {
  T* to = static_cast<T*>(data);
  const F32 by = splat(scale), offset = splat(static_cast<float>(zero));
  I32 sum = splat(int32_t{0});
  int32_t total = 0;
  for_registers(n, [&](int64_t i, int64_t count) {
    const I32 q = to_int(raw_min(raw_max(rint(get(x + i, count) / by) + offset, F32(0)), F32(255)));
    if (count == lanes) {
      store_narrow(to + i, q);
      sum = sum + q;
    } else {
      int32_t all[lanes];
      store_int(all, q);
      for (int64_t e = 0; e < count; ++e) {
        to[i + e] = static_cast<T>(all[e]);
        total += all[e];
      }
    }
  });
  int32_t all[lanes];
  store_int(all, sum);
  for (int32_t e : all) total += e;
  return total;
}

}  // namespace

const ops::ByteProducts& byte_products() {
#ifdef __AVX2__
  static constexpr ops::ByteProducts table = {lanes, 4, 1, product_of_quads, range, quantize<uint8_t>, true};
#else
  static constexpr ops::ByteProducts table = {lanes, 2, 2, product_of_pairs, range, quantize<int16_t>};
#endif
  return table;
}

#ifdef __AVX2__
const ops::ByteProducts& byte_dot_products() {
  static constexpr ops::ByteProducts table = {lanes, 4, 1, product_of_dots, range, quantize<uint8_t>};
  return table;
}
#endif

}  // namespace smelt::SMELT_ISA
