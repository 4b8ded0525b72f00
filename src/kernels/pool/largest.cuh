// The largest of vectors, element by element. Two halves are compared at a time, and bytes two of four in a word, where the vectors
// have whole words; a comparison that each element has of its own takes several times the instructions.
#pragma once

#include "common/ptx/numbers.cuh"
#include "pool/fold.cuh"

#if __CUDA_ARCH__ >= 800
template <class T> constexpr bool compared_in_pairs = sizeof(T) == 1 || is_half<T>;
#else
template <class T> constexpr bool compared_in_pairs = sizeof(T) == 1;
#endif

/// Begins below every element; a NaN is larger than all numbers.
template <class T, int Width, bool InPairs = compared_in_pairs<T> && Width * sizeof(T) % 4 == 0> struct Largest {
  using W = wide_t<T>;
  W most[Width];
  __device__ __forceinline__ Largest() {
#pragma unroll
    for (int e = 0; e < Width; ++e) most[e] = nothing<Pool::max, T>();
  }
  __device__ __forceinline__ void add(const Vector<T, Width>& v) {
#pragma unroll
    for (int e = 0; e < Width; ++e) fold<Pool::max>(most[e], widened<W>(v.at[e]));
  }
  __device__ __forceinline__ Vector<T, Width> result() const {
    Vector<T, Width> y;
#pragma unroll
    for (int e = 0; e < Width; ++e) y.at[e] = narrowed<T>(most[e]);
    return y;
  }
};

template <class T, int Width> struct Largest<T, Width, true> {
  static constexpr bool bytes = sizeof(T) == 1;
  static constexpr int words = Width * sizeof(T) / 4;
  static constexpr u32 low = 0x00ff00ff, sign = is_same_type<T, i8> ? 0x80808080 : 0;   // signed bytes are compared with their sign turned
  u32 most[words][bytes ? 2 : 1];                                           // of bytes the even and the odd ones, two in a word

  __device__ __forceinline__ Largest() {
    const T least = narrowed<T>(nothing<Pool::max, T>());
#pragma unroll
    for (int i = 0; i < words; ++i) {
      if constexpr (bytes) most[i][0] = most[i][1] = 0;
      else most[i][0] = u32{reinterpret_cast<const u16&>(least)} * 0x10001;
    }
  }
  __device__ __forceinline__ void add(const Vector<T, Width>& v) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      const u32 x = reinterpret_cast<const u32*>(v.at)[i] ^ sign;
      if constexpr (bytes) {
        most[i][0] = __vmaxu2(most[i][0], x & low);
        most[i][1] = __vmaxu2(most[i][1], x >> 8 & low);
      } else {
        most[i][0] = IsBf16<T>::value ? ptx::max_nan_bf16x2(most[i][0], x) : ptx::max_nan_f16x2(most[i][0], x);
      }
    }
  }
  __device__ __forceinline__ Vector<T, Width> result() const {
    Vector<T, Width> y;
#pragma unroll
    for (int i = 0; i < words; ++i) {
      u32& to = reinterpret_cast<u32*>(y.at)[i];
      if constexpr (bytes) to = (most[i][0] | most[i][1] << 8) ^ sign;
      else to = most[i][0];
    }
    return y;
  }
};
