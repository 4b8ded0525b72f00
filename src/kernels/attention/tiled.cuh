// Attention by tiles in shared memory, computed in float. It is for f32, whose products tensor cores would round, and for rows
// that they cannot load.
//
//   q, k, v, y    as attention/problem.cuh says, f32, f16 or bf16, with any strides; Depth and ValueDepth at most 256
//
// A block of 256 threads has 64 rows of queries and goes over tiles of 64 keys. Thread (ty, tx) of 16 x 16 has rows 4 ty … 4 ty +
// 3: of the scores (64, 64) the keys tx + 16 c, of O (64, ValueDepth) the columns tx + 16 c. The softmax's maximum and sum are
// updated tile by tile (Milakov and Gimelshein, arXiv:1805.02867); the 16 threads of a row lie in one half of a warp. Each tile's
// part of O is summed on its own and then added, so that a long row is no long chain of additions.
//
// Launch: (row tiles, pairs) blocks; TiledAttention::shared_bytes of dynamic shared memory.
#pragma once

#include "attention/problem.cuh"
#include "attention/scores.cuh"
#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/attention/tiled.h"

template <class T, int Depth, int ValueDepth, int Width> struct TiledAttention {
  static constexpr int rows = 64, keys = 64, threads = 256;
  static constexpr int padded = (Depth + 3) / 4 * 4;
  static constexpr int pitch = padded + 4;                                  // floats: eight rows' 16-byte vectors touch all banks
  static constexpr int columns = (ValueDepth + 15) / 16;                    // a thread's
  static constexpr int value_pitch = columns * 16;
  static constexpr int score_pitch = keys + 4;
  static constexpr int shared_bytes = 4 * ((rows + keys) * pitch + keys * value_pitch + rows * score_pitch);

  /// Copies rows of Count elements to shared memory as floats; rows lie `row_step` elements apart, their elements `step`.
  /// Elements beyond the tensor become 0. Where a key's elements lie apart and keys side by side, neighbouring threads read
  /// neighbouring rows.
  template <int Count, int Pitch>
  static __device__ __forceinline__ void load(float* to, const T* from, i64 row_step, i64 step, u32 inside) {
    constexpr int padded_count = Pitch == value_pitch ? value_pitch : padded;
    if (Width > 1 && Count % Width == 0) {
      for (u32 i = threadIdx.x; i < 64 * (padded_count / Width); i += threads) {
        const u32 row = i / (padded_count / Width), e = i % (padded_count / Width) * Width;
        Vector<T, Width> x = {};
        if (row < inside && e < Count) x = *reinterpret_cast<const Vector<T, Width>*>(from + row * row_step + e);
#pragma unroll
        for (int w = 0; w < Width; ++w) to[row * Pitch + e + w] = f32(x.at[w]);
      }
    } else {
      const bool along_rows = step != 1 && row_step == 1;
      for (u32 i = threadIdx.x; i < 64 * padded_count; i += threads) {
        const u32 row = along_rows ? i % 64 : i / padded_count, e = along_rows ? i / 64 : i % padded_count;
        to[row * Pitch + e] = row < inside && e < Count ? f32(from[row * row_step + e * step]) : 0.f;
      }
    }
  }

  template <class Scores, int Operands>
  static __device__ __forceinline__ void run(const WithScores<TiledArgs<T>, Operands>& args) {
    const TiledArgs<T>& a = args.args;
    const AttentionProblem<T>& p = a.problem;
    extern __shared__ __align__(16) float shared[];
    float* const queries = shared;                                          // (64, Depth)
    float* const keys_at = queries + rows * pitch;                          // (64, Depth)
    float* const values = keys_at + keys * pitch;                           // (64, ValueDepth)
    float* const weights = values + keys * value_pitch;                     // (64, 64)
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const u32 pair = blockIdx.y, b = pair / p.heads, h = pair % p.heads, g = h / p.group;
    // With a causal mask, the rows that see the most keys come first, since they take longest.
    const u32 first_row = (a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
    const T* const q = p.q + b * p.q_strides[0] + h * p.q_strides[1] + first_row * p.q_strides[2];  // [rows, Depth]
    const T* const k = p.k + b * p.k_strides[0] + g * p.k_strides[1];                               // [keys, Depth]
    const T* const v = p.v + b * p.v_strides[0] + g * p.v_strides[1];                               // [keys, ValueDepth]
    T* const y = p.y + b * p.y_strides[0] + h * p.y_strides[1];                                     // [queries, ValueDepth]
    Scores scores(args.operands);
    scores.seek(b, h);
    load<Depth, pitch>(queries, q, p.q_strides[2], p.q_strides[3], p.queries - first_row);

    float o[4][columns] = {}, top[4], total[4] = {};                        // (row, column) of this thread; (row)
#pragma unroll
    for (int r = 0; r < 4; ++r) top[r] = minus_infinity;
    u32 end = p.keys;
    if (a.causal) {
      const i64 seen = static_cast<i64>(first_row) + rows + a.offset;
      end = seen < 0 ? 0 : seen < end ? static_cast<u32>(seen) : end;
    }
    for (u32 begin = 0; begin < end; begin += keys) {
      __syncthreads();
      load<Depth, pitch>(keys_at, k + begin * p.k_strides[2], p.k_strides[2], p.k_strides[3], p.keys - begin);
      load<ValueDepth, value_pitch>(values, v + begin * p.v_strides[2], p.v_strides[2], p.v_strides[3], p.keys - begin);
      __syncthreads();
      float s[4][4] = {}, faded[4];                                         // (row, key) of this thread
      for (int e = 0; e < padded; e += 4) {
        Vector<float, 4> x[4], z[4];                                        // (row, 4) of Q, (key, 4) of K
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          x[r] = *reinterpret_cast<const Vector<float, 4>*>(queries + (4 * ty + r) * pitch + e);
          z[r] = *reinterpret_cast<const Vector<float, 4>*>(keys_at + (tx + 16 * r) * pitch + e);
        }
#pragma unroll
        for (int w = 0; w < 4; ++w)
#pragma unroll
          for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int n = 0; n < 4; ++n) s[r][n] += x[r].at[w] * z[n].at[w];
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const u32 i = first_row + 4 * ty + r, row = i < p.queries ? i : p.queries - 1;
        float highest = top[r];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const u32 j = begin + tx + 16 * n;
          const bool seen = j < p.keys && (!a.causal || static_cast<i64>(j) <= static_cast<i64>(row) + a.offset);
          s[r][n] = seen ? scores.at(row, j, static_cast<float>(p.scale) * s[r][n]) : minus_infinity;
          highest = fmaxf(highest, s[r][n]);
        }
        highest = fold_lanes<16>(highest, [](float a, float b) { return fmaxf(a, b); });
        const float base = highest == minus_infinity ? 0.f : highest;       // nothing is visible yet: exp(lowest - 0) is 0
        faded[r] = expf(top[r] - base);
        top[r] = highest;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float weight = expf(s[r][n] - base);
          sum += weight;
          weights[(4 * ty + r) * score_pitch + tx + 16 * n] = weight;
        }
        total[r] = total[r] * faded[r] + sum;                               // of this thread's keys
      }
      float part[4][columns] = {};                                          // of O
      __syncwarp();                                                         // a row's weights come from its own half warp
      for (int j = 0; j < keys; j += 4) {
        Vector<float, 4> w[4];                                              // (row, 4 keys) of the weights
#pragma unroll
        for (int r = 0; r < 4; ++r) w[r] = *reinterpret_cast<const Vector<float, 4>*>(weights + (4 * ty + r) * score_pitch + j);
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int c = 0; c < columns; ++c) {
            const float x = values[(j + n) * value_pitch + tx + 16 * c];
#pragma unroll
            for (int r = 0; r < 4; ++r) part[r][c] += w[r].at[n] * x;
          }
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < columns; ++c) o[r][c] = o[r][c] * faded[r] + part[r][c];
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      total[r] = sum_lanes<16>(total[r]);
      const u32 i = first_row + 4 * ty + r;
      if (i >= p.queries) continue;
      const bool zero = !(total[r] > 0) && p.nan_guard;                     // no key is visible, or a score is NaN
      const float part = 1 / total[r];
#pragma unroll
      for (int c = 0; c < columns; ++c)
        if (tx + 16 * c < ValueDepth)
          y[i * p.y_strides[2] + (tx + 16 * c) * p.y_strides[3]] = narrowed<T>(zero ? 0.f : o[r][c] * part);
    }
  }
};
