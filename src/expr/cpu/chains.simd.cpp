// The loops of chains (expr/cpu/chains.h), in f32.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // g++ 12 warns of its own AVX-512 headers
#endif
#include <type_traits>

#include "expr/cpu/chain_blocks.h"
#include "expr/simd/narrow.h"
#include "expr/simd/scalar.h"
#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

using expr::BlockType;
using expr::ChainNumbers;
using expr::ChainTable;

constexpr int64_t chunk = 64;  // elements that a loop of several steps takes through each of them

/// Whether all lanes are true.
SMELT_INLINE bool all(Mask m) {
#if defined(__AVX512F__)
  return m.v == 0xffff;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(m.v) == 0xff;
#else
  return _mm_movemask_ps(m.v) == 0xf;
#endif
}

/// More than an integer of 22 bits, a float whose last bits they are; sums and differences of both are exact. Some processors take
/// conversions on one of their ports alone.
constexpr float in_last_bits = 0x1.8p23f;
constexpr int32_t last_bits = 0x4b400000;

/// `lanes` integers of 8 or 16 bits as numbers, in_last_bits more.
template <class T> SMELT_INLINE F32 load_integers(const T* p) {
  [[maybe_unused]] constexpr bool is_signed = std::is_signed_v<T>;
  I32 v;
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 2) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    v = {is_signed ? _mm512_cvtepi16_epi32(words) : _mm512_cvtepu16_epi32(words)};
  } else {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    v = {is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes)};
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 2) {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    v = {is_signed ? _mm256_cvtepi16_epi32(words) : _mm256_cvtepu16_epi32(words)};
  } else {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    v = {is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes)};
  }
#else
  v = {_mm_setr_epi32(p[0], p[1], p[2], p[3])};
#endif
  return as_float(v + splat(last_bits));
}
/// Four registers of whole numbers, `shift` added, as bytes that end with the type's limits.
template <class T> SMELT_INLINE void store_saturated(T* to, const I32* v, int16_t shift) {
#if defined(__AVX512F__)
  const __m512i more = _mm512_set1_epi16(shift);
  const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(v[0].v, v[1].v), more),
                b = _mm512_adds_epi16(_mm512_packs_epi32(v[2].v, v[3].v), more);
  const __m512i bytes = std::is_signed_v<T> ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
#elif defined(__AVX2__)
  const __m256i more = _mm256_set1_epi16(shift);
  const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(v[0].v, v[1].v), more),
                b = _mm256_adds_epi16(_mm256_packs_epi32(v[2].v, v[3].v), more);
  const __m256i bytes = std::is_signed_v<T> ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
#else
  const __m128i more = _mm_set1_epi16(shift);
  const __m128i a = _mm_adds_epi16(_mm_packs_epi32(v[0].v, v[1].v), more),
                b = _mm_adds_epi16(_mm_packs_epi32(v[2].v, v[3].v), more);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), std::is_signed_v<T> ? _mm_packs_epi16(a, b) : _mm_packus_epi16(a, b));
#endif
}

/// Two registers of whole numbers within the type's limits, as 16 bits.
template <class T> SMELT_INLINE void store_words(T* to, I32 low, I32 high) {
  [[maybe_unused]] constexpr bool is_signed = std::is_signed_v<T>;
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(low.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + 1, _mm512_cvtepi32_epi16(high.v));
#elif defined(__AVX2__)
  const __m256i words = is_signed ? _mm256_packs_epi32(low.v, high.v) : _mm256_packus_epi32(low.v, high.v);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(words, 0xD8));
#else  // an unsigned pack is none of SSE2's: the upper half is made the sign
  const auto as_signed = [](__m128i v) { return is_signed ? v : _mm_srai_epi32(_mm_slli_epi32(v, 16), 16); };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(as_signed(low.v), as_signed(high.v)));
#endif
}

template <class From> void dequantize_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const From* a = static_cast<const From*>(pa);
  const int32_t* b = static_cast<const int32_t*>(pb);
  const float* c = static_cast<const float*>(pc);
  float* o = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<float>(static_cast<int32_t>(a[i]) - b[i]) * c[i];
}

template <class From> void dequantize_by_one_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const From* a = static_cast<const From*>(pa);
  const int32_t zero = *static_cast<const int32_t*>(pb);
  const float scale = *static_cast<const float*>(pc);
  const F32 zeros = splat(in_last_bits + static_cast<float>(zero)), scales = splat(scale);
  float* o = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    store(o + i, (load_integers(a + i) - zeros) * scales);
    store(o + i + lanes, (load_integers(a + i + lanes) - zeros) * scales);
  }
  for (; i < n; ++i) o[i] = static_cast<float>(static_cast<int32_t>(a[i]) - zero) * scale;
}

template <class T> inline constexpr T smallest_of = std::is_signed_v<T> ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0);
template <class T> inline constexpr T largest_of = T(~smallest_of<T>);

/// Of at most `chunk` numbers.
template <class To> SMELT_INLINE void quantize_few(To* o, const float* a, const float* b, const float* c, int64_t n) {
  const F32 low = F32(static_cast<double>(smallest_of<To>)), high = F32(static_cast<double>(largest_of<To>));
  float v[chunk];
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const bool whole = left >= lanes;
    const F32 x = whole ? load(a + i) : load_first(a + i, left), y = whole ? load(b + i) : load_first(b + i, left),
              z = whole ? load(c + i) : load_first(c + i, left);
    store(v + i, nan_min(nan_max(rint(x / y) + z, low), high));
  }
#ifdef __AVX2__
  convert_in_registers(v, o, n);
#else
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = converted<To>(v[i]);
#endif
}

template <class To> void quantize_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb), *c = static_cast<const float*>(pc);
  for (int64_t i = 0; i < n; i += chunk)
    quantize_few(static_cast<To*>(out) + i, a + i, b + i, c + i, n - i < chunk ? n - i : chunk);
}

/// The nearest whole numbers to `chunk` quotients, and their zero point added, as bytes: by a product with the inverse, which is off by
/// less than 2^-13 within the limits of 8 bits, and beyond them within the same end. Where one comes as near to a half as that, is NaN
/// or no i32, or where zero is no i16, the division decides.
template <class To> class Quantizer {
 public:
  Quantizer(float divisor, float zero)
      : divisor_(divisor),
        zero_(zero),
        inverse_(splat(is_short(zero) ? 1 / divisor : __builtin_nanf(""))),
        shift_(is_short(zero) ? static_cast<int16_t>(zero) : int16_t{0}) {}

  /// number(k): the dividends k to k + lanes - 1. `to` may hold what they are made of.
  template <class X> SMELT_INLINE void run(To* to, X number) const {
    const F32 near_half = splat(0.5f - 0x1p-13f);
    I32 whole[chunk / lanes];
    bool certain = true;
#pragma GCC unroll 16
    for (int r = 0; r < chunk / lanes; ++r) {
      const F32 v = number(r * lanes) * inverse_;
      whole[r] = to_int(v);
      certain &= all(abs(v - to_float(whole[r])) < near_half);
    }
    if (__builtin_expect(!certain, 0)) return divide(to, number);
#pragma GCC unroll 4
    for (int r = 0; r < chunk / lanes; r += 4) store_saturated(to + r * lanes, whole + r, shift_);
  }

 private:
  template <class X> __attribute__((noinline)) void divide(To* to, X number) const {
    float x[chunk], divisors[chunk], zeros[chunk];
    for (int64_t k = 0; k < chunk; k += lanes)
      store(x + k, number(k)), store(divisors + k, splat(divisor_)), store(zeros + k, splat(zero_));
    quantize_few(to, x, divisors, zeros, chunk);
  }

  static bool is_short(float zero) { return zero >= -32768 && zero <= 32767; }

  float divisor_, zero_;
  F32 inverse_;  // NaN: the division decides
  int16_t shift_;
};

/// The same to 16 bits. It divides: a product with the inverse is off by up to 2^-6, so that some of a chunk's would be too near to a half.
template <class To> class WordQuantizer {
 public:
  WordQuantizer(float divisor, float zero)
      : divisor_(splat(divisor)),
        less_zero_(splat(-zero)),
        low_(splat(static_cast<float>(smallest_of<To>) - zero)),
        high_(splat(static_cast<float>(largest_of<To>) - zero)),
        to_whole_(splat(last_bits - static_cast<int32_t>(zero))) {}

  template <class X> SMELT_INLINE void run(To* to, X number) const {
    I32 whole[chunk / lanes];
#pragma GCC unroll 16
    for (int r = 0; r < chunk / lanes; ++r) {
      const F32 v = number(r * lanes) / divisor_, defined = pick(v == v, v, less_zero_);  // NaN becomes 0
      // Bounds are whole, so that rounding after them is the same.
      whole[r] = bits(raw_min(raw_max(defined, low_), high_) + splat(in_last_bits)) - to_whole_;
    }
#pragma GCC unroll 8
    for (int r = 0; r < chunk / lanes; r += 2) store_words(to + r * lanes, whole[r], whole[r + 1]);
  }

 private:
  F32 divisor_, less_zero_, low_, high_;
  I32 to_whole_;
};

template <class To> using QuantizerOf = std::conditional_t<sizeof(To) == 1, Quantizer<To>, WordQuantizer<To>>;

template <class To> void quantize_by_one_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb), *c = static_cast<const float*>(pc);
  To* o = static_cast<To*>(out);
  const QuantizerOf<To> q(*b, *c);
  int64_t i = 0;
  for (; i + chunk <= n; i += chunk) q.run(o + i, [&](int64_t k) { return load(a + i + k); });
  if (i < n) quantize_few(o + i, a + i, b, c, n - i);
}

/// A product that is rounded before anything is added to it.
SMELT_INLINE F32 rounded(F32 v) {
#ifdef __AVX512F__
  __asm__("" : "+v"(v.v));
#else
  __asm__("" : "+x"(v.v));
#endif
  return v;
}

/// Of whole chunks.
template <class T, bool product, class B>
SMELT_INLINE void combine(T* o, const T* a, const B* b, const ChainNumbers& p, int64_t n) {
  const QuantizerOf<T> q(p.divisor, p.shift);
  const F32 zero_a = splat(in_last_bits + p.zero[0]), zero_b = splat(in_last_bits + p.zero[1]), scale_a = splat(p.scale[0]),
            scale_b = splat(p.scale[1]);
  for (int64_t i = 0; i < n; i += chunk)
    q.run(o + i, [&](int64_t k) {
      const F32 x = rounded((load_integers(a + i + k) - zero_a) * scale_a);
      F32 y;
      if constexpr (std::is_integral_v<B>)
        y = rounded((load_integers(b + i + k) - zero_b) * scale_b);
      else
        y = load(b + i + k);
      return product ? x * y : x + y;
    });
}

template <class T, bool product, class B>
void combine_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const B* b = static_cast<const B*>(pb);
  const ChainNumbers& p = *static_cast<const ChainNumbers*>(pc);
  T* o = static_cast<T*>(out);
  const int64_t whole = n / chunk * chunk, rest = n - whole;
  combine<T, product, B>(o, a, b, p, whole);
  if (rest == 0) return;
  T last_a[chunk] = {}, last[chunk];
  B last_b[chunk] = {};
  std::memcpy(last_a, a + whole, static_cast<size_t>(rest) * sizeof(T));
  std::memcpy(last_b, b + whole, static_cast<size_t>(rest) * sizeof(B));
  combine<T, product, B>(last, last_a, last_b, p, chunk);
  std::memcpy(o + whole, last, static_cast<size_t>(rest) * sizeof(T));
}

template <class T> constexpr void fill(ChainTable& t, BlockType type) {
  t.dequantize[static_cast<int>(type)] = dequantize_block<T>;
  t.dequantize_by_one[static_cast<int>(type)] = dequantize_by_one_block<T>;
  t.quantize[static_cast<int>(type)] = quantize_block<T>;
  t.quantize_by_one[static_cast<int>(type)] = quantize_by_one_block<T>;
  t.combine[0][0][static_cast<int>(type)] = combine_block<T, false, float>;
  t.combine[0][1][static_cast<int>(type)] = combine_block<T, false, T>;
  t.combine[1][0][static_cast<int>(type)] = combine_block<T, true, float>;
  t.combine[1][1][static_cast<int>(type)] = combine_block<T, true, T>;
}

constexpr ChainTable make_table() {
  ChainTable t{};
  fill<int8_t>(t, BlockType::i8);
  fill<uint8_t>(t, BlockType::u8);
  fill<int16_t>(t, BlockType::i16);
  fill<uint16_t>(t, BlockType::u16);
  return t;
}

constexpr ChainTable table = make_table();

}  // namespace

const ChainTable& chain_table() { return table; }

}  // namespace smelt::SMELT_ISA
