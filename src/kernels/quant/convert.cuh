// Cast, QuantizeLinear and DequantizeLinear from and to numbers of 8 bits and fewer.
//
//   x, y       of one shape, dense; a byte has several numbers of fewer than 8 bits
//   scale      one, or one for each index of an axis or each block along it (ScaleOf)
//   zero       like scale, or none
//
//   cast            y = x
//   quantize        y = round(x / scale) + zero          integers; saturated
//                   y = x / scale + zero                 others
//   dequantize      y = (x - zero) * scale
//
// Computed in float. A thread writes one element, or the elements of one byte. Launch: blocks of convert_threads threads.
#pragma once

#include "kernels/quant/convert.h"
#include "quant/narrow_types.cuh"

constexpr int convert_threads = 256;

/// Elements of a type that C++ has.
template <class T> struct Plain {
  using Memory = T;
  static __device__ constexpr u32 per_thread() { return 1; }
  static __device__ __forceinline__ float read(const T* x, u32 i) { return as_float(x[i]); }
};
/// Codes of Bits bits of a format of quant/narrow_types.cuh.
template <class Format, int Bits> struct Packed {
  using Memory = u8;
  static __device__ constexpr u32 per_thread() { return Bits < 8 ? 8 / Bits : 1; }
  static __device__ __forceinline__ float read(const u8* x, u32 i) { return Format::decode(code_at<Bits>(x, i)); }
};
/// No zero point.
struct NoZero {
  using Memory = u8;
  static __device__ __forceinline__ float read(const u8*, u32) { return 0; }
};

/// y[i] = value(x, i), a float or an i64.
template <bool Saturate, class T, class Value, class X>
__device__ __forceinline__ void store_element(Plain<T>, const X* x, T* y, u32 count, const Value& value) {
  const u32 i = blockIdx.x * static_cast<u32>(convert_threads) + threadIdx.x;
  if (i >= count) return;
  const auto v = value(x, i);
  if constexpr (is_same_type<decltype(v), const i64>) y[i] = (T)v;
  else y[i] = from_float<T>(v);
}
/// The codes of one byte.
template <bool Saturate, class Format, int Bits, class Value, class X>
__device__ __forceinline__ void store_element(Packed<Format, Bits>, const X* x, u8* y, u32 count, const Value& value) {
  constexpr u32 per_thread = Packed<Format, Bits>::per_thread(), mask = (1u << Bits) - 1;
  const u32 thread = blockIdx.x * static_cast<u32>(convert_threads) + threadIdx.x, first = thread * per_thread;
  if (first >= count) return;
  u32 byte = 0;
#pragma unroll
  for (u32 e = 0; e < per_thread; ++e) {
    const u32 i = first + e;
    if (i >= count) break;
    const auto v = value(x, i);
    if constexpr (is_same_type<decltype(v), const i64>) byte |= (static_cast<u32>(v) & mask) << (e * Bits);
    else byte |= (Format::encode(v, Saturate) & mask) << (e * Bits);
  }
  y[thread] = byte;
}

template <class X> inline constexpr bool is_small_integer = false;
template <int Width, bool Signed, int Bits> inline constexpr bool is_small_integer<Packed<SmallInteger<Width, Signed>, Bits>> = true;
template <class Y> inline constexpr bool is_plain_integer = false;
template <class T> inline constexpr bool is_plain_integer<Plain<T>> = !is_real<T>;

/// Whole: integers to integers, which keep their lowest bits; small ones do the same.
template <class X, class Y, bool Saturate, bool Whole>
__device__ __forceinline__ void cast(const CastArgs<typename X::Memory, typename Y::Memory>& a) {
  store_element<Saturate>(Y(), a.x, a.y, a.count, [](const typename X::Memory* from, u32 i) {
    if constexpr (Whole) return static_cast<i64>(from[i]);
    else if constexpr (is_small_integer<X> && is_plain_integer<Y>) return static_cast<i64>(X::read(from, i));
    else return X::read(from, i);
  });
}

/// round(q) + zero within [low, high]; NaN counts as 0.
__device__ __forceinline__ int saturated(float q, int zero, double low, double high) {
  const double v = rint(static_cast<double>(q != q ? 0.f : q)) + zero;
  return static_cast<int>(v < low ? low : v > high ? high : v);
}

/// Quotient: the type that x / scale is rounded to. Whole: Y is of integers Low … High.
template <class X, class Y, class Zero, class Quotient, bool Saturate, bool Whole, i64 Low, i64 High, class S>
__device__ __forceinline__ void quantize(
    const QuantizeArgs<typename X::Memory, typename Y::Memory, S, typename Zero::Memory>& a) {
  store_element<Saturate>(Y(), a.x, a.y, a.count, [&](const typename X::Memory* from, u32 i) {
    const u32 s = a.scale_of(i);
    const float by = as_float(a.scale[s]), offset = Zero::read(a.zero, s);
    float q;
    if constexpr (is_same_type<Quotient, double>) q = static_cast<float>(static_cast<double>(X::read(from, i)) / by);
    else q = widened<float>(narrowed<Quotient>(X::read(from, i) / by));
    if constexpr (Whole)
      return static_cast<i64>(saturated(q, static_cast<int>(offset), static_cast<double>(Low), static_cast<double>(High)));
    else return q + offset;
  });
}

template <class X, class Y, class Zero, bool Saturate, class S>
__device__ __forceinline__ void dequantize(
    const QuantizeArgs<typename X::Memory, typename Y::Memory, S, typename Zero::Memory>& a) {
  store_element<Saturate>(Y(), a.x, a.y, a.count, [&](const typename X::Memory* from, u32 i) {
    const u32 s = a.scale_of(i);
    const float by = as_float(a.scale[s]), offset = Zero::read(a.zero, s);
    return (X::read(from, i) - offset) * by;
  });
}
