// Conversions and arithmetic.
#pragma once

#include "common/integers.cuh"

namespace ptx {

// Conversions. Halves are their bits. sm_75; to bf16 and tf32 sm_80.

__device__ __forceinline__ float cvt_f32_f16(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ u16 cvt_rn_f16_f32(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ u16 cvt_rn_bf16_f32(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
/// `low` in the lower half of the result.
__device__ __forceinline__ u32 cvt_rn_f16x2_f32(float high, float low) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ u32 cvt_rn_bf16x2_f32(float high, float low) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ u32 cvt_rna_tf32_f32(float x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

/// Four integers as bytes, the first in the lowest, saturated. sm_72.
template <bool Signed> __device__ __forceinline__ u32 pack_saturated(const int (&x)[4]) {
  u32 high, all;
  if constexpr (Signed) {
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(x[3]), "r"(x[2]), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(x[1]), "r"(x[0]), "r"(high));
  } else {
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(x[3]), "r"(x[2]), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(x[1]), "r"(x[0]), "r"(high));
  }
  return all;
}

// Arithmetic. sm_75.

/// The bits of 2^23, which the compiler does not know: of an instruction's operands one alone may be a literal, and this is to be the
/// other one, in a register. No grid has 2^16 blocks along its third axis.
__device__ __forceinline__ u32 bits_of_2_to_23() {
  u32 bits;
  asm("{.reg .u32 z; mov.u32 z, %ctaid.z; shr.u32 z, z, 16; or.b32 %0, z, 0x4b000000;}" : "=r"(bits));
  return bits;
}
__device__ __forceinline__ float ex2_approx_ftz_f32(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x to a unit in the last place.
__device__ __forceinline__ float rcp_approx_ftz_f32(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// sum + the products of the four bytes of a and b.
__device__ __forceinline__ i32 dp4a_s32_s32(u32 a, u32 b, i32 sum) {
  i32 y;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(sum));
  return y;
}
__device__ __forceinline__ i32 dp4a_u32_s32(u32 a, u32 b, i32 sum) {
  i32 y;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(sum));
  return y;
}

// NaN if either is. sm_80.

__device__ __forceinline__ float min_nan_f32(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ float max_nan_f32(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ u32 max_nan_f16x2(u32 a, u32 b) {
  u32 y;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
__device__ __forceinline__ u32 max_nan_bf16x2(u32 a, u32 b) {
  u32 y;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

}  // namespace ptx
