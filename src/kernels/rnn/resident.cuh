// RNN, GRU and LSTM, one layer, as two kernels: input_products multiplies all steps' inputs by w; resident runs the steps one after
// the other with the recurrent weights in registers and shared memory of a cluster's blocks, which is where most layers' fit.
//
// Of the cluster's blocks each has some units, with all of their gates. A row of r (one gate of one unit) is shared by a few lanes:
// a lane has every lanes-th chunk of four columns of several rows, so that a chunk of the state that it reads serves all of them. At
// a step a block multiplies its rows by the whole state, adds up over the lanes, computes its units' new states and writes them to
// the memory of all blocks; then the cluster meets. The state lies there twice, so that nobody waits for readers.
//
// The equations and their order are those of rnn/recurrent.cuh.
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/rnn/resident.h"
#include "rnn/recurrent.cuh"
#if __CUDA_ARCH__ >= 900
#include "common/cluster.cuh"
#endif

constexpr int product_tile = 32, product_threads = 256;

/// A tile of products [steps * batch, directions * gates * hidden]. Launch: one block per tile, tiles of one row of x first.
template <int Gates, class T, class I> __device__ __forceinline__ void input_products(const ResidentArgs<T, I>& all) {
  const RecurrentArgs<T, I>& a = all.layer;
  constexpr int tile = product_tile, width = tile + 4;         // floats of a row: rows begin in other banks
  __shared__ __align__(16) float xs[tile][width], ws[tile][width];
  const i64 rows = a.steps * a.batch, columns = a.directions * Gates * a.hidden;
  const i64 across = (columns + tile - 1) / tile, first_row = blockIdx.x / across * tile, first_column = blockIdx.x % across * tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float next_x[4], next_w[4];
  const auto load = [&](i64 k0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const i64 k = k0 + lane, m = first_row + warp + 8 * i, n = first_column + warp + 8 * i;
      const bool in_x = k < a.input && m < rows, in_w = k < a.input && n < columns;
      next_x[i] = in_x ? widened<float>(a.x[m / a.batch * a.x_strides[0] + m % a.batch * a.x_strides[1] + k]) : 0.f;
      next_w[i] = in_w ? widened<float>(a.w[n * a.input + k]) : 0.f;
    }
  };
  const int column = threadIdx.x % 16, row = threadIdx.x / 16;
  float sum[2][2] = {};
  load(0);
  for (i64 k0 = 0; k0 < a.input; k0 += tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) xs[warp + 8 * i][lane] = next_x[i], ws[warp + 8 * i][lane] = next_w[i];
    __syncthreads();
    if (k0 + tile < a.input) load(k0 + tile);
#pragma unroll
    for (int k = 0; k < tile; k += 4) {
      float4 x[2], w[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        x[i] = *reinterpret_cast<const float4*>(&xs[row + 16 * i][k]);
        w[i] = *reinterpret_cast<const float4*>(&ws[column + 16 * i][k]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) sum[i][j] += x[i].x * w[j].x + x[i].y * w[j].y + x[i].z * w[j].z + x[i].w * w[j].w;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const i64 m = first_row + row + 16 * i, n = first_column + column + 16 * j;
      if (m < rows && n < columns) all.products[m * columns + n] = sum[i][j];
    }
}

/// Of a block: its rows of r times a state, over the cluster's items.
template <ResidentConfig C, class T> struct ResidentRows {
  static constexpr int passes = C.passes(), chunks = C.chunks(), at_a_time = C.threads / C.lanes;
  const T* r;             // [gates * hidden, hidden], of the direction
  float4* shared;         // [C.shared, passes, threads]
  float4 kept[C.kept > 0 ? C.kept : 1][passes];
  int first_unit;

  /// Four columns of the lane's row of pass q.
  __device__ __forceinline__ float4 weights(int q, int chunk) const {
    const int row = q * at_a_time + static_cast<int>(threadIdx.x) / C.lanes, unit = first_unit + row % C.units();
    const int column = 4 * (chunk * C.lanes + static_cast<int>(threadIdx.x) % C.lanes);
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool in = row < C.rows() && unit < C.hidden && column + i < C.hidden;
      w[i] = in ? widened<float>(r[static_cast<i64>(row / C.units() * C.hidden + unit) * C.hidden + column + i]) : 0.f;
    }
    return {w[0], w[1], w[2], w[3]};
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int q = 0; q < passes; ++q) {
#pragma unroll
      for (int j = 0; j < C.kept; ++j) kept[j][q] = weights(q, j);
      for (int j = 0; j < C.shared; ++j) shared[(j * passes + q) * C.threads + threadIdx.x] = weights(q, C.kept + j);
    }
  }
  /// Adds a chunk's products, with weight_of(q) of pass q's row.
  template <class W>
  __device__ __forceinline__ void add(float (&sum)[passes][C.items], const float* state, int chunk, const W& weight_of) const {
    float4 h[C.items];
#pragma unroll
    for (int b = 0; b < C.items; ++b)
      h[b] = *reinterpret_cast<const float4*>(state + b * C.padded() + 4 * (chunk * C.lanes + threadIdx.x % C.lanes));
#pragma unroll
    for (int q = 0; q < passes; ++q) {
      const float4 w = weight_of(q);
#pragma unroll
      for (int b = 0; b < C.items; ++b) sum[q][b] += w.x * h[b].x + w.y * h[b].y + w.z * h[b].z + w.w * h[b].w;
    }
  }
  /// sums [items, rows] = this · state [items, padded]. All threads call it; they meet behind it.
  __device__ __forceinline__ void multiply(const float* state, float* sums) const {
    float sum[passes][C.items] = {};
#pragma unroll
    for (int j = 0; j < C.kept; ++j) add(sum, state, j, [&](int q) { return kept[j][q]; });
#pragma unroll 2
    for (int j = 0; j < C.shared; ++j)
      add(sum, state, C.kept + j, [&](int q) { return shared[(j * passes + q) * C.threads + threadIdx.x]; });
#pragma unroll 1
    for (int j = C.kept + C.shared; j < chunks; ++j) add(sum, state, j, [&](int q) { return weights(q, j); });
#pragma unroll
    for (int q = 0; q < passes; ++q) {
      const int row = q * at_a_time + static_cast<int>(threadIdx.x) / C.lanes;
#pragma unroll
      for (int b = 0; b < C.items; ++b) {
        float v = sum[q][b];
#pragma unroll
        for (int offset = C.lanes / 2; offset > 0; offset /= 2) v += shuffle_xor(v, offset);
        if (threadIdx.x % C.lanes == 0 && row < C.rows()) sums[b * C.rows() + row] = v;
      }
    }
    __syncthreads();
  }
};

template <ResidentConfig C> __device__ __forceinline__ void meet() {
#if __CUDA_ARCH__ >= 900
  if constexpr (C.blocks > 1) return synchronize_cluster();
#endif
  __syncthreads();
}

/// Writes v to the place of all blocks of the cluster.
template <ResidentConfig C> __device__ __forceinline__ void give(float* place, float v) {
#if __CUDA_ARCH__ >= 900
  if constexpr (C.blocks > 1) {
#pragma unroll
    for (u32 block = 0; block < C.blocks; ++block) ptx::st_shared_cluster_f32(address_in_block(shared_address(place), block), v);
    return;
  }
#endif
  *place = v;
}

/// Launch: one cluster per (direction, group of items).
template <ResidentConfig C, class First, class Second, class T, class I>
__device__ __forceinline__ void resident(const ResidentArgs<T, I>& all) {
  static_assert(C.items * C.units() <= C.threads, "a thread has at most one unit of one item");
  extern __shared__ __align__(16) float memory[];
  const RecurrentArgs<T, I>& a = all.layer;
  constexpr int units = C.units(), rows = C.rows(), padded = C.padded();
  constexpr i64 gates = static_cast<i64>(C.gates) * C.hidden;
  const int rank = static_cast<int>(blockIdx.x % C.blocks), cluster = static_cast<int>(blockIdx.x / C.blocks);
  const int groups = static_cast<int>((a.batch + C.items - 1) / C.items), d = cluster / groups, first = cluster % groups * C.items;
  float* const states = memory + C.shared * C.passes() * C.threads * 4;                       // [2, items, padded]
  float* const third = states + 2 * C.items * padded;                                         // [items, padded]
  float* const sums = states + C.states() * C.items * padded;                                 // [items, rows]
  ResidentRows<C, T> weights{a.r + d * gates * C.hidden, reinterpret_cast<float4*>(memory), {}, rank * units};
  weights.load();
  for (int i = threadIdx.x; i < C.states() * C.items * padded; i += C.threads) {
    const int b = i / padded % C.items, k = i % padded;
    const bool begins = i < C.items * padded && k < C.hidden && first + b < a.batch && a.first_h;
    states[i] = begins ? widened<float>(a.first_h[d * a.state_strides[0] + (first + b) * a.state_strides[1] + k]) : 0.f;
  }
  // This thread's unit of one of the items.
  const int b = static_cast<int>(threadIdx.x) / units, u = static_cast<int>(threadIdx.x) % units, k = rank * units + u;
  const i64 item = first + b;
  const bool mine = b < C.items && k < C.hidden && item < a.batch;
  const i64 state = d * a.state_strides[0] + item * a.state_strides[1] + k;
  const Activations<First, Second> act{d == 1};
  const auto clipped = [&](float v) { return a.clip > 0 ? fminf(fmaxf(v, -a.clip), a.clip) : v; };
  float bias[4] = {}, peephole[3] = {}, own = 0, h = 0, cell = 0;
  i64 length = 0;
  if (mine) {
    const i64 given = a.lengths ? static_cast<i64>(a.lengths[item]) : a.steps;
    length = given < 0 ? 0 : given > a.steps ? a.steps : given;
    if (a.first_h) h = widened<float>(a.first_h[state]);
    if (C.gates == 4 && a.first_c) cell = widened<float>(a.first_c[state]);
    for (int g = 0; g < C.gates && a.bias; ++g) {
      const T* const of = a.bias + d * 2 * gates + g * C.hidden + k;
      bias[g] = widened<float>(of[0]);
      if (C.gates == 3 && g == 2 && !C.reset_before) own = widened<float>(of[gates]);
      else bias[g] += widened<float>(of[gates]);
    }
    for (int p = 0; p < 3 && C.gates == 4 && a.peepholes; ++p) peephole[p] = widened<float>(a.peepholes[(d * 3 + p) * C.hidden + k]);
  }
  const bool backward = a.reverse || d == 1;
  meet<C>();
  for (i64 s = 0; s < a.steps; ++s) {
    const bool runs = mine && s < length;
    const i64 t = backward ? length - 1 - s : s;
    float x[C.gates] = {};
    if (runs) {
#pragma unroll
      for (int g = 0; g < C.gates; ++g)
        x[g] = all.products[((t * a.batch + item) * a.directions + d) * gates + g * C.hidden + k] + bias[g];
    }
    float* const now = states + s % 2 * C.items * padded;
    if constexpr (C.rounded) {
#pragma unroll
      for (int i = 0; i < C.items; ++i) round_state<C.threads>(now + i * padded, padded);
    }
    weights.multiply(now, sums);
    const auto sum = [&](int g) { return sums[b * rows + g * units + u]; };
    float update = 0;
    if constexpr (C.reset_before) {
      if (mine) {
        update = act.f(clipped(x[0] + sum(0)));
        give<C>(third + b * padded + k, act.f(clipped(x[C.gates > 1 ? 1 : 0] + sum(C.gates > 1 ? 1 : 0))) * h);
      }
      meet<C>();
      weights.multiply(third, sums);
    }
    if (runs) {
      if constexpr (C.gates == 1) {
        h = act.f(clipped(x[0] + sum(0)));
      } else if constexpr (C.gates == 3) {
        float hidden = x[2];
        if constexpr (C.reset_before) {
          hidden += sum(2);
        } else {
          update = act.f(clipped(x[0] + sum(0)));
          hidden += act.f(clipped(x[1] + sum(1))) * (sum(2) + own);
        }
        h = (1 - update) * act.g(clipped(hidden)) + update * h;
      } else {
        const float in = act.f(clipped(x[0] + sum(0) + peephole[0] * cell));
        const float forget = a.input_forget ? 1 - in : act.f(clipped(x[2] + sum(2) + peephole[2] * cell));
        cell = forget * cell + in * act.g(clipped(x[3] + sum(3)));
        h = act.f(clipped(x[1] + sum(1) + peephole[1] * cell)) * act.h(cell);
      }
      if (a.y) a.y[t * a.y_strides[0] + d * a.y_strides[1] + item * a.y_strides[2] + k] = narrowed<T>(h);
    }
    if (mine) give<C>(states + (s + 1) % 2 * C.items * padded + b * padded + k, h);
    meet<C>();
  }
  if (!mine) return;
  if (a.last_h) a.last_h[state] = narrowed<T>(h);
  if (a.last_c) a.last_c[state] = narrowed<T>(cell);
  for (i64 t = length; a.y && t < a.steps; ++t)
    a.y[t * a.y_strides[0] + d * a.y_strides[1] + item * a.y_strides[2] + k] = narrowed<T>(0.f);
}
