// RMSNorm, step 1: a block a row, and one thread of it does the work.
//
//   y[r, c] = x[r, c] * rsqrt(mean over c of x[r, c]^2 + epsilon) * g[c]
//
//   x, y   (rows, columns) row-major, bf16
//   g      (columns), bf16
//
// Launch: `rows` blocks of any size.

#include "common/types.cuh"

extern "C" __global__ void rms_norm(const bf16* x, const bf16* g, bf16* y, int columns, float epsilon) {
  if (threadIdx.x != 0) return;
  const bf16* x_row = x + static_cast<i64>(blockIdx.x) * columns;                // (columns)
  bf16* y_row = y + static_cast<i64>(blockIdx.x) * columns;                      // (columns)

  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += f32(x_row[c]) * f32(x_row[c]);
  const float scale = rsqrtf(sum / columns + epsilon);
  for (int c = 0; c < columns; ++c) y_row[c] = bf16_of(f32(x_row[c]) * scale * f32(g[c]));
}
