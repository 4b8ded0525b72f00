// Values that the lanes of a warp exchange: folds, scans and broadcasts. All 32 lanes take part in each call.
//
//   shuffle_xor(x, offset)           x of lane ^ offset
//   fold_lanes<Lanes>(x, fold)       the fold over each run of Lanes lanes, furthest lanes first; every lane gets it
//   fold_quad(x, fold)               the same over four lanes, nearest first
//   sum_lanes, sum_quad              of sums
//   fold_team<Threads>(x, exchange, fold)     over runs of threads of a block, warps by way of shared memory
//   scan_lanes(x, fold)              of lanes 0 … this one
//
// fold(a, b) takes and gives values of x's type: a number, or a structure of whole words. The order of the additions is fixed, so
// a sum has the same bits at every run; where fold(a, b) and fold(b, a) have the same bits, all lanes hold the same.
#pragma once

#include "common/integers.cuh"

constexpr u32 full_warp = 0xffffffffu;

namespace smelt_warp {

struct Xor {
  int offset;
  template <class W> __device__ __forceinline__ W operator()(W x) const { return __shfl_xor_sync(full_warp, x, offset); }
};
struct Up {
  int offset;
  template <class W> __device__ __forceinline__ W operator()(W x) const { return __shfl_up_sync(full_warp, x, offset); }
};
struct From {
  int lane;
  template <class W> __device__ __forceinline__ W operator()(W x) const { return __shfl_sync(full_warp, x, lane); }
};

/// Another lane's number, or structure word by word.
template <class T, class Shuffle> __device__ __forceinline__ T shuffled(const T& x, const Shuffle& shuffle) {
  if constexpr (!__is_class(T)) {
    return shuffle(x);
  } else {
    static_assert(sizeof(T) % 4 == 0);
    union Words {
      T value;
      u32 word[sizeof(T) / 4];
      __device__ Words() {}
    } mine, theirs;
    mine.value = x;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i) theirs.word[i] = shuffle(mine.word[i]);
    return theirs.value;
  }
}

}  // namespace smelt_warp

template <class T> __device__ __forceinline__ T shuffle_xor(const T& x, int offset) {
  return smelt_warp::shuffled(x, smelt_warp::Xor{offset});
}
/// Of the lane `offset` before; lanes below it keep their own.
template <class T> __device__ __forceinline__ T shuffle_up(const T& x, int offset) {
  return smelt_warp::shuffled(x, smelt_warp::Up{offset});
}
/// Lane `lane`'s x in all lanes.
template <class T> __device__ __forceinline__ T broadcast(T x, int lane) {
  return smelt_warp::shuffled(x, smelt_warp::From{lane});
}

struct Plus {
  template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

/// Lanes: a power of two up to 32.
template <int Lanes = 32, class T, class Fold> __device__ __forceinline__ T fold_lanes(T x, const Fold& fold) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) x = fold(x, shuffle_xor(x, offset));
  return x;
}
template <int Lanes = 32, class T> __device__ __forceinline__ T sum_lanes(T x) { return fold_lanes<Lanes>(x, Plus()); }

/// Four lanes share a row of a tensor-core product's result (common/mma.cuh).
template <class T, class Fold> __device__ __forceinline__ T fold_quad(T x, const Fold& fold) {
  x = fold(x, shuffle_xor(x, 1));
  return fold(x, shuffle_xor(x, 2));
}
template <class T> __device__ __forceinline__ T sum_quad(T x) { return fold_quad(x, Plus()); }

/// The fold over each run of Threads threads side by side, a power of two up to 1024; all of them get it. `exchange`: shared
/// memory of a T for each warp of the block, for this fold alone; not used where Threads is at most 32.
template <int Threads, class T, class Fold> __device__ __forceinline__ T fold_team(T x, T* exchange, const Fold& fold) {
  x = fold_lanes<(Threads < 32 ? Threads : 32)>(x, fold);
  if constexpr (Threads > 32) {
    constexpr int warps = Threads / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) exchange[warp] = x;
    __syncthreads();
    x = fold_lanes<warps>(exchange[warp / warps * warps + lane % warps], fold);
  }
  return x;
}

/// fold(fold(lane 0's, lane 1's), …, this lane's)
template <class T, class Fold> __device__ __forceinline__ T scan_lanes(T x, const Fold& fold) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const T before = shuffle_up(x, offset);
    if (threadIdx.x % 32 >= offset) x = fold(before, x);
  }
  return x;
}
