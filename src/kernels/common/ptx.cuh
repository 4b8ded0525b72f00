// Instructions that CUDA C++ has no function for, one function each, named after the instruction: all inline assembly of the
// kernels stands here. What an instruction does is in the PTX ISA (docs.nvidia.com/cuda/parallel-thread-execution) under that
// name; the line above each group gives the first architecture that has it. A function may be declared for any architecture, and
// is called only from those on.
//
// `shared` is an address in shared memory (common/shared.cuh), aligned to the access, as pointers are.
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

// Arithmetic. sm_75.

__device__ __forceinline__ float ex2_approx_ftz_f32(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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

// Global memory. sm_75; with a cache policy sm_80. Volatile: what is read twice is loaded twice.

__device__ __forceinline__ uint4 ld_global_cg_v4(const void* from) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from) : "memory");
  return x;
}
__device__ __forceinline__ u64 createpolicy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ u64 createpolicy_evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint4 ld_global_cache_hint_v4(const void* from, u64 policy) {
  uint4 x;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from), "l"(policy));
  return x;
}
__device__ __forceinline__ void st_global_cache_hint_v4(void* to, const uint4& x, u64 policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w),
               "l"(policy)
               : "memory");
}

// Shared memory. sm_75.

__device__ __forceinline__ float ld_shared_f32(u32 shared) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared) : "memory");
  return x;
}
__device__ __forceinline__ uint4 ld_shared_v4(u32 shared) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(shared)
               : "memory");
  return x;
}
__device__ __forceinline__ void st_shared_u8(u32 shared, u32 x) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(x) : "memory");
}
__device__ __forceinline__ void st_shared_u16(u32 shared, u16 x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared), "h"(x) : "memory");
}
__device__ __forceinline__ void st_shared_u32(u32 shared, u32 x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(x) : "memory");
}
__device__ __forceinline__ void st_shared_v2_u32(u32 shared, u32 x, u32 y) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(shared), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void st_shared_v4_u32(u32 shared, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// Asynchronous copies from global to shared memory: the first `read` bytes from `from`, zeros behind them. sm_80.

__device__ __forceinline__ void cp_async_cg_16(u32 shared, const void* from, int read) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(read) : "memory");
}
template <int Bytes> __device__ __forceinline__ void cp_async_ca(u32 shared, const void* from, int read) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from), "n"(Bytes), "r"(read) : "memory");
}
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending> __device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

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

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// The same by four warps, d (64, 128), a (64, 32 bytes) in registers, b (32 bytes, 128) in shared memory, as a matrix descriptor
// says. The 64 sums of a thread are operands of one instruction, each of them written out. sm_90a.

#define SMELT_8_SUMS(constraint, i)                                                                                           \
  constraint(d[i]), constraint(d[i + 1]), constraint(d[i + 2]), constraint(d[i + 3]), constraint(d[i + 4]),                   \
      constraint(d[i + 5]), constraint(d[i + 6]), constraint(d[i + 7])
#define SMELT_WGMMA(name, sum, constraint, instruction, signs)                                                                \
  __device__ __forceinline__ void name(sum(&d)[64], const u32(&a)[4], u64 b) {                                                \
    asm volatile(                                                                                                             \
        "{.reg .pred p; setp.ne.b32 p, 1, 0;\n"                                                                               \
        "wgmma.mma_async.sync.aligned." instruction " "                                                                       \
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "               \
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "                \
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "                \
        "%62, %63}, {%64, %65, %66, %67}, %68, p" signs ";}\n"                                                                \
        : SMELT_8_SUMS(constraint, 0), SMELT_8_SUMS(constraint, 8), SMELT_8_SUMS(constraint, 16),                             \
          SMELT_8_SUMS(constraint, 24), SMELT_8_SUMS(constraint, 32), SMELT_8_SUMS(constraint, 40),                           \
          SMELT_8_SUMS(constraint, 48), SMELT_8_SUMS(constraint, 56)                                                          \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                                \
  }

SMELT_WGMMA(wgmma_m64n128k16_f16, float, "+f", "m64n128k16.f32.f16.f16", ", 1, 1, 0")
SMELT_WGMMA(wgmma_m64n128k16_bf16, float, "+f", "m64n128k16.f32.bf16.bf16", ", 1, 1, 0")
SMELT_WGMMA(wgmma_m64n128k32_s8, i32, "+r", "m64n128k32.s32.s8.s8", "")

#undef SMELT_WGMMA
#undef SMELT_8_SUMS

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> __device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
__device__ __forceinline__ void wgmma_commit_and_wait() {
  wgmma_commit_group();
  wgmma_wait_group<0>();
}
/// The compiler keeps what reads x behind this, and what writes it before.
__device__ __forceinline__ void keep_order(float& x) { asm volatile("" : "+f"(x)::"memory"); }

/// How many registers each thread of these four warps has from here on; all four execute it.
template <int Count> __device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> __device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

// The same with both operands in shared memory, d (64, N) and 16 steps of K of 16-bit types: d += a b.
// TransA, TransB: 0 where the operand's lines run along K, 1 where they run along M or N. wgmma_TYPE(d of N / 2 sums, …).

// SMELT_TO_t: the numbers of the first 10 t operands, a comma behind each; SMELT_TAIL_n(t): the n after them.

#define SMELT_TAIL_2(t) "%" #t "0, %" #t "1"
#define SMELT_TAIL_4(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3"
#define SMELT_TAIL_6(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5"
#define SMELT_TAIL_8(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7"
#define SMELT_TAIL_10(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define SMELT_TEN(t) SMELT_TAIL_10(t) ", "
#define SMELT_TO_1 SMELT_TEN()
#define SMELT_TO_2 SMELT_TO_1 SMELT_TEN(1)
#define SMELT_TO_3 SMELT_TO_2 SMELT_TEN(2)
#define SMELT_TO_4 SMELT_TO_3 SMELT_TEN(3)
#define SMELT_TO_5 SMELT_TO_4 SMELT_TEN(4)
#define SMELT_TO_6 SMELT_TO_5 SMELT_TEN(5)
#define SMELT_TO_7 SMELT_TO_6 SMELT_TEN(6)
#define SMELT_TO_8 SMELT_TO_7 SMELT_TEN(7)
#define SMELT_TO_9 SMELT_TO_8 SMELT_TEN(8)
#define SMELT_TO_10 SMELT_TO_9 SMELT_TEN(9)
#define SMELT_TO_11 SMELT_TO_10 SMELT_TEN(10)
#define SMELT_TO_12 SMELT_TO_11 SMELT_TEN(11)
#define SMELT_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SMELT_8(i) SMELT_4(i), SMELT_4(i + 4)
#define SMELT_16(i) SMELT_8(i), SMELT_8(i + 8)
#define SMELT_32(i) SMELT_16(i), SMELT_16(i + 16)
#define SMELT_64(i) SMELT_32(i), SMELT_32(i + 32)
#define SMELT_PRODUCT(name, type, n, count, a, b, c, numbers, ...)                                                            \
  template <int TransA, int TransB> __device__ __forceinline__ void name(float (&d)[count], u64 left, u64 right) {            \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" numbers "}, %" #count ", %" #a        \
                 ", p, 1, 1, %" #b ", %" #c ";}\n"                                                                            \
                 : __VA_ARGS__                                                                                                \
                 : "l"(left), "l"(right), "n"(TransA), "n"(TransB));                                                          \
  }
#define SMELT_PRODUCTS(...)                      \
  SMELT_PRODUCT(wgmma_f16, f16, __VA_ARGS__)     \
  SMELT_PRODUCT(wgmma_bf16, bf16, __VA_ARGS__)
SMELT_PRODUCTS(8, 4, 5, 6, 7, SMELT_TAIL_4(), SMELT_4(0))
SMELT_PRODUCTS(16, 8, 9, 10, 11, SMELT_TAIL_8(), SMELT_8(0))
SMELT_PRODUCTS(24, 12, 13, 14, 15, SMELT_TO_1 SMELT_TAIL_2(1), SMELT_8(0), SMELT_4(8))
SMELT_PRODUCTS(32, 16, 17, 18, 19, SMELT_TO_1 SMELT_TAIL_6(1), SMELT_16(0))
SMELT_PRODUCTS(40, 20, 21, 22, 23, SMELT_TO_1 SMELT_TAIL_10(1), SMELT_16(0), SMELT_4(16))
SMELT_PRODUCTS(48, 24, 25, 26, 27, SMELT_TO_2 SMELT_TAIL_4(2), SMELT_16(0), SMELT_8(16))
SMELT_PRODUCTS(56, 28, 29, 30, 31, SMELT_TO_2 SMELT_TAIL_8(2), SMELT_16(0), SMELT_8(16), SMELT_4(24))
SMELT_PRODUCTS(64, 32, 33, 34, 35, SMELT_TO_3 SMELT_TAIL_2(3), SMELT_32(0))
SMELT_PRODUCTS(72, 36, 37, 38, 39, SMELT_TO_3 SMELT_TAIL_6(3), SMELT_32(0), SMELT_4(32))
SMELT_PRODUCTS(80, 40, 41, 42, 43, SMELT_TO_3 SMELT_TAIL_10(3), SMELT_32(0), SMELT_8(32))
SMELT_PRODUCTS(96, 48, 49, 50, 51, SMELT_TO_4 SMELT_TAIL_8(4), SMELT_32(0), SMELT_16(32))
SMELT_PRODUCTS(112, 56, 57, 58, 59, SMELT_TO_5 SMELT_TAIL_6(5), SMELT_32(0), SMELT_16(32), SMELT_8(48))
SMELT_PRODUCTS(128, 64, 65, 66, 67, SMELT_TO_6 SMELT_TAIL_4(6), SMELT_64(0))
SMELT_PRODUCTS(144, 72, 73, 74, 75, SMELT_TO_7 SMELT_TAIL_2(7), SMELT_64(0), SMELT_8(64))
SMELT_PRODUCTS(160, 80, 81, 82, 83, SMELT_TO_7 SMELT_TAIL_10(7), SMELT_64(0), SMELT_16(64))
SMELT_PRODUCTS(176, 88, 89, 90, 91, SMELT_TO_8 SMELT_TAIL_8(8), SMELT_64(0), SMELT_16(64), SMELT_8(80))
SMELT_PRODUCTS(192, 96, 97, 98, 99, SMELT_TO_9 SMELT_TAIL_6(9), SMELT_64(0), SMELT_32(64))
SMELT_PRODUCTS(208, 104, 105, 106, 107, SMELT_TO_10 SMELT_TAIL_4(10), SMELT_64(0), SMELT_32(64), SMELT_8(96))
SMELT_PRODUCTS(224, 112, 113, 114, 115, SMELT_TO_11 SMELT_TAIL_2(11), SMELT_64(0), SMELT_32(64), SMELT_16(96))
SMELT_PRODUCTS(240, 120, 121, 122, 123, SMELT_TO_11 SMELT_TAIL_10(11), SMELT_64(0), SMELT_32(64), SMELT_16(96), SMELT_8(112))
SMELT_PRODUCTS(256, 128, 129, 130, 131, SMELT_TO_12 SMELT_TAIL_8(12), SMELT_64(0), SMELT_64(64))
#undef SMELT_PRODUCTS
#undef SMELT_PRODUCT
#undef SMELT_64
#undef SMELT_32
#undef SMELT_16
#undef SMELT_8
#undef SMELT_4
#undef SMELT_TO_12
#undef SMELT_TO_11
#undef SMELT_TO_10
#undef SMELT_TO_9
#undef SMELT_TO_8
#undef SMELT_TO_7
#undef SMELT_TO_6
#undef SMELT_TO_5
#undef SMELT_TO_4
#undef SMELT_TO_3
#undef SMELT_TO_2
#undef SMELT_TO_1
#undef SMELT_TEN
#undef SMELT_TAIL_10
#undef SMELT_TAIL_8
#undef SMELT_TAIL_6
#undef SMELT_TAIL_4
#undef SMELT_TAIL_2
#endif

// Barriers in shared memory that count arrivals, and bytes that copies bring; a phase ends when all have come. sm_90.

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// What was initialised is visible to the copies.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Whether the phase of this parity has ended; waits a moment for it.
__device__ __forceinline__ bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
/// A barrier of the block's first `threads` threads, or of other warps that count so many; `id`: 1 … 15.
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Copies of boxes by a tensor map (CUtensorMap), whose bytes a barrier counts; x runs along memory. sm_90.

__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_3d(u32 shared, const void* map, i32 x, i32 y, i32 z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
/// The same to the same place of every block of the cluster whose bit in `blocks` is set, and to their barriers.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_multicast(u32 shared, const void* map, i32 x, i32 y, i32 z, u32 barrier,
                                                                  u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], "
      "[%5], %6;" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
      : "memory");
}

// Blocks of a cluster and each other's shared memory. sm_90.

/// `there`: as mapa_shared_cluster gives it. Publishes nothing to other blocks: with release.cluster, ptxas puts a fence of the
/// whole GPU before it, which takes a microsecond.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

__device__ __forceinline__ u32 cluster_ctarank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void barrier_cluster_arrive_and_wait() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// What the thread wrote to shared memory is visible to the copies that it or others issue behind a barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Copies to another block's shared memory, whose barrier counts the bytes; both as mapa_shared_cluster gives them.
__device__ __forceinline__ void cp_async_bulk_to_cluster(u32 there, u32 shared, u32 bytes, u32 barrier_there) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(there),
               "r"(shared), "r"(bytes), "r"(barrier_there)
               : "memory");
}
/// Publishes nothing, and so needs no fence.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ u32 mapa_shared_cluster(u32 shared, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(block));
  return there;
}
__device__ __forceinline__ void ld_shared_cluster_v2_f32(float (&x)[2], u32 there) {
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(there) : "memory");
}
__device__ __forceinline__ void ld_shared_cluster_v4_f32(float (&x)[4], u32 there) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(there)
               : "memory");
}

// Programmatic dependent launch (common/dependent_launch.cuh). sm_90.

__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace ptx
