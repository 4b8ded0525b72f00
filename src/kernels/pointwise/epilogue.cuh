// What follows a product or a convolution, on a few neighbouring columns of a row at a time:
//
//   y[batch, row, column] = Program(sums[column], operands at [batch, row, column]…)
//
//   y, operands   [batches…, rows…, columns], each strided or broadcast
//
// A kernel takes an Epilogue by value (const __grid_constant__), asks start() once a batch, and calls apply() for its sums.
#pragma once

#include "common/expr.cuh"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/view.cuh"

/// S: the type of the sums, the program's first input. Y, X: how y and the operands lie along the columns (View).
template <EpilogueConfig C, class Program, class S, class Y, class... X>
struct ProgramEpilogue : EpilogueArgs<C.row_rank, C.batch_rank, 1 + sizeof...(X)> {
  using Sum = S;
  using Function = Program;
  using Result = typename Y::Type;
  template <int I> using Operand = typename TypeAt<I, X...>::Type;          // the View of operand I
  static constexpr int width = C.width, operands = sizeof...(X), tensors = 1 + operands;

  /// Where a batch begins in every tensor.
  struct Start { i64 at[tensors]; };
  __device__ __forceinline__ Start start(u32 batch) const {
    Start s;
    this->batches.template locate<1>(batch, s.at);
    return s;
  }

  /// Where y's element at [batch of s, row, column] lies.
  __device__ __forceinline__ Result* result(const Start& s, u32 row, u32 column) const {
    i64 at[tensors];
    this->rows.template locate<1>(row, at);
    return static_cast<Result*>(this->begins[0]) + s.at[0] + at[0] + column * step<Y>(0);
  }
  /// Where operand I's does.
  template <int I>
  __device__ __forceinline__ const typename Operand<I>::Type* operand(const Start& s, u32 row, u32 column) const {
    i64 at[tensors];
    this->rows.template locate<1>(row, at);
    return static_cast<const typename Operand<I>::Type*>(this->begins[1 + I]) + s.at[1 + I] + at[1 + I] +
           column * step<Operand<I>>(1 + I);
  }

  /// What the program reads beside the sums, and where y's elements lie.
  struct Operands {
    Tuple<Vector<typename X::Type, width>...> x;                            // (width) of (columns) each
    i64 y;
  };
  /// Loads the operands at `column` and the columns after it, of which the first `count` lie inside; `column` is a multiple of
  /// width.
  __device__ __forceinline__ void fetch(Operands& o, const Start& s, u32 row, u32 column, u32 count) const {
    i64 at[tensors];
    this->rows.template locate<1>(row, at);
    fetch<~0u>(o, s, at, column, count, IndicesTo<sizeof...(X)>());
  }
  /// Loads those operands alone whose bit in Chosen is set.
  template <u32 Chosen>
  __device__ __forceinline__ void fetch_some(Operands& o, const Start& s, u32 row, u32 column, u32 count) const {
    i64 at[tensors];
    this->rows.template locate<1>(row, at);
    fetch<Chosen>(o, s, at, column, count, IndicesTo<sizeof...(X)>());
  }
  /// Writes y there.
  __device__ __forceinline__ void write(const Operands& o, u32 count, const Sum (&sums)[width]) const {
    store_results(o, count, results(o, sums));
  }
  using Results = Vector<Result, width>;
  __device__ __forceinline__ Results results(const Operands& o, const Sum (&sums)[width]) const {
    Results y;
#pragma unroll
    for (int from = 0; from < width; from += part) {
      PartOperands x;
      take(x, o, from, IndicesTo<sizeof...(X)>());
      Sum v[part];
#pragma unroll
      for (int e = 0; e < part; ++e) v[e] = sums[from + e];
      apply_part(y, from, x, v);
    }
    return y;
  }

  /// The same in steps, for who has not the registers for all that an access reads: the results of `part` sums at a time.
  static constexpr int part = width % 4 == 0 ? 4 : width;
  using PartOperands = Tuple<Vector<typename X::Type, part>...>;
  /// Operand I of a part.
  template <int I> static __device__ __forceinline__ void take(PartOperands& x, const Operands& o, int from) {
    words_of(get<I>(x)) = reinterpret_cast<const WordsOf<decltype(get<I>(x))>&>(get<I>(o.x).at[from]);
  }
  /// The program's results of the sums from number `from` on.
  static __device__ __forceinline__ void apply_part(Results& y, int from, const PartOperands& x, const Sum (&sums)[part]) {
    apply_part(y, from, x, sums, IndicesTo<sizeof...(X)>());
  }
  __device__ __forceinline__ void store_results(const Operands& o, u32 count, const Results& y) const {
    store<Y::access()>(static_cast<Result*>(this->begins[0]), o.y, step<Y>(0), count, y);
  }
  __device__ __forceinline__ void apply(const Start& s, u32 row, u32 column, u32 count, const Sum (&sums)[width]) const {
    Operands o;
    fetch(o, s, row, column, count);
    write(o, count, sums);
  }

 private:
  template <u32 Chosen, int... I>
  __device__ __forceinline__ void fetch(Operands& o, const Start& s, const i64 (&at)[tensors], u32 column, u32 count,
                                        Indices<I...>) const {
    (fetch_one<Chosen, I, X>(o, s, at, column, count), ...);
    o.y = s.at[0] + at[0] + column * step<Y>(0);
  }
  template <u32 Chosen, int I, class V>
  __device__ __forceinline__ void fetch_one(Operands& o, const Start& s, const i64 (&at)[tensors], u32 column, u32 count) const {
    if constexpr ((Chosen >> I & 1) != 0 && V::access() == at_an_index)
      load_indexed(get<I>(o.x), static_cast<const typename V::Type*>(this->begins[1 + I]), s.at[1 + I] + at[1 + I], column);
    else if constexpr ((Chosen >> I & 1) != 0)
      load<V::access()>(get<I>(o.x), static_cast<const typename V::Type*>(this->begins[1 + I]),
                        s.at[1 + I] + at[1 + I] + column * step<V>(1 + I), step<V>(1 + I), count);
  }
  template <int... I> static __device__ __forceinline__ void take(PartOperands& x, const Operands& o, int from, Indices<I...>) {
    (take<I>(x, o, from), ...);
  }
  template <class T> static __device__ __forceinline__ auto element(const Vector<T, part>& x, int e) {
    if constexpr (sizeof(T) == 1 && part == 4) return smelt_expr::ByteOf<T>{reinterpret_cast<const u32&>(x), static_cast<u32>(e)};
    else return x.at[e];
  }
  template <int... I>
  static __device__ __forceinline__ void apply_part(Results& y, int from, const PartOperands& x, const Sum (&sums)[part],
                                                    Indices<I...>) {
    if constexpr (requires { Program::unsaturated; } && part == 4) {
      int words[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) Program::apply(sums[e], element(get<I>(x), e)..., words[e]);
      reinterpret_cast<Vector<u32, width / 4>&>(y).at[from / 4] = ptx::pack_saturated<Result(-1) < Result(0)>(words);
    } else {
#pragma unroll
      for (int e = 0; e < part; ++e) Program::apply(sums[e], element(get<I>(x), e)..., y.at[from + e]);
    }
  }
  /// Where the elements of an access lie side by side, or are one, their distance need not be read.
  template <class V> __device__ __forceinline__ i64 step(int tensor) const {
    if constexpr (V::access() >= 0) return V::stride();
    else return this->steps[tensor];
  }
};
