// Products of four warps, and how many registers these have.
#pragma once

#include "common/integers.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace ptx {

// A thread's sums are operands of one instruction, each of them written out. SMELT_TO_t: the numbers of the first 10 t operands,
// a comma behind each; SMELT_TAIL_n(t): the n after them. SMELT_n(i): n sums from d[i] on, SMELT_SUM their constraint.

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
#define SMELT_SUM "+f"
#define SMELT_4(i) SMELT_SUM(d[i]), SMELT_SUM(d[i + 1]), SMELT_SUM(d[i + 2]), SMELT_SUM(d[i + 3])
#define SMELT_8(i) SMELT_4(i), SMELT_4(i + 4)
#define SMELT_16(i) SMELT_8(i), SMELT_8(i + 8)
#define SMELT_32(i) SMELT_16(i), SMELT_16(i + 16)
#define SMELT_64(i) SMELT_32(i), SMELT_32(i + 32)

// d += a b by four warps, d (64, 128), a (64, 32 bytes) in registers, b (32 bytes, 128) in shared memory, as a matrix descriptor
// says. sm_90a.

#define SMELT_WGMMA(name, sum, instruction, signs)                                                                            \
  __device__ __forceinline__ void name(sum(&d)[64], const u32(&a)[4], u64 b) {                                                \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned." instruction " {" SMELT_TO_6 SMELT_TAIL_4(6)                                  \
                 "}, {%64, %65, %66, %67}, %68, p" signs ";}\n"                                                               \
                 : SMELT_64(0)                                                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                       \
  }
SMELT_WGMMA(wgmma_m64n128k16_f16, float, "m64n128k16.f32.f16.f16", ", 1, 1, 0")
SMELT_WGMMA(wgmma_m64n128k16_bf16, float, "m64n128k16.f32.bf16.bf16", ", 1, 1, 0")
#undef SMELT_SUM
#define SMELT_SUM "+r"
SMELT_WGMMA(wgmma_m64n128k32_s8, i32, "m64n128k32.s32.s8.s8", "")
#undef SMELT_SUM
#define SMELT_SUM "+f"
#undef SMELT_WGMMA

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
__device__ __forceinline__ void keep_order(i32& x) { asm volatile("" : "+r"(x)::"memory"); }
__device__ __forceinline__ void keep_order(u32& x) { asm volatile("" : "+r"(x)::"memory"); }
/// What x, which is not below 0, is computed from is computed before what follows: ptxas moves waits for products up over arithmetic
/// that does not need them, but over no branch.
__device__ __forceinline__ void compute_first(float x) {
  if (x < 0) asm volatile("nanosleep.u32 1;");
}

/// How many registers each thread of these four warps has from here on; all four execute it.
template <int Count> __device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> __device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

// The same with both operands in shared memory, d (64, N) and 16 steps of K of 16-bit types: d += a b.
// TransA, TransB: 0 where the operand's lines run along K, 1 where they run along M or N; where not Adds, or not `adds`, d = a b, and
// d may be anything before.
// wgmma_TYPE(d of N / 2 sums, …).

#define SMELT_PRODUCT(name, type, n, count, a, b, c, e, numbers, ...)                                                         \
  template <int TransA, int TransB, int Adds = 1>                                                                             \
  __device__ __forceinline__ void name(float (&d)[count], u64 left, u64 right, u32 adds = Adds) {                             \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #e ", 0;\n"                                                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" numbers "}, %" #count ", %" #a        \
                 ", p, 1, 1, %" #b ", %" #c ";}\n"                                                                            \
                 : __VA_ARGS__                                                                                                \
                 : "l"(left), "l"(right), "n"(TransA), "n"(TransB), "r"(adds));                                               \
  }
// a (64, 16) in registers, b's lines along N: d += a b.
#define SMELT_PRODUCT_OF_REGISTERS(name, type, n, count, a, b, c, e, numbers, ...)                                            \
  __device__ __forceinline__ void name(float (&d)[count], const u32(&x)[4], u64 right) {                                      \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" numbers "}, {%" #count ", %" #a       \
                 ", %" #b ", %" #c "}, %" #e ", p, 1, 1, 1;}\n"                                                               \
                 : __VA_ARGS__                                                                                                \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(right));                                                   \
  }
#define SMELT_PRODUCTS(...)                      \
  SMELT_PRODUCT(wgmma_f16, f16, __VA_ARGS__)     \
  SMELT_PRODUCT(wgmma_bf16, bf16, __VA_ARGS__)   \
  SMELT_PRODUCT_OF_REGISTERS(wgmma_f16_of_registers, f16, __VA_ARGS__) \
  SMELT_PRODUCT_OF_REGISTERS(wgmma_bf16_of_registers, bf16, __VA_ARGS__)
// M(columns, sums, the numbers of the operands behind these, the sums' numbers, the sums), for every width; integers lack some.
#define SMELT_WIDTHS(M) \
  M(8, 4, 5, 6, 7, 8, SMELT_TAIL_4(), SMELT_4(0)) \
  M(16, 8, 9, 10, 11, 12, SMELT_TAIL_8(), SMELT_8(0)) \
  M(24, 12, 13, 14, 15, 16, SMELT_TO_1 SMELT_TAIL_2(1), SMELT_8(0), SMELT_4(8)) \
  M(32, 16, 17, 18, 19, 20, SMELT_TO_1 SMELT_TAIL_6(1), SMELT_16(0)) \
  M(48, 24, 25, 26, 27, 28, SMELT_TO_2 SMELT_TAIL_4(2), SMELT_16(0), SMELT_8(16)) \
  M(64, 32, 33, 34, 35, 36, SMELT_TO_3 SMELT_TAIL_2(3), SMELT_32(0)) \
  M(80, 40, 41, 42, 43, 44, SMELT_TO_3 SMELT_TAIL_10(3), SMELT_32(0), SMELT_8(32)) \
  M(96, 48, 49, 50, 51, 52, SMELT_TO_4 SMELT_TAIL_8(4), SMELT_32(0), SMELT_16(32)) \
  M(112, 56, 57, 58, 59, 60, SMELT_TO_5 SMELT_TAIL_6(5), SMELT_32(0), SMELT_16(32), SMELT_8(48)) \
  M(128, 64, 65, 66, 67, 68, SMELT_TO_6 SMELT_TAIL_4(6), SMELT_64(0)) \
  M(144, 72, 73, 74, 75, 76, SMELT_TO_7 SMELT_TAIL_2(7), SMELT_64(0), SMELT_8(64)) \
  M(160, 80, 81, 82, 83, 84, SMELT_TO_7 SMELT_TAIL_10(7), SMELT_64(0), SMELT_16(64)) \
  M(176, 88, 89, 90, 91, 92, SMELT_TO_8 SMELT_TAIL_8(8), SMELT_64(0), SMELT_16(64), SMELT_8(80)) \
  M(192, 96, 97, 98, 99, 100, SMELT_TO_9 SMELT_TAIL_6(9), SMELT_64(0), SMELT_32(64)) \
  M(208, 104, 105, 106, 107, 108, SMELT_TO_10 SMELT_TAIL_4(10), SMELT_64(0), SMELT_32(64), SMELT_8(96)) \
  M(224, 112, 113, 114, 115, 116, SMELT_TO_11 SMELT_TAIL_2(11), SMELT_64(0), SMELT_32(64), SMELT_16(96)) \
  M(240, 120, 121, 122, 123, 124, SMELT_TO_11 SMELT_TAIL_10(11), SMELT_64(0), SMELT_32(64), SMELT_16(96), SMELT_8(112)) \
  M(256, 128, 129, 130, 131, 132, SMELT_TO_12 SMELT_TAIL_8(12), SMELT_64(0), SMELT_64(64))
#define SMELT_WIDTHS_OF_FLOATS(M) \
  M(40, 20, 21, 22, 23, 24, SMELT_TO_1 SMELT_TAIL_10(1), SMELT_16(0), SMELT_4(16)) \
  M(56, 28, 29, 30, 31, 32, SMELT_TO_2 SMELT_TAIL_8(2), SMELT_16(0), SMELT_8(16), SMELT_4(24)) \
  M(72, 36, 37, 38, 39, 40, SMELT_TO_3 SMELT_TAIL_6(3), SMELT_32(0), SMELT_4(32))
SMELT_WIDTHS(SMELT_PRODUCTS)
SMELT_WIDTHS_OF_FLOATS(SMELT_PRODUCTS)

// The same of 8 steps of K of floats whose last 13 bits are not read, and of 32 of 8-bit integers; their lines run along K.

#define SMELT_PRODUCT_OF_TF32(n, count, a, b, c, e, numbers, ...)                                                             \
  __device__ __forceinline__ void wgmma_tf32(float (&d)[count], u64 left, u64 right, u32 adds = 1) {                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #b ", 0;\n"                                                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" numbers "}, %" #count ", %" #a ", p, 1, 1;}\n"   \
                 : __VA_ARGS__                                                                                                \
                 : "l"(left), "l"(right), "r"(adds));                                                                         \
  }
SMELT_WIDTHS(SMELT_PRODUCT_OF_TF32)
SMELT_WIDTHS_OF_FLOATS(SMELT_PRODUCT_OF_TF32)
#undef SMELT_PRODUCT_OF_TF32

/// Of 32 steps of K of 8-bit floats, lines along K; d += a b, or where not Adds d = a b.
#define SMELT_PRODUCT_OF_E4M3(n, count, a, b, c, e, numbers, ...)                                                             \
  template <int Adds> __device__ __forceinline__ void wgmma_e4m3(float (&d)[count], u64 left, u64 right) {                    \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #b ", 0;\n"                                                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" numbers "}, %" #count ", %" #a ", p, 1, 1;}\n"  \
                 : __VA_ARGS__                                                                                                \
                 : "l"(left), "l"(right), "n"(Adds));                                                                         \
  }
SMELT_WIDTHS(SMELT_PRODUCT_OF_E4M3)
SMELT_WIDTHS_OF_FLOATS(SMELT_PRODUCT_OF_E4M3)
#undef SMELT_PRODUCT_OF_E4M3

#define SMELT_INTEGERS(name, types, n, count, a, b, c, e, numbers, ...)                                                       \
  __device__ __forceinline__ void name(i32(&d)[count], u64 left, u64 right, u32 adds = 1) {                                   \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #b ", 0;\n"                                                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." types " {" numbers "}, %" #count ", %" #a ", p;}\n"        \
                 : __VA_ARGS__                                                                                                \
                 : "l"(left), "l"(right), "r"(adds));                                                                         \
  }
#define SMELT_PRODUCTS_OF_INTEGERS(...)                    \
  SMELT_INTEGERS(wgmma_s8_s8, "s8.s8", __VA_ARGS__)        \
  SMELT_INTEGERS(wgmma_s8_u8, "s8.u8", __VA_ARGS__)        \
  SMELT_INTEGERS(wgmma_u8_s8, "u8.s8", __VA_ARGS__)
#undef SMELT_SUM
#define SMELT_SUM "+r"
SMELT_WIDTHS(SMELT_PRODUCTS_OF_INTEGERS)
#undef SMELT_PRODUCTS_OF_INTEGERS
#undef SMELT_INTEGERS
#undef SMELT_WIDTHS_OF_FLOATS
#undef SMELT_WIDTHS
#undef SMELT_PRODUCTS
#undef SMELT_PRODUCT_OF_REGISTERS
#undef SMELT_PRODUCT
#undef SMELT_64
#undef SMELT_32
#undef SMELT_16
#undef SMELT_8
#undef SMELT_4
#undef SMELT_SUM
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

}  // namespace ptx

#endif
