// RMSNorm, step 2: all threads of the block, their sums added up by a tree in shared memory.
//
//   x, y   (rows, columns) row-major, bf16
//   g      (columns), bf16
//
// Launch: `rows` blocks of THREADS threads, a power of two.

#include "common/types.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const bf16* x, const bf16* g, bf16* y, int columns, float epsilon) {
  __shared__ float partial[THREADS];
  const bf16* x_row = x + static_cast<i64>(blockIdx.x) * columns;                // (columns)
  bf16* y_row = y + static_cast<i64>(blockIdx.x) * columns;                      // (columns)

  // Each thread's share: columns t, t + THREADS, t + 2 THREADS, … A warp's accesses lie side by side.
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) sum += f32(x_row[c]) * f32(x_row[c]);

  // The tree: log2(THREADS) rounds, a barrier each, half of the threads idle in the first and nearly all in the last.
  partial[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  __syncthreads();
  const float scale = rsqrtf(partial[0] / columns + epsilon);

  for (int c = threadIdx.x; c < columns; c += THREADS) y_row[c] = bf16_of(f32(x_row[c]) * scale * f32(g[c]));
}
