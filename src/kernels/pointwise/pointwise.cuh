// Pointwise programs: y0, y1, … = Program(x0, x1, …), element by element.
//
//   x, y    [E0, …, ER-1], each strided or broadcast (pointwise/walk.h)
//
// A thread computes C.width neighbours along the innermost axis, a chunk. Launch: blocks of C.threads threads, a thread a chunk.
#pragma once

#include "common/expr.cuh"
#include "kernels/pointwise/pointwise.h"
#include "pointwise/view.cuh"

template <PointwiseConfig C, class Program, class Inputs, class Outputs> struct Pointwise;
/// X, Y: how the inputs and the outputs lie along the innermost axis (View).
template <PointwiseConfig C, class Program, class... X, class... Y>
struct Pointwise<C, Program, Types<X...>, Types<Y...>> {
  template <int Rank, int Tensors> static __device__ __forceinline__ void run(const PointwiseArgs<Rank, Tensors>& a) {
    const u32 chunk = blockIdx.x * static_cast<u32>(C.threads) + threadIdx.x;
    if (chunk >= a.walk.chunks) return;
    i64 at[Tensors];
    const u32 count = a.walk.template locate<C.width>(chunk, at);
    InputVectors in;                                                        // (width) of (ER-1) each
    OutputVectors out;                                                      // (width) of (ER-1) each
    load_all(in, a, at, count, InputNumbers());
#pragma unroll
    for (int e = 0; e < C.width; ++e) apply(in, out, e, InputNumbers(), OutputNumbers());
    store_all(out, a, at, count, OutputNumbers());
  }

 private:
  using InputVectors = Tuple<Vector<typename X::Type, C.width>...>;
  using OutputVectors = Tuple<Vector<typename Y::Type, C.width>...>;
  using InputNumbers = IndicesTo<sizeof...(X)>;
  using OutputNumbers = IndicesTo<sizeof...(Y)>;

  template <int Rank, int Tensors, int... I>
  static __device__ __forceinline__ void load_all(InputVectors& in, const PointwiseArgs<Rank, Tensors>& a,
                                                  const i64 (&at)[Tensors], u32 count, Indices<I...>) {
    (load<X::access()>(get<I>(in), static_cast<const typename X::Type*>(a.tensors[I]), at[I], a.walk.strides[I][Rank - 1], count),
     ...);
  }
  template <int... I, int... O>
  static __device__ __forceinline__ void apply(const InputVectors& in, OutputVectors& out, int e, Indices<I...>, Indices<O...>) {
    Program::apply(get<I>(in).at[e]..., get<O>(out).at[e]...);
  }
  template <int Rank, int Tensors, int... O>
  static __device__ __forceinline__ void store_all(const OutputVectors& out, const PointwiseArgs<Rank, Tensors>& a,
                                                   const i64 (&at)[Tensors], u32 count, Indices<O...>) {
    constexpr int first = sizeof...(X);
    (store<Y::access()>(static_cast<typename Y::Type*>(a.tensors[first + O]), at[first + O], a.walk.strides[first + O][Rank - 1],
                        count, get<O>(out)), ...);
  }
};
