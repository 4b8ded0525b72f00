// What a GPU reaches at best: kernels that do nothing but move memory, or nothing but arithmetic on registers.
//
//   copy, read      every 16 bytes once, block after block
//   fma_f32         chains of multiply-adds                    a <- a x + y
//   mma_TYPE        tensor-core products, one warp each        d <- d + a b       a (16, 32 bytes), b (32 bytes, 8), d (16, 8)
//   wgmma_TYPE      the same, four warps each (sm_90a)                           a (64, 32 bytes), b (32 bytes, 128), d (64, 128)
//   nothing         an empty kernel
//
// A kernel writes its sum only where that has one certain value, so that the compiler leaves nothing out. Operands are not
// zero: products of zeros take less power, and clocks then rise above those of real products.
#pragma once

#include "common/mma.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/types.cuh"

namespace smelt_ceilings {

constexpr int chains = 16;          // multiply-adds of a thread under way, enough for their latency of 4 clocks
constexpr int products = 8;         // of a warp
constexpr int group = 16;           // wgmma instructions between two waits
template <class T> constexpr T never = T(1.2345e9);   // a sum of products that does not come about

/// 32 bits that look random: two f16 or bf16 of either sign below 1, or four bytes.
__device__ __forceinline__ u32 operand(u32 seed) {
  const u32 x = (seed + 1) * 2654435761u;
  return (x & 0x80ff80ffu) | 0x38003800u;
}

template <class T> __device__ __forceinline__ void multiply(float* out, int rounds) {
  using Sum = typename Mma<T>::Sum;
  u32 a[4], b[products][2];
  Sum d[products][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = operand(threadIdx.x * 4 + i);
#pragma unroll
  for (int p = 0; p < products; ++p) b[p][0] = operand(threadIdx.x + p), b[p][1] = operand(threadIdx.x + 77 * p);
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int p = 0; p < products; ++p) Mma<T>::add(d[p], a, b[p]);
  Sum sum = 0;
#pragma unroll
  for (int p = 0; p < products; ++p) sum += d[p][0] + d[p][1] + d[p][2] + d[p][3];
  if (sum == never<Sum>) *out = static_cast<float>(sum);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/// Describes a matrix in shared memory: rows of 128 bytes, swizzled by 128 bytes, 8 rows 1024 bytes from the next 8 (PTX ISA,
/// "Asynchronous warpgroup level matrix shared memory layout").
__device__ __forceinline__ u64 descriptor(const void* tile) {
  const u64 address = static_cast<u64>(__cvta_generic_to_shared(tile));
  return (address >> 4 & 0x3fff) | u64{1} << 16 | u64{64} << 32 | u64{1} << 62;
}

struct GroupF16 {
  using Sum = float;
  static __device__ __forceinline__ void add(float (&d)[64], const u32 (&a)[4], u64 b) { ptx::wgmma_m64n128k16_f16(d, a, b); }
};
struct GroupBf16 {
  using Sum = float;
  static __device__ __forceinline__ void add(float (&d)[64], const u32 (&a)[4], u64 b) { ptx::wgmma_m64n128k16_bf16(d, a, b); }
};
struct GroupI8 {
  using Sum = i32;
  static __device__ __forceinline__ void add(i32 (&d)[64], const u32 (&a)[4], u64 b) { ptx::wgmma_m64n128k32_s8(d, a, b); }
};

template <class Group> __device__ __forceinline__ void multiply_in_groups(float* out, int rounds) {
  using Sum = typename Group::Sum;
  __shared__ alignas(1024) u32 tile[128 * 32];
  for (int i = static_cast<int>(threadIdx.x); i < 128 * 32; i += static_cast<int>(blockDim.x)) tile[i] = operand(i);
  __syncthreads();
  const u64 b = descriptor(tile);
  u32 a[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = operand(threadIdx.x * 4 + i);
  Sum d[64] = {};
  for (int r = 0; r < rounds; ++r) {
    ptx::wgmma_fence();
#pragma unroll
    for (int g = 0; g < group; ++g) Group::add(d, a, b);
    ptx::wgmma_commit_and_wait();
  }
  Sum sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
  if (sum == never<Sum>) *out = static_cast<float>(sum);
}
#endif

}  // namespace smelt_ceilings

extern "C" __global__ void __launch_bounds__(256) copy(const Vector<float, 4>* x, Vector<float, 4>* y, i64 n) {
  for (i64 i = i64{blockIdx.x} * 256 + threadIdx.x; i < n; i += i64{gridDim.x} * 256) y[i] = x[i];
}

extern "C" __global__ void __launch_bounds__(256) read(const Vector<float, 4>* x, float* out, i64 n) {
  float sum = 0;
  for (i64 i = i64{blockIdx.x} * 256 + threadIdx.x; i < n; i += i64{gridDim.x} * 256) {
    const Vector<float, 4> v = x[i];
    sum += v.at[0] + v.at[1] + v.at[2] + v.at[3];
  }
  if (sum == smelt_ceilings::never<float>) *out = sum;
}

extern "C" __global__ void __launch_bounds__(256) fma_f32(float* out, int rounds) {
  using namespace smelt_ceilings;
  float a[chains];
  const float x = 0.999f + 1e-9f * static_cast<float>(threadIdx.x), y = 1e-3f;
#pragma unroll
  for (int c = 0; c < chains; ++c) a[c] = static_cast<float>(c);
#pragma unroll 4
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int c = 0; c < chains; ++c) a[c] = __fmaf_rn(a[c], x, y);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < chains; ++c) sum += a[c];
  if (sum == never<float>) *out = sum;
}

extern "C" __global__ void nothing() {}

extern "C" __global__ void __launch_bounds__(256) mma_f16(float* out, int rounds) { smelt_ceilings::multiply<f16>(out, rounds); }
extern "C" __global__ void __launch_bounds__(256) mma_i8(float* out, int rounds) { smelt_ceilings::multiply<i8>(out, rounds); }
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void __launch_bounds__(256) mma_bf16(float* out, int rounds) {
  smelt_ceilings::multiply<bf16>(out, rounds);
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern "C" __global__ void __launch_bounds__(128) wgmma_f16(float* out, int rounds) {
  smelt_ceilings::multiply_in_groups<smelt_ceilings::GroupF16>(out, rounds);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_bf16(float* out, int rounds) {
  smelt_ceilings::multiply_in_groups<smelt_ceilings::GroupBf16>(out, rounds);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_i8(float* out, int rounds) {
  smelt_ceilings::multiply_in_groups<smelt_ceilings::GroupI8>(out, rounds);
}
#endif
