// The loops of chains (expr/cpu/chains.h), in f32.
#include <type_traits>

#include "expr/cpu/chain_blocks.h"
#include "expr/simd/scalar.h"
#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

using expr::BlockType;
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

template <class From> void dequantize_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const From* a = static_cast<const From*>(pa);
  const int32_t* b = static_cast<const int32_t*>(pb);
  const float* c = static_cast<const float*>(pc);
  float* o = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<float>(static_cast<int32_t>(a[i]) - b[i]) * c[i];
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
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = converted<To>(v[i]);
}

template <class To> void quantize_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb), *c = static_cast<const float*>(pc);
  for (int64_t i = 0; i < n; i += chunk)
    quantize_few(static_cast<To*>(out) + i, a + i, b + i, c + i, n - i < chunk ? n - i : chunk);
}

/// By a product with the inverse, which is off by less than 2^-13 within the limits of 8 bits: where it comes as near to a half as
/// that, or is NaN, the division decides.
template <class To> void quantize_by_one_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb), *c = static_cast<const float*>(pc);
  To* o = static_cast<To*>(out);
  const F32 inverse = splat(1 / *b), near_half = splat(0.5f - 0x1p-13f);
  const F32 low = splat(static_cast<float>(smallest_of<To>) - *c), high = splat(static_cast<float>(largest_of<To>) - *c);
  const int32_t zero = static_cast<int32_t>(*c);
  int64_t i = 0;
  for (; i + chunk <= n; i += chunk) {
    int32_t whole[chunk];
    bool certain = true;
    for (int64_t k = 0; k < chunk; k += lanes) {
      const F32 v = raw_min(high, raw_max(low, load(a + i + k) * inverse));  // NaN stays so
      const I32 nearest = to_int(v);
      std::memcpy(whole + k, &nearest, sizeof nearest);
      certain &= all(abs(v - to_float(nearest)) < near_half);
    }
    if (!certain) {
      quantize_few(o + i, a + i, b, c, chunk);
      continue;
    }
    for (int64_t k = 0; k < chunk; ++k) o[i + k] = static_cast<To>(whole[k] + zero);
  }
  if (i < n) quantize_few(o + i, a + i, b, c, n - i);
}

template <class T> constexpr void fill(ChainTable& t, BlockType type) {
  t.dequantize[static_cast<int>(type)] = dequantize_block<T>;
  t.quantize[static_cast<int>(type)] = quantize_block<T>;
  if (sizeof(T) == 1) t.quantize_by_one[static_cast<int>(type)] = quantize_by_one_block<T>;
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
