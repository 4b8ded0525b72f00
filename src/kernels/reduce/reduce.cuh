// Reductions: y = After(result over the reduced axes of Before(x0, x1, …), operands…).
//
//   x0, x1, …    [kept…, reduced…] in any order of axes, each strided or broadcast
//   y, operands  [kept…]
//   kept         where a result lies in x0, x1, …, the operands and y
//   reduced      where a value of it lies in x0, x1, …
//
// Threads that share a result take its values in turns, in a fixed order, and merge their states by butterflies (rows: the
// elements of a result side by side, C.team threads side by side) or in shared memory (columns: results side by side, a thread
// has C.vec of them, C.team rows of threads). With C.parts > 1 a block does one part of the values and leaves its states in
// `parts`, which finish() merges in their order: the same bits at every run.
//
// Launch: C.team * C.side threads, (results or chunks of C.vec of them) / C.side x C.parts blocks; finish() a warp a result.
#pragma once

#include "common/tuple.cuh"
#include "common/warp.cuh"
#include "pointwise/view.cuh"
#include "reduce/fold.cuh"

/// What a kernel is compiled for.
struct ReduceConfig {
  bool rows;
  int vec;                                                                  // elements of x0, x1, … that a thread loads at once
  int team;                                                                 // threads that share a result: a power of two
  int side;                                                                 // results (rows) or chunks of them (columns) a block
  int parts;                                                                // of a result's values, each a block's
};

/// Chunks [begin, end) of the values that part `split` of `splits` takes.
struct Part {
  u32 begin, end;
  __device__ __forceinline__ Part(u32 chunks, u32 split, u32 splits) {
    const u32 each = (chunks + splits - 1) / splits;
    begin = min(chunks, split * each);
    end = min(chunks, begin + each);
  }
};

/// Merges the states of threads X apart, Team of them; row 0 gets the result. `exchange`: a state a thread, times Vec.
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

/// Result `number` of all, from the states of its parts, [splits, results], by a warp.
template <class S> __device__ __forceinline__ S merge_parts(const S* parts, u32 number, u32 results, u32 splits) {
  S s;
  for (u32 split = threadIdx.x % 32; split < splits; split += 32) s.merge(parts[static_cast<u64>(split) * results + number]);
  return fold_lanes(s, Merge());
}

/// State: reduce/fold.cuh. X: what Before gives; Result: what After takes; V: how x0, x1, … lie along the axis of the vectors.
template <ReduceConfig C, class State, class Before, class X, class After, class Result, class... V> struct Reduce {
  static constexpr int inputs = sizeof...(V);
  static constexpr int threads = C.team * C.side;
  static constexpr int results = C.rows ? 1 : C.vec;                        // a thread's
  using Inputs = Tuple<const typename V::Type*...>;
  using Vectors = Tuple<Vector<typename V::Type, C.vec>...>;
  using Numbers = IndicesTo<sizeof...(V)>;

  /// outputs: the operands, then y; with C.parts > 1 the states of the parts, [C.parts, kept chunks, results].
  template <int KeptRank, int ReducedRank, int Tensors, class... T>
  static __device__ __forceinline__ void reduce(const Walk<KeptRank, Tensors>& kept, const Walk<ReducedRank, inputs>& reduced,
                                                i64 count, const Inputs& x, const Tuple<T*...>& outputs) {
    __shared__ alignas(16) unsigned char memory[sizeof(State) * (C.rows ? (threads < 32 ? 1 : threads / 32) : threads * C.vec)];
    State* const exchange = reinterpret_cast<State*>(memory);
    // A chunk of results, and which thread this is of those that share it.
    const u32 chunk = blockIdx.x * side + (C.rows ? threadIdx.x / team : threadIdx.x % side);
    const u32 member = C.rows ? threadIdx.x % team : threadIdx.x / side;
    const bool inside = chunk < kept.chunks;
    i64 at[Tensors];
    const u32 chunk_results = kept.template locate<results>(inside ? chunk : 0, at);

    // Main loop: this block's part of the values, C.team chunks at a time.
    State s[results];
    const Part part(reduced.chunks, blockIdx.y, static_cast<u32>(C.parts));
    if (inside) {
#pragma unroll 4
      for (u32 c = part.begin + member; c < part.end; c += team) {
        i64 in[inputs];
        const u32 values = reduced.template locate<C.rows ? C.vec : 1>(c, in);
        Vectors v;                                                          // (vec) of (reduced) or of (kept)
        if constexpr (C.rows) load_all(v, x, at, in, reduced, values, Numbers());
        else load_all(v, x, at, in, kept, chunk_results, Numbers());
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
        get<0>(outputs)[(static_cast<u64>(blockIdx.y) * kept.chunks + chunk) * results + e] = s[e];
    } else if constexpr (C.rows) {
      store(s[0], 0, at, kept, count, outputs, IndicesTo<sizeof...(T)>());
    } else {
#pragma unroll
      for (int e = 0; e < results; ++e)
        if (e < chunk_results) store(s[e], e, at, kept, count, outputs, IndicesTo<sizeof...(T)>());
    }
  }

  /// Merges the parts that reduce left; 256 threads, a warp a result.
  template <int KeptRank, class... T>
  static __device__ __forceinline__ void finish(const Walk<KeptRank, inputs + sizeof...(T)>& kept, i64 count, const State* parts,
                                                const Tuple<T*...>& outputs) {
    constexpr u32 chunk_results = results;
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, e = number % chunk_results;
    if (number / chunk_results >= kept.chunks) return;
    i64 at[inputs + sizeof...(T)];
    if (e >= kept.template locate<results>(number / chunk_results, at)) return;
    const State s = merge_parts(parts, number, kept.chunks * chunk_results, static_cast<u32>(C.parts));
    if (threadIdx.x % 32 == 0) store(s, e, at, kept, count, outputs, IndicesTo<sizeof...(T)>());
  }

 private:
  static constexpr u32 team = C.team, side = C.side;

  template <class Along, int N, int... I>
  static __device__ __forceinline__ void load_all(Vectors& v, const Inputs& x, const i64 (&at)[N], const i64 (&in)[inputs],
                                                  const Along& along, u32 count, Indices<I...>) {
    (load<V::access()>(get<I>(v), get<I>(x), at[I] + in[I], innermost_stride<I>(along), count), ...);
  }
  template <int View, int Rank, int Views> static __device__ __forceinline__ i64 innermost_stride(const Walk<Rank, Views>& w) {
    return w.strides[View][Rank - 1];
  }
  template <int... I> static __device__ __forceinline__ void before(X& value, const Vectors& v, int e, Indices<I...>) {
    Before::apply(get<I>(v).at[e]..., value);
  }
  /// y = After(the result of s, operands), of the thread's result e.
  template <int Rank, int N, class Outputs, int... I>
  static __device__ __forceinline__ void store(const State& s, u32 e, const i64 (&at)[N], const Walk<Rank, N>& kept, i64 count,
                                               const Outputs& outputs, Indices<I...>) {
    After::apply(static_cast<Result>(s.result(count)),
                 get<I>(outputs)[at[inputs + I] + e * kept.strides[inputs + I][Rank - 1]]...);
  }
};
