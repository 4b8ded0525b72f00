// The block loops: every row of functions.def for every type that it takes, and the casts. Loops with f32 results use F32
// registers; the compiler vectorises the others.
#include "expr/cpu/blocks.h"

#include "expr/simd/gather.h"
#include "expr/simd/half.h"
#include "expr/simd/narrow.h"
#include "expr/simd/scalar.h"
#include "expr/simd/wide_math.h"

#pragma GCC diagnostic ignored "-Wtype-limits"  // sign and leaky_relu compare an unsigned with 0

namespace smelt::SMELT_ISA {
namespace {

using expr::BlockFn;
using expr::BlockTable;
using expr::BlockType;

struct ArgumentTypes {
  bool floating, whole, only_unsigned, boolean;
};
constexpr ArgumentTypes numbers{true, true, false, false}, floats{true, false, false, false}, integers{false, true, false, false},
    unsigneds{false, true, true, false}, booleans{false, false, false, true}, any{true, true, false, true};
enum Result { same, truth };

template <class T> constexpr bool takes(ArgumentTypes t) {
  if constexpr (std::is_same_v<T, bool>)
    return t.boolean;
  else if constexpr (is_floating<T>)
    return t.floating;
  else
    return t.whole && (!t.only_unsigned || std::is_unsigned_v<T>);
}

// A is bool for select and T for all other functions.
#define SMELT_FN(id, arity_, types_, result_, code, onnx)                                                                        \
  struct fn_##id {                                                                                                               \
    static constexpr int arity = arity_;                                                                                         \
    static constexpr ArgumentTypes types = types_;                                                                               \
    static constexpr Result result = result_;                                                                                    \
    template <class A, class T> static SMELT_INLINE auto apply(A a, [[maybe_unused]] T b, [[maybe_unused]] T c) { return code; } \
  };
#include "expr/functions.def"
#undef SMELT_FN

template <class Op> void float_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  float* o = static_cast<float*>(out);
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb), *c = static_cast<const float*>(pc);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const F32 x = load(a + i);
    store(o + i, Op::apply(x, Op::arity > 1 ? load(b + i) : x, Op::arity > 2 ? load(c + i) : x));
  }
  if (const int64_t left = n - i) {
    const F32 x = load_first(a + i, left);
    store_first(o + i, Op::apply(x, Op::arity > 1 ? load_first(b + i, left) : x, Op::arity > 2 ? load_first(c + i, left) : x),
                left);
  }
}

/// How loops read and write T: a bool as its byte, which is 0 or 1, because compilers do not vectorise loops over bools that meet
/// wider types.
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class Op, class T> void plain_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  using S = Stored<T>;
  using R = std::conditional_t<Op::result == truth, uint8_t, S>;
  const S *a = static_cast<const S*>(pa), *b = static_cast<const S*>(pb), *c = static_cast<const S*>(pc);
  R* o = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(Op::apply(a[i], Op::arity > 1 ? b[i] : S(), Op::arity > 2 ? c[i] : S()));
}

/// Elements are chosen by their bits: one loop for each width.
template <class U> void select_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  const uint8_t* chosen = static_cast<const uint8_t*>(pa);
  const U *b = static_cast<const U*>(pb), *c = static_cast<const U*>(pc);
  U* o = static_cast<U*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const U first = static_cast<U>(0 - static_cast<U>(chosen[i]));  // all bits where it is 1
    o[i] = static_cast<U>((b[i] & first) | (c[i] & ~first));
  }
}

/// Every byte but 0 is true to it, as it is to the other logical functions.
void xor_block(void* out, const void* pa, const void* pb, const void*, int64_t n) {
  const uint8_t *a = static_cast<const uint8_t*>(pa), *b = static_cast<const uint8_t*>(pb);
  uint8_t* o = static_cast<uint8_t*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] != 0) != (b[i] != 0);
}

/// By bits: the two comparisons of functions.def's text end early, and such a loop is not vectorised.
template <class T> void is_inf_block(void* out, const void* pa, const void*, const void*, int64_t n) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T infinity = static_cast<T>(__builtin_inf());
  U wanted;
  std::memcpy(&wanted, &infinity, sizeof wanted);
  const T* a = static_cast<const T*>(pa);
  uint8_t* o = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    U u;
    std::memcpy(&u, a + i, sizeof u);
    o[i] = static_cast<U>(u << 1) == static_cast<U>(wanted << 1);
  }
}

template <class Op, class... Of> constexpr bool is_one_of = (std::is_same_v<Op, Of> || ...);
/// Of f32 computed in double, element by element (wide_math.h); the first ones where is_near holds.
template <class Op> constexpr bool is_circular = is_one_of<Op, fn_sin, fn_cos, fn_tan>;
template <class Op> constexpr bool is_partial = is_circular<Op> || is_one_of<Op, fn_pow>;
template <class Op> constexpr bool is_wide = is_partial<Op> || is_one_of<Op, fn_asin, fn_acos, fn_atan>;

template <class Op> SMELT_INLINE bool is_near(float a, float b) {
  const float infinity = __builtin_inff();
  if constexpr (is_circular<Op>) return __builtin_fabsf(a) < circular_limit;
  return (__builtin_fabsf(a) < infinity) & (a != 0) & (__builtin_fabsf(b) < infinity);
}
template <class Op> float by_libm(float a, float b) {
  if constexpr (std::is_same_v<Op, fn_sin>) return __builtin_sinf(a);
  if constexpr (std::is_same_v<Op, fn_cos>) return __builtin_cosf(a);
  if constexpr (std::is_same_v<Op, fn_tan>) return __builtin_tanf(a);
  return __builtin_powf(a, b);
}

/// As plain_block; elements that are far, NaN or infinite by libm.
template <class Op> void partial_block(void* out, const void* pa, const void* pb, const void*, int64_t n) {
  constexpr int64_t chunk = 64;
  const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(Op::arity > 1 ? pb : pa);
  float* o = static_cast<float*>(out);
  for (int64_t i = 0; i < n; i += chunk) {
    const int64_t count = n - i < chunk ? n - i : chunk;
    float x[chunk], y[chunk];  // `out` may be an argument
    int beyond = 0;
    for (int64_t k = 0; k < count; ++k) x[k] = a[i + k], y[k] = b[i + k], beyond |= !is_near<Op>(x[k], y[k]);
    plain_block<Op, float>(o + i, x, y, nullptr, count);
    for (int64_t k = 0; beyond != 0 && k < count; ++k)
      if (!is_near<Op>(x[k], y[k])) o[i + k] = by_libm<Op>(x[k], y[k]);
  }
}

template <class Op, class T> constexpr BlockFn function_block() {
  if constexpr (!takes<T>(Op::types))
    return nullptr;
  else if constexpr (std::is_same_v<Op, fn_select>)
    return sizeof(T) == 1   ? select_block<uint8_t>
           : sizeof(T) == 2 ? select_block<uint16_t>
           : sizeof(T) == 4 ? select_block<uint32_t>
                            : select_block<uint64_t>;
  else if constexpr (std::is_same_v<Op, fn_logical_xor>)
    return xor_block;
  else if constexpr (std::is_same_v<Op, fn_is_inf>)
    return is_inf_block<T>;
  else if constexpr (std::is_same_v<T, float> && is_partial<Op>)
    return partial_block<Op>;
  else if constexpr (std::is_same_v<T, float> && Op::result == same && !is_wide<Op>)
    return float_block<Op>;
  else
    return plain_block<Op, T>;
}

template <class From, class To> void cast_stored(const Stored<From>* a, Stored<To>* o, int64_t n) {
#ifdef __AVX2__
  if constexpr (converts_in_registers<From, To>) return convert_in_registers(a, o, n);
#endif
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = converted<To>(a[i]);
}

/// 1 for every byte but 0.
void truths(const uint8_t* a, uint8_t* o, int64_t n) {
  int64_t i = 0;
#ifdef __AVX2__
  constexpr int64_t bytes = 32;
  const auto put = [&](int64_t at) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + at));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(o + at), _mm256_min_epu8(v, _mm256_set1_epi8(1)));
  };
  for (; i + 4 * bytes <= n; i += 4 * bytes) put(i), put(i + bytes), put(i + 2 * bytes), put(i + 3 * bytes);
  for (; i + bytes <= n; i += bytes) put(i);
#endif
#pragma GCC ivdep
  for (; i < n; ++i) o[i] = a[i] != 0;
}

template <class From, class To> void cast_block(void* out, const void* in, const void*, const void*, int64_t n) {
  const Stored<From>* a = static_cast<const Stored<From>*>(in);
  Stored<To>* o = static_cast<Stored<To>*>(out);
  constexpr bool of_bytes = std::is_integral_v<From> && sizeof(From) == 1;
  if constexpr (of_bytes && (std::is_same_v<To, bool> || (std::is_same_v<From, bool> && sizeof(To) == 1))) {
    truths(reinterpret_cast<const uint8_t*>(a), reinterpret_cast<uint8_t*>(o), n);
  } else if constexpr (std::is_same_v<From, bool>) {  // every byte but 0 is true to it
    constexpr int64_t some = 512;
    uint8_t ones[some];  // apart: in one loop, comparisons are as wide as results
    for (int64_t begin = 0; begin < n; begin += some) {
      const int64_t count = n - begin < some ? n - begin : some;
      truths(a + begin, ones, count);
      cast_stored<From, To>(ones, o + begin, count);
    }
  } else {
    cast_stored<From, To>(a, o, n);
  }
}

/// Converts between f32 and a 16-bit float.
template <class From, class To> void half_block(void* out, const void* in, const void*, const void*, int64_t n) {
  const From* a = static_cast<const From*>(in);
  To* o = static_cast<To*>(out);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(o + i, load(a + i));
  if (i < n) store_first(o + i, load_first(a + i, n - i), n - i);
}

/// Rounds f64 to float by rounding to odd: toward zero, with the last bit set when the result is inexact. A second rounding to
/// 16 bits then gives the same as one rounding from f64 (Boldo and Melquiond, 2008: 24 bits are at least 11 + 2).
SMELT_INLINE float rounded_to_odd(double x) {
  const float y = static_cast<float>(x);
  const double back = static_cast<double>(y);
  uint32_t u, odd;
  std::memcpy(&u, &y, sizeof u);
  odd = (u - (abs(back) > abs(x) ? 1u : 0u)) | 1u;
  const uint32_t chosen = ((back == x) | (x != x)) ? u : odd;
  float result;
  std::memcpy(&result, &chosen, sizeof result);
  return result;
}

template <class To> void double_to_half_block(void* out, const void* in, const void*, const void*, int64_t n) {
  constexpr int64_t chunk = 64;  // apart from the stores, so that the compiler vectorises the rounding
  const double* a = static_cast<const double*>(in);
  To* o = static_cast<To*>(out);
  float odd[chunk] = {};
  for (int64_t i = 0; i < n; i += chunk) {
    const int64_t count = n - i < chunk ? n - i : chunk;
    for (int64_t k = 0; k < count; ++k) odd[k] = rounded_to_odd(a[i + k]);
    int64_t k = 0;
    for (; k + lanes <= count; k += lanes) store(o + i + k, load(odd + k));
    if (k < count) store_first(o + i + k, load(odd + k), count - k);
  }
}

template <class T> void gather_block(void* to, const void* from, int64_t stride, int64_t n, int64_t row_stride, int64_t rows) {
  gather_rows(static_cast<T*>(to), static_cast<const T*>(from), stride, n, row_stride, rows);
}

// F(number, type) in BlockType's order, without the 16-bit floats, which no loop computes in.
#define SMELT_BLOCK_TYPES(F) \
  F(0, float)                \
  F(1, double)               \
  F(2, int8_t) F(3, int16_t) F(4, int32_t) F(5, int64_t) F(6, uint8_t) F(7, uint16_t) F(8, uint32_t) F(9, uint64_t) F(10, bool)

template <class Op> constexpr void fill_function(BlockFn* row) {
#define F(number, T) row[number] = function_block<Op, T>();
  SMELT_BLOCK_TYPES(F)
#undef F
}

template <class From> constexpr void fill_casts(BlockFn* row) {
#define F(number, T) row[number] = cast_block<From, T>;
  SMELT_BLOCK_TYPES(F)
#undef F
}

constexpr BlockTable make_table() {
  BlockTable t{};
  int row = 0;
#define SMELT_FN(id, ...) fill_function<fn_##id>(t.function[row++]);
#include "expr/functions.def"
#undef SMELT_FN
#define F(number, T) fill_casts<T>(t.cast[number]);
  SMELT_BLOCK_TYPES(F)
#undef F
  constexpr int f32 = static_cast<int>(BlockType::f32), f64 = static_cast<int>(BlockType::f64);
  constexpr int f16 = static_cast<int>(BlockType::f16), bf16 = static_cast<int>(BlockType::bf16);
  t.cast[f16][f32] = half_block<HalfBits, float>;
  t.cast[f32][f16] = half_block<float, HalfBits>;
  t.cast[f64][f16] = double_to_half_block<HalfBits>;
  t.cast[f64][bf16] = double_to_half_block<BFloatBits>;
  t.cast[bf16][f32] = half_block<BFloatBits, float>;
  t.cast[f32][bf16] = half_block<float, BFloatBits>;
  t.gather[0] = gather_block<uint8_t>;
  t.gather[1] = gather_block<uint16_t>;
  t.gather[2] = gather_block<uint32_t>;
  t.gather[3] = gather_block<uint64_t>;
  return t;
}

constexpr BlockTable table = make_table();

}  // namespace

const BlockTable& block_table() { return table; }

}  // namespace smelt::SMELT_ISA
