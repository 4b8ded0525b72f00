// The block loops: every row of functions.def for every type that it takes, and the casts. Loops with f32 results use F32
// registers; the compiler vectorises the others.
#include "expr/cpu/blocks.h"

#include "expr/simd/half.h"
#include "expr/simd/scalar.h"

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

template <class Op, class T> void plain_block(void* out, const void* pa, const void* pb, const void* pc, int64_t n) {
  using A = std::conditional_t<std::is_same_v<Op, fn_select>, bool, T>;
  using R = std::conditional_t<Op::result == truth, bool, T>;
  const A* a = static_cast<const A*>(pa);
  const T *b = static_cast<const T*>(pb), *c = static_cast<const T*>(pc);
  R* o = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(Op::apply(a[i], Op::arity > 1 ? b[i] : T(), Op::arity > 2 ? c[i] : T()));
}

template <class Op, class T> constexpr BlockFn function_block() {
  if constexpr (!takes<T>(Op::types))
    return nullptr;
  else if constexpr (std::is_same_v<T, float> && Op::result == same && !std::is_same_v<Op, fn_select>)
    return float_block<Op>;
  else
    return plain_block<Op, T>;
}

template <class From, class To> void cast_block(void* out, const void* in, const void*, const void*, int64_t n) {
  const From* a = static_cast<const From*>(in);
  To* o = static_cast<To*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = converted<To>(a[i]);
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
  if (static_cast<double>(y) == x || x != x) return y;
  uint32_t u;
  std::memcpy(&u, &y, sizeof u);
  u = (u - (abs(static_cast<double>(y)) > abs(x) ? 1 : 0)) | 1;
  float odd;
  std::memcpy(&odd, &u, sizeof odd);
  return odd;
}

template <class To> void double_to_half_block(void* out, const void* in, const void*, const void*, int64_t n) {
  const double* a = static_cast<const double*>(in);
  To* o = static_cast<To*>(out);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = n - i < lanes ? n - i : lanes;
    float odd[lanes] = {};
    for (int64_t k = 0; k < count; ++k) odd[k] = rounded_to_odd(a[i + k]);
    if (count == lanes)
      store(o + i, load(odd));
    else
      store_first(o + i, load(odd), count);
  }
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
  return t;
}

constexpr BlockTable table = make_table();

}  // namespace

const BlockTable& block_table() { return table; }

}  // namespace smelt::SMELT_ISA
