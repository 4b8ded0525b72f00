// What a warp does with small matrices: loads and stores of shared memory (`shared`: common/shared.cuh), and products.
#pragma once

#include "common/integers.cuh"

namespace ptx {

// Matrices of 8 rows of 16 bytes in shared memory: lane 8i + r holds the address of row r of matrix i, and gets of matrix i in
// r[i] the word lane % 4 of row lane / 4. sm_75.

template <int Count> __device__ __forceinline__ void ldmatrix(u32 (&r)[Count], u32 shared) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(shared) : "memory");
  if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared) : "memory");
  if constexpr (Count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}
/// Each matrix of 8 x 8 16-bit elements transposed.
template <int Count> __device__ __forceinline__ void ldmatrix_trans(u32 (&r)[Count], u32 shared) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(shared) : "memory");
  if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared)
                 : "memory");
  if constexpr (Count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// The same the other way round: what ldmatrix would read. sm_90.

template <int Count> __device__ __forceinline__ void stmatrix(u32 shared, const u32 (&r)[4]) {
  static_assert(Count == 2 || Count == 4);
  if constexpr (Count == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(r[0]), "r"(r[1]) : "memory");
  if constexpr (Count == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}
template <int Count> __device__ __forceinline__ void stmatrix_trans(u32 shared, const u32 (&r)[4]) {
  static_assert(Count == 2 || Count == 4);
  if constexpr (Count == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(r[0]), "r"(r[1]) : "memory");
  if constexpr (Count == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Products on tensor cores, d += a b, by a warp: mma_SHAPE_TYPES. common/mma.cuh says how fragments lie. m16n8k8 of f16 and
// m8n8k16 of bytes sm_75; the others sm_80.

__device__ __forceinline__ void mma_m16n8k8_f16(float (&d)[4], u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}

#define SMELT_MMA_FLOAT(shape, type)                                                                                          \
  __device__ __forceinline__ void mma_##shape##_##type(float(&d)[4], const u32(&a)[4], const u32(&b)[2]) {                    \
    asm volatile("mma.sync.aligned." #shape ".row.col.f32." #type "." #type                                                   \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
  }
#define SMELT_MMA_BYTES(a_type, b_type)                                                                                       \
  __device__ __forceinline__ void mma_m8n8k16_##a_type##_##b_type(i32& d0, i32& d1, u32 a, u32 b) {                           \
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." #a_type "." #b_type ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"           \
                 : "+r"(d0), "+r"(d1)                                                                                         \
                 : "r"(a), "r"(b));                                                                                           \
  }                                                                                                                           \
  __device__ __forceinline__ void mma_m16n8k32_##a_type##_##b_type(i32(&d)[4], const u32(&a)[4], const u32(&b)[2]) {          \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." #a_type "." #b_type                                                 \
                 ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
  }

SMELT_MMA_FLOAT(m16n8k16, f16)
SMELT_MMA_FLOAT(m16n8k16, bf16)
SMELT_MMA_FLOAT(m16n8k8, tf32)
SMELT_MMA_BYTES(s8, s8)
SMELT_MMA_BYTES(s8, u8)
SMELT_MMA_BYTES(u8, s8)
SMELT_MMA_BYTES(u8, u8)

#undef SMELT_MMA_FLOAT
#undef SMELT_MMA_BYTES

}  // namespace ptx
