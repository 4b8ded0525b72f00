// Changes an attention's scores before the softmax by a program over a score and operands, which broadcast to
// [batch, heads, queries, keys].
//
//   at(i, j, x)                        for one score of query i and key j
//   near(i, j), two(near, c)           the operands of query i and keys j + c and j + c + 1
//   two_of(i, j, next)                 the operands of query i and any two keys
//   apply(two, x, y)                   for two scores and their operands
//
// seek(b, h) comes before all others: it goes to a batch and a head.
#pragma once

#include "common/tuple.cuh"
#include "common/types.cuh"
#include "kernels/attention/problem.h"

/// Leaves scores, which are of type C, as they are.
template <class C> struct BareScores {
  explicit __device__ __forceinline__ BareScores(const ScoreOperandArgs*) {}
  struct Near {};
  struct Two {};
  __device__ __forceinline__ void seek(u32, u32) {}
  __device__ __forceinline__ C at(u32, u32, C x) const { return x; }
  __device__ __forceinline__ Near near(u32, u32) const { return {}; }
  __device__ __forceinline__ Two two(Near, u32) const { return {}; }
  __device__ __forceinline__ Two two_of(u32, u32, u32) const { return {}; }
  __device__ __forceinline__ static void apply(Two, C&, C&) {}
};

/// How an operand's elements lie along the keys: one for all keys, side by side, side by side and aligned so that one access
/// reads two, or apart.
enum class AlongKeys { repeated, contiguous, pairs, strided };

template <class T, AlongKeys How> struct ScoreOperand {
  using Type = T;
  using Two = Vector<T, How == AlongKeys::repeated ? 1 : 2>;

  /// Elements from a row's first to key j's.
  static __device__ __forceinline__ i64 of_key(u32 j, i64 stride) {
    if constexpr (How == AlongKeys::repeated) return 0;
    else if constexpr (How == AlongKeys::strided) return j * stride;
    else return j;
  }
  /// Loads the elements of keys c and c + 1 from `near` on.
  static __device__ __forceinline__ void load(Two& x, const T* near, u32 c, i64 stride) {
    if constexpr (How == AlongKeys::repeated) {
      x.at[0] = near[0];
    } else if constexpr (How == AlongKeys::pairs) {
      x = *reinterpret_cast<const Two*>(near + c);
    } else {
      x.at[0] = near[of_key(c, stride)];
      x.at[1] = near[of_key(c + 1, stride)];
    }
  }
  /// Loads the elements of keys j and next of query i.
  static __device__ __forceinline__ void load(Two& x, const T* operand, const i64 (&stride)[4], u32 i, u32 j, u32 next) {
    x.at[0] = operand[i * stride[2] + of_key(j, stride[3])];
    if constexpr (How != AlongKeys::repeated) x.at[1] = operand[i * stride[2] + of_key(next, stride[3])];
  }
  static __device__ __forceinline__ const T& second(const Two& x) { return x.at[How == AlongKeys::repeated ? 0 : 1]; }
};

template <class Numbers, class C, class Program, class... Operand> struct ProgramScoresOf;

/// y = Program(x, operands…), scores of type C; Operand: a ScoreOperand each.
template <class C, class Program, class... Operand>
using ProgramScores = ProgramScoresOf<IndicesTo<sizeof...(Operand)>, C, Program, Operand...>;

// Elements are named, since the compiler orders the arguments of calls worse where a function returns them.
template <int... I, class C, class Program, class... Operand> struct ProgramScoresOf<Indices<I...>, C, Program, Operand...> {
  struct Near {
    Tuple<const typename Operand::Type*...> at;
  };
  struct Two {
    Tuple<typename Operand::Two...> of;
  };

  Tuple<const typename Operand::Type*...> operands;    // (queries, keys) each, after seek()
  const ScoreOperandArgs* args;                        // (operands)

  explicit __device__ __forceinline__ ProgramScoresOf(const ScoreOperandArgs* a)
      : operands(tuple_of(static_cast<const typename Operand::Type*>(a[I].tensor)...)), args(a) {}
  __device__ __forceinline__ void seek(u32 b, u32 h) {
    ((operands.TupleElement<I, const typename Operand::Type*>::value += b * args[I].strides[0] + h * args[I].strides[1]), ...);
  }
  __device__ __forceinline__ C at(u32 i, u32 j, C x) const {
    C y;
    Program::apply(
        x, operands.TupleElement<I, const typename Operand::Type*>::value[i * args[I].strides[2] + j * args[I].strides[3]]..., y);
    return y;
  }
  __device__ __forceinline__ Near near(u32 i, u32 j) const {
    return {{{{operands.TupleElement<I, const typename Operand::Type*>::value + i * args[I].strides[2] +
               Operand::of_key(j, args[I].strides[3])}...}}};
  }
  __device__ __forceinline__ Two two(const Near& near, u32 c) const {
    Two two;
    (Operand::load(two.of.TupleElement<I, typename Operand::Two>::value,
                   near.at.TupleElement<I, const typename Operand::Type*>::value, c, args[I].strides[3]),
     ...);
    return two;
  }
  __device__ __forceinline__ Two two_of(u32 i, u32 j, u32 next) const {
    Two two;
    (Operand::load(two.of.TupleElement<I, typename Operand::Two>::value,
                   operands.TupleElement<I, const typename Operand::Type*>::value, args[I].strides, i, j, next),
     ...);
    return two;
  }
  __device__ __forceinline__ static void apply(const Two& two, C& x, C& y) {
    const C a = x, b = y;
    Program::apply(a, two.of.TupleElement<I, typename Operand::Two>::value.at[0]..., x);
    Program::apply(b, Operand::second(two.of.TupleElement<I, typename Operand::Two>::value)..., y);
  }
};
