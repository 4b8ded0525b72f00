// Products of small tiles on tensor cores, one warp at a time.
//
//   Mma<A, B>::add(d, a, b)      d += a · b                                    a (16, K), b (K, 8), d (16, 8)
//
//   A, B                K    sums     where
//   f16, f16            16   float    sm_75 on (there two instructions of K = 8)
//   bf16, bf16          16   float    sm_80 on
//   tf32, tf32          8    float    sm_80 on; words are floats, of which the instruction reads the upper 19 bits
//   i8 or u8, either    32   i32      sm_75 on (there four instructions of 8x8x16)
//
// K is 32 bytes of either operand, so a lane's words lie alike for all types. With g = lane / 4, t = lane % 4:
//
//   a[0], a[1]   rows g, g + 8, bytes 4t … 4t + 3 along K      a[2], a[3]   the same 16 bytes further on
//   b[0], b[1]   column g, bytes 4t … 4t + 3 along K, and 16 bytes further on
//   d[0], d[1]   row g, columns 2t, 2t + 1                     d[2], d[3]   row g + 8
//
// ptx::ldmatrix brings the words of a[0] … a[3] from shared memory: its matrices are rows 0-7, rows 8-15, then the same rows 16
// bytes further on. ptx::ldmatrix_trans does from operands of 16 bits whose lines run along M or N: r[i] holds elements (2t, g)
// and (2t + 1, g).
//
// PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
#pragma once

#include "common/ptx/matrices.cuh"
#include "common/ptx/numbers.cuh"
#include "common/types.cuh"

struct tf32 { float value; };

template <class A, class B = A> struct Mma;

template <> struct Mma<f16, f16> {
  using Sum = float;
  static constexpr int k = 16;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    ptx::mma_m16n8k16_f16(d, a, b);
#else
    ptx::mma_m16n8k8_f16(d, a[0], a[1], b[0]);
    ptx::mma_m16n8k8_f16(d, a[2], a[3], b[1]);
#endif
  }
};

#if __CUDA_ARCH__ >= 800
template <> struct Mma<bf16, bf16> {
  using Sum = float;
  static constexpr int k = 16;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    ptx::mma_m16n8k16_bf16(d, a, b);
  }
};

template <> struct Mma<tf32, tf32> {
  using Sum = float;
  static constexpr int k = 8;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    ptx::mma_m16n8k8_tf32(d, a, b);
  }
};
#endif

#if __CUDA_ARCH__ >= 800
#define SMELT_MMA_ADD_BYTES(a_name, b_name) ptx::mma_m16n8k32_##a_name##_##b_name(d, a, b)
#else
#define SMELT_MMA_ADD_BYTES(a_name, b_name)                                   \
  ptx::mma_m8n8k16_##a_name##_##b_name(d[0], d[1], a[0], b[0]);               \
  ptx::mma_m8n8k16_##a_name##_##b_name(d[2], d[3], a[1], b[0]);               \
  ptx::mma_m8n8k16_##a_name##_##b_name(d[0], d[1], a[2], b[1]);               \
  ptx::mma_m8n8k16_##a_name##_##b_name(d[2], d[3], a[3], b[1])
#endif
#define SMELT_MMA_OF_BYTES(A, B, a_name, b_name)                                                               \
  template <> struct Mma<A, B> {                                                                               \
    using Sum = i32;                                                                                           \
    static constexpr int k = 32;                                                                               \
    static __device__ __forceinline__ void add(i32(&d)[4], const u32(&a)[4], const u32(&b)[2]) {               \
      SMELT_MMA_ADD_BYTES(a_name, b_name);                                                                     \
    }                                                                                                          \
  };
SMELT_MMA_OF_BYTES(i8, i8, s8, s8)
SMELT_MMA_OF_BYTES(i8, u8, s8, u8)
SMELT_MMA_OF_BYTES(u8, i8, u8, s8)
SMELT_MMA_OF_BYTES(u8, u8, u8, u8)
#undef SMELT_MMA_OF_BYTES
#undef SMELT_MMA_ADD_BYTES

/// Rounds a float to tf32's 10 bits of mantissa, ties away from zero. The instruction truncates what is not rounded before.
__device__ __forceinline__ u32 tf32_of(float x) {
#if __CUDA_ARCH__ >= 800
  return ptx::cvt_rna_tf32_f32(x);
#else
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
#endif
}
