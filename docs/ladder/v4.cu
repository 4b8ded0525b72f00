// RMSNorm, step 4: eight elements to an access, and the row stays in registers between the two passes.
//
//   x, y   (rows, COLUMNS) row-major, bf16, 16-byte aligned
//   g      (COLUMNS), bf16, 16-byte aligned
//
// Launch: `rows` blocks of THREADS threads, a multiple of 32 up to 1024; COLUMNS is a multiple of 8.

#include "common/types.cuh"

constexpr int VEC = 8;                                                           // bf16 in 16 bytes
constexpr int HELD = (COLUMNS / VEC + THREADS - 1) / THREADS;                    // vectors of the row that a thread holds
using Vec = Vector<bf16, VEC>;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const bf16* x, const bf16* g, bf16* y, int columns, float epsilon) {
  __shared__ float partial[THREADS / 32];
  const i64 row = blockIdx.x;
  const Vec* x_row = reinterpret_cast<const Vec*>(x + row * COLUMNS);            // (COLUMNS / VEC)
  const Vec* g_row = reinterpret_cast<const Vec*>(g);                            // (COLUMNS / VEC)
  Vec* y_row = reinterpret_cast<Vec*>(y + row * COLUMNS);                        // (COLUMNS / VEC)
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  // HELD accesses are under way at a time; x is read once.
  Vec held[HELD];
#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    const int v = h * THREADS + threadIdx.x;
    held[h] = v < COLUMNS / VEC ? x_row[v] : Vec{};
  }
  float sum = 0;
#pragma unroll
  for (int h = 0; h < HELD; ++h)
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum += f32(held[h].at[e]) * f32(held[h].at[e]);

  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < THREADS / 32 ? partial[lane] : 0.f);
  const float scale = rsqrtf(sum / COLUMNS + epsilon);

#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    const int v = h * THREADS + threadIdx.x;
    if (v >= COLUMNS / VEC) break;
    const Vec gain = g_row[v];
    Vec out;
#pragma unroll
    for (int e = 0; e < VEC; ++e) out.at[e] = bf16_of(f32(held[h].at[e]) * scale * f32(gain.at[e]));
    y_row[v] = out;
  }
}
