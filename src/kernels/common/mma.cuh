// Products of small tiles on tensor cores, one warp at a time, and the loads that bring their operands from shared memory.
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
// PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
#pragma once

#include "common/types.cuh"

struct tf32 { float value; };

namespace smelt_mma {

__device__ __forceinline__ void f16_m16n8k8(float (&d)[4], u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}

#define SMELT_MMA_FLOAT(function, shape, type)                                                                                \
  __device__ __forceinline__ void function(float(&d)[4], const u32(&a)[4], const u32(&b)[2]) {                                \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                                                      \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
  }
#define SMELT_MMA_BYTES(a_name, b_name, a_type, b_type)                                                                       \
  __device__ __forceinline__ void a_name##_##b_name##_m8n8k16(i32& d0, i32& d1, u32 a, u32 b) {                               \
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." a_type "." b_type ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"             \
                 : "+r"(d0), "+r"(d1)                                                                                         \
                 : "r"(a), "r"(b));                                                                                           \
  }                                                                                                                           \
  __device__ __forceinline__ void a_name##_##b_name##_m16n8k32(i32(&d)[4], const u32(&a)[4], const u32(&b)[2]) {              \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type                                                   \
                 ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
  }

SMELT_MMA_FLOAT(f16_m16n8k16, "m16n8k16", "f16")
SMELT_MMA_FLOAT(bf16_m16n8k16, "m16n8k16", "bf16")
SMELT_MMA_FLOAT(tf32_m16n8k8, "m16n8k8", "tf32")
SMELT_MMA_BYTES(s8, s8, "s8", "s8")
SMELT_MMA_BYTES(s8, u8, "s8", "u8")
SMELT_MMA_BYTES(u8, s8, "u8", "s8")
SMELT_MMA_BYTES(u8, u8, "u8", "u8")

#undef SMELT_MMA_FLOAT
#undef SMELT_MMA_BYTES

}  // namespace smelt_mma

template <class A, class B = A> struct Mma;

template <> struct Mma<f16, f16> {
  using Sum = float;
  static constexpr int k = 16;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    smelt_mma::f16_m16n8k16(d, a, b);
#else
    smelt_mma::f16_m16n8k8(d, a[0], a[1], b[0]);
    smelt_mma::f16_m16n8k8(d, a[2], a[3], b[1]);
#endif
  }
};

#if __CUDA_ARCH__ >= 800
template <> struct Mma<bf16, bf16> {
  using Sum = float;
  static constexpr int k = 16;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    smelt_mma::bf16_m16n8k16(d, a, b);
  }
};

template <> struct Mma<tf32, tf32> {
  using Sum = float;
  static constexpr int k = 8;
  static __device__ __forceinline__ void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    smelt_mma::tf32_m16n8k8(d, a, b);
  }
};
#endif

#if __CUDA_ARCH__ >= 800
#define SMELT_MMA_ADD_BYTES(a_name, b_name) smelt_mma::a_name##_##b_name##_m16n8k32(d, a, b)
#else
#define SMELT_MMA_ADD_BYTES(a_name, b_name)                                   \
  smelt_mma::a_name##_##b_name##_m8n8k16(d[0], d[1], a[0], b[0]);             \
  smelt_mma::a_name##_##b_name##_m8n8k16(d[2], d[3], a[1], b[0]);             \
  smelt_mma::a_name##_##b_name##_m8n8k16(d[0], d[1], a[2], b[1]);             \
  smelt_mma::a_name##_##b_name##_m8n8k16(d[2], d[3], a[3], b[1])
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

/// Loads 8x8 matrices of 16-bit elements, rows of 16 bytes: lane 8i + r holds the address of row r of matrix i (lanes beyond 8 ·
/// Count hold any). r[i]: row lane / 4, bytes 4 · (lane % 4) … + 3 of matrix i. A (16, 32 bytes) tile of a takes the matrices in
/// the order rows 0-7, rows 8-15, then 16 bytes further on.
template <int Count> __device__ __forceinline__ void ldmatrix(u32 (&r)[Count], u32 address) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
  if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
  if constexpr (Count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/// The same, each matrix transposed: r[i] holds elements (2t, g) and (2t + 1, g). 16-bit elements only.
template <int Count> __device__ __forceinline__ void ldmatrix_transposed(u32 (&r)[Count], u32 address) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
  if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  if constexpr (Count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/// Rounds a float to tf32's 10 bits of mantissa, ties away from zero. The instruction truncates what is not rounded before.
__device__ __forceinline__ u32 tf32_of(float x) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
#else
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
#endif
}
