// Reductions: y = After(result over the reduced axes of Before(x0, x1, …), operands…).
//
//   x0, x1, …    [kept…, reduced…] in any order of axes, each strided or broadcast
//   y, operands  [kept…]
//   kept         where a result lies in x0, x1, …, the operands and y
//   reduced      where a value of it lies in x0, x1, …
//
// C.team threads share a result. They take its values in turns and merge their states, both in a fixed order. There are two
// forms:
//   rows      the elements of a result lie side by side, and so do its threads, which merge by butterflies
//   columns   the results lie side by side; a thread has C.vec of them, a block C.team rows of threads, which merge in shared
//             memory
// With C.parts > 1 a block does one part of the values and writes its states to `parts`. finish() merges those in their order, so
// every run gives the same bits.
//
// Launch: C.team * C.side threads, (results or chunks of C.vec of them) / C.side x C.parts blocks; finish() has a warp for each
// result.
#pragma once

#include "common/tuple.cuh"
#include "common/warp.cuh"
#include "kernels/reduce/reduce.h"
#include "pointwise/view.cuh"
#include "reduce/fold.cuh"

/// Chunks [begin, end) of the values that part `split` of `splits` takes.
struct Part {
  u32 begin, end;
  __device__ __forceinline__ Part(u32 chunks, u32 split, u32 splits) {
    const u32 each = (chunks + splits - 1) / splits;
    begin = min(chunks, split * each);
    end = min(chunks, begin + each);
  }
};

/// Merges the states of Team threads, each X threads from the next; row 0 gets the result. `exchange`: Vec states a thread.
template <int X, int Team, int Vec, class S> __device__ __forceinline__ void merge_rows(S (&s)[Vec], S* exchange) {
  const int x = threadIdx.x % X, row = threadIdx.x / X;
#pragma unroll
  for (int half = Team / 2; half > 0; half /= 2) {
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int e = 0; e < Vec; ++e) exchange[(row * Vec + e) * X + x] = s[e];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int e = 0; e < Vec; ++e) s[e].merge(exchange[((row + half) * Vec + e) * X + x]);
  }
}

/// Result `number` of all, by a warp, from the states of its parts, [splits, results].
template <class S> __device__ __forceinline__ S merge_parts(const S* parts, u32 number, u32 results, u32 splits) {
  S s;
  for (u32 split = threadIdx.x % 32; split < splits; split += 32) s.merge(parts[static_cast<u64>(split) * results + number]);
  return fold_lanes(s, Merge());
}

/// State: of reduce/fold.cuh. X: the type that Before gives; Result: the type that After takes. V: how x0, x1, … lie along the
/// axis of the vectors. O: the types of the operands and of y.
template <ReduceConfig C, class State, class Before, class X, class After, class Result, class Inputs, class Outputs>
struct Reduce;
template <ReduceConfig C, class State, class Before, class X, class After, class Result, class... V, class... O>
struct Reduce<C, State, Before, X, After, Result, Types<V...>, Types<O...>> {
  static constexpr int inputs = sizeof...(V), tensors = inputs + sizeof...(O);
  static constexpr int threads = C.team * C.side;
  static constexpr int results = C.rows ? 1 : C.vec;                        // of a thread

  /// Writes y, or with C.parts > 1 the states of the parts.
  template <int KeptRank, int ReducedRank>
  static __device__ __forceinline__ void reduce(const ReduceArgs<KeptRank, ReducedRank, inputs, tensors>& a) {
    __shared__ alignas(16) unsigned char memory[sizeof(State) * (C.rows ? (threads < 32 ? 1 : threads / 32) : threads * C.vec)];
    State* const exchange = reinterpret_cast<State*>(memory);
    // A chunk of results, and which thread this is of those that share it.
    const u32 chunk = blockIdx.x * side + (C.rows ? threadIdx.x / team : threadIdx.x % side);
    const u32 member = C.rows ? threadIdx.x % team : threadIdx.x / side;
    const bool inside = chunk < a.kept.chunks;
    i64 at[tensors];
    const u32 chunk_results = a.kept.template locate<results>(inside ? chunk : 0, at);

    // Main loop: this block's part of the values, C.team chunks at a time.
    State s[results];
    const Part part(a.reduced.chunks, blockIdx.y, static_cast<u32>(C.parts));
    if (inside) {
#pragma unroll 4
      for (u32 c = part.begin + member; c < part.end; c += team) {
        i64 in[inputs];
        const u32 values = a.reduced.template locate<C.rows ? C.vec : 1>(c, in);
        Vectors v;                                                          // (vec) of (reduced) or of (kept)
        if constexpr (C.rows) load_all(v, a, at, in, a.reduced, values, Numbers());
        else load_all(v, a, at, in, a.kept, chunk_results, Numbers());
#pragma unroll
        for (int e = 0; e < C.vec; ++e) {
          if (e >= (C.rows ? values : chunk_results)) break;
          X value;
          before(value, v, e, Numbers());
          if constexpr (C.rows) s[0].add(value, c * C.vec + e);
          else s[e].add(value, c);
        }
      }
    }

    // Merge the threads' states, and store.
    if constexpr (C.rows) s[0] = fold_team<C.team>(s[0], exchange, Merge());
    else merge_rows<C.side, C.team, C.vec>(s, exchange);
    if (!inside || member != 0) return;
    if constexpr (C.parts > 1) {
#pragma unroll
      for (int e = 0; e < results; ++e)
        static_cast<State*>(a.parts)[(static_cast<u64>(blockIdx.y) * a.kept.chunks + chunk) * results + e] = s[e];
    } else if constexpr (C.rows) {
      store(s[0], 0, at, a, OutputNumbers());
    } else {
#pragma unroll
      for (int e = 0; e < results; ++e)
        if (e < chunk_results) store(s[e], e, at, a, OutputNumbers());
    }
  }

  /// Merges the states of the parts and writes y; 256 threads, a warp a result.
  template <int KeptRank, int ReducedRank>
  static __device__ __forceinline__ void finish(const ReduceArgs<KeptRank, ReducedRank, inputs, tensors>& a) {
    constexpr u32 chunk_results = results;
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, e = number % chunk_results;
    if (number / chunk_results >= a.kept.chunks) return;
    i64 at[tensors];
    if (e >= a.kept.template locate<results>(number / chunk_results, at)) return;
    const State s =
        merge_parts(static_cast<const State*>(a.parts), number, a.kept.chunks * chunk_results, static_cast<u32>(C.parts));
    if (threadIdx.x % 32 == 0) store(s, e, at, a, OutputNumbers());
  }

 private:
  static constexpr u32 team = C.team, side = C.side;
  using Vectors = Tuple<Vector<typename V::Type, C.vec>...>;
  using Numbers = IndicesTo<sizeof...(V)>;
  using OutputNumbers = IndicesTo<sizeof...(O)>;

  template <class A, class Along, int... I>
  static __device__ __forceinline__ void load_all(Vectors& v, const A& a, const i64 (&at)[tensors], const i64 (&in)[inputs],
                                                  const Along& along, u32 count, Indices<I...>) {
    (load<V::access()>(get<I>(v), static_cast<const typename V::Type*>(a.tensors[I]), at[I] + in[I], innermost_stride<I>(along),
                       count), ...);
  }
  template <int View, int Rank, int Views> static __device__ __forceinline__ i64 innermost_stride(const Walk<Rank, Views>& w) {
    return w.strides[View][Rank - 1];
  }
  template <int... I> static __device__ __forceinline__ void before(X& value, const Vectors& v, int e, Indices<I...>) {
    Before::apply(get<I>(v).at[e]..., value);
  }
  /// y = After(the result of s, operands), of the thread's result e.
  template <int KeptRank, int ReducedRank, int... I>
  static __device__ __forceinline__ void store(const State& s, u32 e, const i64 (&at)[tensors],
                                               const ReduceArgs<KeptRank, ReducedRank, inputs, tensors>& a, Indices<I...>) {
    After::apply(static_cast<Result>(s.result(a.count)),
                 static_cast<O*>(a.tensors[inputs + I])[at[inputs + I] + e * a.kept.strides[inputs + I][KeptRank - 1]]...);
  }
};
