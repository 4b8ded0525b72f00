// The element types of tensors, without NVIDIA's headers: those cost 0.1 s a compilation, and are not ours to embed.
//
//   f16, bf16    two bytes; arithmetic is done in float: f32(x) widens, exactly; f16_of(x), bf16_of(x) round to nearest even
#pragma once

#include "common/integers.cuh"
#include "common/ptx/numbers.cuh"

struct alignas(2) f16 { u16 bits; };
struct alignas(2) bf16 { u16 bits; };
template <class T> struct IsBf16 { static constexpr bool value = false; };
template <> struct IsBf16<bf16> { static constexpr bool value = true; };

__device__ __forceinline__ float f32(float x) { return x; }
__device__ __forceinline__ float f32(f16 x) { return ptx::cvt_f32_f16(x.bits); }
__device__ __forceinline__ float f32(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }

__device__ __forceinline__ f16 f16_of(float x) { return {ptx::cvt_rn_f16_f32(x)}; }
__device__ __forceinline__ bf16 bf16_of(float x) {
#if __CUDA_ARCH__ >= 800
  return {ptx::cvt_rn_bf16_f32(x)};
#else
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<u16>((bits >> 16) | 0x40u)};   // NaN stays NaN
  return {static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

// A double is first rounded to odd in float; then two roundings give what one would.
__device__ __forceinline__ float to_odd(double x) {
  const float y = __double2float_rz(x);
  return static_cast<double>(y) == x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}
__device__ __forceinline__ f16 f16_of(double x) { return f16_of(to_odd(x)); }
__device__ __forceinline__ bf16 bf16_of(double x) { return bf16_of(to_odd(x)); }

/// T of a float: T{…} for arithmetic types, rounding for f16 and bf16.
template <class T> struct From {
  static __device__ __forceinline__ T f32(float x) { return static_cast<T>(x); }
};
template <> struct From<f16> {
  static __device__ __forceinline__ f16 f32(float x) { return f16_of(x); }
};
template <> struct From<bf16> {
  static __device__ __forceinline__ bf16 f32(float x) { return bf16_of(x); }
};

/// N elements, loaded and stored 16 bytes at a time at most.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector {
  T at[N];
};

/// A vector of bytes as words, where it has whole ones: bytes that are copied one by one stay apart in registers.
template <class V> struct Words { using Type = V; };
template <class T, int N> requires(sizeof(T) == 1 && N % 4 == 0) struct Words<Vector<T, N>> {
  using Type = Vector<u32, N / 4>;
};
template <class V> struct Words<V&> : Words<V> {};
template <class V> using WordsOf = typename Words<V>::Type;
template <class V> __device__ __forceinline__ WordsOf<V>& words_of(V& v) { return reinterpret_cast<WordsOf<V>&>(v); }
template <class V> __device__ __forceinline__ const WordsOf<V>& words_of(const V& v) {
  return reinterpret_cast<const WordsOf<V>&>(v);
}
