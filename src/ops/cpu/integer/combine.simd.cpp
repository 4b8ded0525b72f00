// Additions and products of quantized rows. By multiplication with what the scales are of the divisor, and where that lies too near
// to a half by the steps of the program. Bytes have 65,536 pairs: where the first way is right of all of them, nothing is looked at.
#ifdef __AVX2__
#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "ops/cpu/integer/simd/combine.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::integer::Combination;
using ops::integer::CombinedRow;

#define SMELT_LANES inline __attribute__((always_inline))

/// Behind the addition of 1.5 · 2^23 a float's last bits are its whole number, of numbers within 2^22.
constexpr float to_last_bits = 0x1.8p23f;
constexpr int32_t last_bits = 0x4b400000;

#ifdef __AVX512F__
constexpr int lanes = 16;
using Floats = __m512;
using Whole = __m512i;
using Bytes = __m128i;
SMELT_LANES Floats all(float x) { return _mm512_set1_ps(x); }
SMELT_LANES Bytes load_bytes(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const Bytes*>(p)); }
SMELT_LANES Floats numbers(Bytes b) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(b)); }
SMELT_LANES Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
SMELT_LANES Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
SMELT_LANES Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
SMELT_LANES Floats div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
SMELT_LANES Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
SMELT_LANES Floats clamped(Floats v, Floats low, Floats high) { return _mm512_min_ps(_mm512_max_ps(v, low), high); }
/// The larger of a and b's magnitude.
SMELT_LANES Floats farther(Floats a, Floats b) { return _mm512_max_ps(a, _mm512_abs_ps(b)); }
SMELT_LANES bool any_from(Floats v, Floats near) { return _mm512_cmp_ps_mask(v, near, _CMP_NLT_UQ) != 0; }
SMELT_LANES Whole rounded(Floats v) { return _mm512_cvtps_epi32(v); }
SMELT_LANES Whole bits(Floats v) { return _mm512_castps_si512(v); }
SMELT_LANES Whole whole(int32_t x) { return _mm512_set1_epi32(x); }
SMELT_LANES Whole add(Whole a, Whole b) { return _mm512_add_epi32(a, b); }
SMELT_LANES Whole clamped(Whole v, Whole low, Whole high) { return _mm512_min_epi32(_mm512_max_epi32(v, low), high); }
SMELT_LANES Whole different(Whole a, Whole b) { return _mm512_xor_si512(a, b); }
SMELT_LANES Whole either(Whole a, Whole b) { return _mm512_or_si512(a, b); }
/// Numbers of a byte each, of so many registers; `saturates`: others too, which become the nearest of u8.
constexpr bool stores_saturate = false;
template <int registers, bool saturates> SMELT_LANES void store(uint8_t* to, const Whole* v) {
  static_assert(!saturates);
  for (int j = 0; j < registers; ++j) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + lanes * j), _mm512_cvtepi32_epi8(v[j]));
}
#else
constexpr int lanes = 8;
using Floats = __m256;
using Whole = __m256i;
using Bytes = __m128i;
SMELT_LANES Floats all(float x) { return _mm256_set1_ps(x); }
SMELT_LANES Bytes load_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const Bytes*>(p)); }
SMELT_LANES Floats numbers(Bytes b) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)); }
SMELT_LANES Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
SMELT_LANES Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
SMELT_LANES Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
SMELT_LANES Floats div(Floats a, Floats b) { return _mm256_div_ps(a, b); }
SMELT_LANES Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
SMELT_LANES Floats clamped(Floats v, Floats low, Floats high) { return _mm256_min_ps(_mm256_max_ps(v, low), high); }
SMELT_LANES Floats farther(Floats a, Floats b) { return _mm256_max_ps(a, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), b)); }
SMELT_LANES bool any_from(Floats v, Floats near) { return _mm256_movemask_ps(_mm256_cmp_ps(v, near, _CMP_NLT_UQ)) != 0; }
SMELT_LANES Whole rounded(Floats v) { return _mm256_cvtps_epi32(v); }
SMELT_LANES Whole bits(Floats v) { return _mm256_castps_si256(v); }
SMELT_LANES Whole whole(int32_t x) { return _mm256_set1_epi32(x); }
SMELT_LANES Whole add(Whole a, Whole b) { return _mm256_add_epi32(a, b); }
SMELT_LANES Whole clamped(Whole v, Whole low, Whole high) { return _mm256_min_epi32(_mm256_max_epi32(v, low), high); }
SMELT_LANES Whole different(Whole a, Whole b) { return _mm256_xor_si256(a, b); }
SMELT_LANES Whole either(Whole a, Whole b) { return _mm256_or_si256(a, b); }
/// Packing works within halves, and the last permutation puts groups of 4 in order.
constexpr bool stores_saturate = true;
template <int registers, bool saturates> SMELT_LANES void store(uint8_t* to, const Whole* v) {
  if constexpr (registers == 1) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v[0]), _mm256_extracti128_si256(v[0], 1));
    const __m128i bytes = saturates ? words : _mm_and_si128(words, _mm_set1_epi16(255));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(bytes, bytes));
    return;
  }
  static_assert(registers == 1 || registers == 4);
  const __m256i last = _mm256_set1_epi16(255);
  __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);
  if constexpr (!saturates) a = _mm256_and_si256(a, last), b = _mm256_and_si256(b, last);
  const __m256i in_order = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), in_order);
}
#endif

/// One side: signed bytes become unsigned ones that are 128 more.
struct Side {
  Floats zero, scale;
  Bytes flip;
  explicit Side(const Combination::Side& s)
      : zero(all(static_cast<float>(s.zero + (s.is_signed ? 128 : 0)))),
        scale(all(s.scale)),
        flip(_mm_set1_epi8(static_cast<char>(s.is_signed ? 0x80 : 0))) {}
  template <bool plain> SMELT_LANES Floats load(const uint8_t* p) const {
    return numbers(plain ? load_bytes(p) : _mm_xor_si128(load_bytes(p), flip));
  }
};

/// Of u8 throughout, and the results of its whole range.
bool is_plain(const Combination& c) {
  return !c.sides[0].is_signed && !c.sides[1].is_signed && static_cast<int32_t>(c.low) + c.zero == 0 &&
         static_cast<int32_t>(c.high) + c.zero == 255;
}

template <bool multiplies> struct Numbers {
  Side a, b;
  Floats of_a, of_b, constant, divisor, low, high, near;
  Whole zero, less, least, most;

  explicit Numbers(const Combination& c)
      : a(c.sides[0]),
        b(c.sides[1]),
        divisor(all(c.divisor)),
        low(all(c.low)),
        high(all(c.high)),
        zero(whole(c.zero)),
        less(whole(c.zero - last_bits)),
        least(whole(static_cast<int32_t>(c.low) + c.zero)),
        most(whole(static_cast<int32_t>(c.high) + c.zero)) {
    const float scale_a = c.sides[0].scale, scale_b = c.sides[1].scale;
    const float factor_a = multiplies ? scale_a * scale_b / c.divisor : scale_a / c.divisor, factor_b = scale_b / c.divisor;
    of_a = all(factor_a);
    of_b = all(factor_b);
    const auto zero_of = [&](int i) { return static_cast<float>(c.sides[i].zero + (c.sides[i].is_signed ? 128 : 0)); };
    constant = all(-zero_of(0) * factor_a - zero_of(1) * factor_b);
    // The guess and the program round some eight times, of numbers up to `far`. Where that is no number, all is doubtful.
    const float far = multiplies ? 0x1p18f * std::abs(factor_a) : 0x1p9f * (std::abs(factor_a) + std::abs(factor_b));
    near = all(0.5f - 0x1p-20f * far);
  }

  /// `x`, `y`: bytes as floats, the zero points not taken off.
  SMELT_LANES Whole exact(Floats x, Floats y) const {
    const Floats p = mul(sub(x, a.zero), a.scale), q = mul(sub(y, b.zero), b.scale);
    return add(rounded(clamped(div(multiplies ? mul(p, q) : add(p, q), divisor), low, high)), zero);
  }
  /// `y`: of a product less its zero point, of a sum times its factor and more by the constant.
  SMELT_LANES Floats prepared(Floats y) const { return multiplies ? mul(sub(y, b.zero), of_a) : fma(y, of_b, constant); }
  /// Without doubts, not clamped.
  SMELT_LANES Whole sure(Floats x, Floats y) const {
    return add(rounded(multiplies ? mul(sub(x, a.zero), y) : fma(x, of_a, y)), zero);
  }
  /// `saturates`: what stores it does.
  template <bool saturates> SMELT_LANES Whole guess(Floats x, Floats y, Floats& doubtful) const {
    const Floats v = multiplies ? mul(sub(x, a.zero), y) : fma(x, of_a, y), shifted = add(v, all(to_last_bits));
    doubtful = farther(doubtful, sub(v, sub(shifted, all(to_last_bits))));
    const Whole made = add(bits(shifted), less);
    return saturates ? made : clamped(made, least, most);
  }
};

template <bool multiplies, bool repeats, bool plain, bool is_sure>
void combine_rows(const Combination& c, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* to) {
  constexpr bool saturates = plain && stores_saturate;
  const Numbers<multiplies> with(c);
  uint8_t one[16];
  std::memset(one, *b, sizeof one);
  const Floats of_all = with.b.template load<plain>(one), prepared = with.prepared(of_all);
  int64_t i = 0;
  // What is left behind whole registers ends with a register of its own, which is read before an output in place of an operand is
  // written.
  const bool ends = n >= lanes && n % lanes != 0;
  Whole last;
  if (ends)
    last = with.exact(with.a.template load<plain>(a + n - lanes), repeats ? of_all : with.b.template load<plain>(b + n - lanes));
  const auto some = [&]<int registers>() __attribute__((always_inline)) {
    Whole made[registers];
    Floats doubtful = all(0);
#pragma GCC unroll 4
    for (int j = 0; j < registers; ++j) {
      const int64_t at = i + lanes * j;
      const Floats x = with.a.template load<plain>(a + at),
                   y = repeats ? prepared : with.prepared(with.b.template load<plain>(b + at));
      if constexpr (is_sure)
        made[j] = saturates ? with.sure(x, y) : clamped(with.sure(x, y), with.least, with.most);
      else
        made[j] = with.template guess<saturates>(x, y, doubtful);
    }
    if (!is_sure && __builtin_expect(any_from(doubtful, with.near), 0))
      for (int j = 0; j < registers; ++j) {
        const int64_t at = i + lanes * j;
        made[j] = with.exact(with.a.template load<plain>(a + at), repeats ? of_all : with.b.template load<plain>(b + at));
      }
    store<registers, saturates>(to + i, made);
  };
  for (; i + 4 * lanes <= n; i += 4 * lanes) some.template operator()<4>();
  for (; i + lanes <= n; i += lanes) some.template operator()<1>();
  if (ends) {
    store<1, saturates>(to + n - lanes, &last);
  } else if (i < n) {
    const size_t left = static_cast<size_t>(n - i);
    uint8_t x[16] = {}, y[16] = {};
    int32_t made[lanes];
    std::memcpy(x, a + i, left);
    if (!repeats) std::memcpy(y, b + i, left);
    const Whole q = with.exact(with.a.template load<plain>(x), repeats ? of_all : with.b.template load<plain>(y));
    std::memcpy(made, &q, sizeof made);
    for (size_t k = 0; k < left; ++k) to[i + static_cast<int64_t>(k)] = static_cast<uint8_t>(made[k]);
  }
}

template <bool multiplies>
void combine_with(const Combination& c, const uint8_t* a, const uint8_t* b, bool repeats, int64_t n, uint8_t* to) {
  using Rows = decltype(&combine_rows<false, false, false, false>);
  static constexpr Rows rows[2][2][2] = {
      {{combine_rows<multiplies, false, false, false>, combine_rows<multiplies, false, false, true>},
       {combine_rows<multiplies, false, true, false>, combine_rows<multiplies, false, true, true>}},
      {{combine_rows<multiplies, true, false, false>, combine_rows<multiplies, true, false, true>},
       {combine_rows<multiplies, true, true, false>, combine_rows<multiplies, true, true, true>}}};
  rows[repeats][is_plain(c)][c.is_sure](c, a, b, n, to);
}

/// Of every pair of bytes.
template <bool multiplies> bool is_right_throughout(const Combination& c) {
  const Numbers<multiplies> with(c);
  uint8_t all[256], one[16];
  for (int i = 0; i < 256; ++i) all[i] = static_cast<uint8_t>(i);
  for (int b = 0; b < 256; ++b) {
    std::memset(one, b, sizeof one);
    const Floats y = with.b.template load<false>(one), prepared = with.prepared(y);
    Whole differs = whole(0);
    for (int i = 0; i < 256; i += lanes) {
      const Floats x = with.a.template load<false>(all + i);
      differs = either(differs, different(clamped(with.sure(x, prepared), with.least, with.most), with.exact(x, y)));
    }
    int32_t bits[lanes], any = 0;
    std::memcpy(bits, &differs, sizeof bits);
    for (int32_t d : bits) any |= d;
    if (any != 0) return false;
  }
  return true;
}

#undef SMELT_LANES

}  // namespace

void combine(const Combination& c, CombinedRow a, CombinedRow b, int64_t n, uint8_t* to) {
  if (a.repeats && b.repeats) {
    uint8_t one;
    combine(c, {a.bytes, false}, b, 1, &one);
    std::memset(to, one, static_cast<size_t>(n));
    return;
  }
  if (a.repeats) {  // sums and products are the same the other way round
    Combination turned = c;
    turned.sides[0] = c.sides[1], turned.sides[1] = c.sides[0];
    return combine(turned, b, a, n, to);
  }
  c.multiplies ? combine_with<true>(c, a.bytes, b.bytes, b.repeats, n, to)
               : combine_with<false>(c, a.bytes, b.bytes, b.repeats, n, to);
}

bool combines_surely(const Combination& c) { return c.multiplies ? is_right_throughout<true>(c) : is_right_throughout<false>(c); }

}  // namespace smelt::SMELT_ISA
#endif
