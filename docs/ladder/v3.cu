// RMSNorm, step 3: sums travel between the threads of a warp by shuffles; shared memory carries one number a warp.
//
//   x, y   (rows, columns) row-major, bf16
//   g      (columns), bf16
//
// Launch: `rows` blocks of THREADS threads, a multiple of 32 up to 1024.

#include "common/types.cuh"

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;   // in every thread of the warp
}

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const bf16* x, const bf16* g, bf16* y, int columns, float epsilon) {
  __shared__ float partial[THREADS / 32];
  const bf16* x_row = x + static_cast<i64>(blockIdx.x) * columns;                // (columns)
  bf16* y_row = y + static_cast<i64>(blockIdx.x) * columns;                      // (columns)
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) sum += f32(x_row[c]) * f32(x_row[c]);

  // Two rounds of shuffles and one barrier in place of ten rounds of barriers.
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < THREADS / 32 ? partial[lane] : 0.f);
  const float scale = rsqrtf(sum / columns + epsilon);

  for (int c = threadIdx.x; c < columns; c += THREADS) y_row[c] = bf16_of(f32(x_row[c]) * scale * f32(g[c]));
}
