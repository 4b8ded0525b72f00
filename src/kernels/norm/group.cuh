// Normalisation of groups of elements. A group is several runs of memory, or too long for the registers of one block: channels of
// a plain or of a channels-last image in groups.
//
//   y = Program(n, operands…)          n = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon)   centred
//                                      n = x * rsqrt(mean(x^2) + epsilon)                           not
//
//   x, y         (lines, bundle, length): C.lines lines of C.bundle groups side by side. A group has C.length elements of a
//                line, side by side in x and y:
//                plain images           a line is a channel (or the whole group), bundle 1
//                channels-last images   a line is a pixel. A bundle is several groups where one group's part of a line is too
//                                       short for accesses of C.vec elements.
//   operands     (lines, bundle, length) broadcast
//   moments      of each group: the mean, and the sum of squared differences from it
//
// A thread holds C.vectors vectors of C.vec elements. A block holds a part of the bundle, C.threads * C.vectors vectors. The
// moments of a bundle's parts are merged (T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample variance", 1983,
// equations 2.1) through the cluster's shared memory or a workspace. The order of all sums is fixed.
//
// Launch: C.threads threads, a block for a part, C.blocks blocks a cluster. Where C.blocks is 0, part_moments runs first.
#pragma once

#include "common/cluster.cuh"
#include "common/expr.cuh"
#include "common/tuple.cuh"
#include "common/warp.cuh"
#include "kernels/norm/group.h"
#include "pointwise/walk.cuh"

/// The moments of a group, by a whole warp, from those of its parts, at(part). Each part has `whole` of the group's elements, the
/// last one the rest of `total`.
template <class At> __device__ __forceinline__ Moments merged(int parts, float whole, float total, const At& at) {
  const int lane = threadIdx.x % 32;
  const float last = total - (parts - 1) * whole;
  float sum = 0, squares = 0;
  for (int p = lane; p < parts; p += 32) sum += at(p).mean * (p + 1 < parts ? whole : last);
  const float mean = sum_lanes(sum) / total;
  for (int p = lane; p < parts; p += 32) {
    const Moments one = at(p);
    const float d = one.mean - mean;
    squares += one.squares + d * d * (p + 1 < parts ? whole : last);
  }
  return {mean, sum_lanes(squares)};
}

/// A thread's vectors of x, and the moments of its block's part.
template <GroupConfig C, class T> struct GroupTile {
  static constexpr int in_line = C.bundle * C.length / C.vec;            // vectors
  static constexpr int vectors = C.lines * in_line;                      // of the bundle
  static constexpr int part_vectors = C.threads * C.vectors;
  static constexpr int parts = (vectors + part_vectors - 1) / part_vectors;
  static constexpr bool own_column = C.threads % in_line == 0;           // all vectors of a thread have the same column
  static constexpr float whole = float(part_vectors) * C.vec / C.bundle;   // elements of a group in a part
  static constexpr float total = float(C.lines) * C.length;
  static_assert(C.bundle == 1 || own_column, "a part of a bundle of several groups has whole lines");

  Vector<T, C.vec> raw[C.vectors];                                       // (vectors, vec) of (lines, bundle, length)
  u32 first;                                                             // raw[0]'s number among the bundle's vectors

  __device__ __forceinline__ explicit GroupTile(u32 part) : first(part * part_vectors + threadIdx.x) {}
  __device__ __forceinline__ bool inside(int h) const { return vectors % part_vectors == 0 || first + h * C.threads < vectors; }
  __device__ __forceinline__ u32 line(int h) const {
    return own_column ? first / in_line + h * (C.threads / in_line) : (first + h * C.threads) / in_line;
  }
  /// Of the first element of the vector, within its line.
  __device__ __forceinline__ u32 column(int h) const {
    return (own_column ? threadIdx.x % in_line : (first + h * C.threads) % in_line) * C.vec;
  }
  /// at(line): where a line of x begins. All loads are issued before the first is used. There is no branch: a vector outside the
  /// bundle loads from the first line.
  template <class At> __device__ __forceinline__ void read(const T* x, const At& at) {
#pragma unroll
    for (int h = 0; h < C.vectors; ++h)
      raw[h] = *reinterpret_cast<const Vector<T, C.vec>*>(x + at(inside(h) ? line(h) : 0) + column(h));
  }

  /// Floats of shared memory for a block's sums.
  static __device__ constexpr int exchanged() { return C.bundle == 1 ? C.threads / 32 : C.threads * C.vec; }
  /// result[g] = the moments of group g in this part, in shared memory. All threads call it. A branch skips the vectors outside:
  /// with a select the compiler unpacks all vectors at once, and 12 vectors of 8 f16 take 127 registers instead of 72.
  __device__ __forceinline__ void moments(float share, float* exchange, Moments* result) const {
    float sums[C.vec] = {};                                              // (vec): over the thread's vectors
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
      if (!inside(h)) break;
#pragma unroll
      for (int e = 0; e < C.vec; ++e) sums[e] += f32(raw[h].at[e]);
    }
    group_sums(sums, exchange, [&](int g, float sum) { result[g].mean = sum / share; });
    float means[C.vec];                                                  // (vec)
#pragma unroll
    for (int e = 0; e < C.vec; ++e) means[e] = result[group(e)].mean, sums[e] = 0;
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
      if (!inside(h)) break;
#pragma unroll
      for (int e = 0; e < C.vec; ++e) {
        const float d = f32(raw[h].at[e]) - means[e];
        sums[e] += d * d;
      }
    }
    group_sums(sums, exchange, [&](int g, float sum) { result[g].squares = sum; });
  }
  /// Elements of a group in a part.
  static __device__ __forceinline__ float share(u32 part) { return part + 1 < parts ? whole : total - (parts - 1) * whole; }
  /// The group of element e of every vector of this thread.
  static __device__ __forceinline__ int group(int e) {
    return C.bundle == 1 ? 0 : (threadIdx.x % in_line * C.vec + e) / C.length;
  }

  /// result[g] = the moments of group g from those of its parts, at(g, part); visible to all threads afterwards.
  template <class At> static __device__ __forceinline__ void merge(Moments* result, const At& at) {
    constexpr int warps = C.threads / 32;
    const int warp = threadIdx.x / 32;
    for (int g = warp; g < C.bundle && warp < warps; g += warps) {
      const Moments m = merged(parts, whole, total, [&](int part) { return at(g, part); });
      if (threadIdx.x % 32 == 0) result[g] = m;
    }
    __syncthreads();
  }

 private:
  /// Adds up each group's elements over the block's threads in a fixed order, and calls done(group, sum) once for each group. What
  /// done wrote is visible to all threads afterwards.
  template <class Done>
  static __device__ __forceinline__ void group_sums(const float (&sums)[C.vec], float* exchange, const Done& done) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int warps = C.threads / 32;
    if constexpr (C.bundle == 1) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < C.vec; ++e) sum += sums[e];
      sum = sum_lanes(sum);
      if (lane == 0) exchange[warp] = sum;
      __syncthreads();
      if (warp == 0) {
        sum = sum_lanes(lane < warps ? exchange[lane] : 0.f);
        if (lane == 0) done(0, sum);
      }
    } else {
      constexpr int lines = C.threads / in_line;                           // exchange [lines, C.bundle * C.length]
#pragma unroll
      for (int e = 0; e < C.vec; ++e) exchange[threadIdx.x * C.vec + e] = sums[e];
      __syncthreads();
      for (int g = warp; g < C.bundle && warp < warps; g += warps) {
        float sum = 0;
#pragma unroll 4
        for (int i = lane; i < lines * C.length; i += 32)
          sum += exchange[i / C.length * (C.bundle * C.length) + g * C.length + i % C.length];
        sum = sum_lanes(sum);
        if (lane == 0) done(g, sum);
      }
    }
    __syncthreads();
  }
};

/// The factor of an element after the mean was subtracted.
template <bool Centred> __device__ __forceinline__ float factor_of(const Moments& m, float total, float epsilon) {
  return rsqrtf((Centred ? m.squares / total : m.squares / total + m.mean * m.mean) + epsilon);
}

/// An axis of the lines. A line's index is line / Below % Extent (Extent 0: the outermost axis, no remainder); neighbours are
/// Stride elements apart.
template <u32 Below, u32 Extent, i64 Stride> struct LineAxis {
  static __device__ __forceinline__ i64 offset(u32 line) {
    const u32 above = line / Below;
    if constexpr (Extent == 0) return above * Stride;
    else return above % Extent * Stride;
  }
};

/// How a tensor of T lies in a bundle. Axes: those along which its lines are apart. Access, Stride: of its elements in a line, for
/// load().
template <class T, int Access, i64 Stride, class... Axes> struct GroupView {
  using Type = T;
  static __device__ constexpr int access() { return Access; }
  static __device__ constexpr bool same_in_lines() { return sizeof...(Axes) == 0; }
  static __device__ __forceinline__ i64 line_offset(u32 line) { return (i64(0) + ... + Axes::offset(line)); }
  template <GroupConfig C>
  static __device__ __forceinline__ void read(Vector<T, C.vec>& x, const T* tensor, i64 at, u32 line, u32 column) {
    load<Access>(x, tensor, at + line_offset(line) + column * Stride, Stride, C.vec);
  }
};
/// The same for a tensor that has two strides along a line: GroupStride from one group to the next, Stride from one element of a
/// group to the next.
template <class T, i64 GroupStride, i64 Stride, class... Axes> struct UnevenGroupView {
  using Type = T;
  static __device__ constexpr bool same_in_lines() { return sizeof...(Axes) == 0; }
  static __device__ __forceinline__ i64 line_offset(u32 line) { return (i64(0) + ... + Axes::offset(line)); }
  template <GroupConfig C>
  static __device__ __forceinline__ void read(Vector<T, C.vec>& x, const T* tensor, i64 at, u32 line, u32 column) {
    constexpr u32 length = C.length;
    for (u32 e = 0; e < C.vec; ++e)
      x.at[e] = tensor[at + line_offset(line) + (column + e) / length * GroupStride + (column + e) % length * Stride];
  }
};

/// all[g] = the moments of group g from own[g] of the cluster's blocks. From sm_90 on.
template <class Tile> __device__ __forceinline__ void merge_in_cluster(Moments* all, const Moments* own);
#if __CUDA_ARCH__ >= 900
template <class Tile> __device__ __forceinline__ void merge_in_cluster(Moments* all, const Moments* own) {
  synchronize_cluster();
  Tile::merge(all, [&](int g, int p) {
    const Vector<float, 2> m = load_2_in_cluster(address_in_block(shared_address(own + g), p));
    return Moments{m.at[0], m.at[1]};
  });
  synchronize_cluster();                                                 // no block leaves while another reads its moments
}
#endif

/// X, Y, O: how x, y and the operands lie (GroupView).
template <GroupConfig C, class Program, class X, class Y, class... O> struct GroupNorm {
  static constexpr int tensors = 2 + sizeof...(O);
  using Tile = GroupTile<C, typename X::Type>;
  using Operands = Tuple<Vector<typename O::Type, C.vec>...>;
  using Numbers = IndicesTo<sizeof...(O)>;                               // of the operands
  using At = i64[tensors];                                               // where the bundle begins in each tensor

  /// Writes the moments of each part.
  template <int Rank> static __device__ __forceinline__ void part_moments(const GroupNormArgs<Rank, tensors>& a) {
    const u32 bundle = blockIdx.x / Tile::parts, part = blockIdx.x % Tile::parts;
    At at;
    a.bundles.template locate<1>(bundle, at);
    Tile tile(part);                                                     // (vectors, vec) of (lines, bundle, length)
    tile.read(tensor<X>(a, 0) + at[0], [](u32 line) { return X::line_offset(line); });
    __shared__ float exchange[Tile::exchanged()];
    __shared__ Moments own[C.bundle];                                    // of this part
    tile.moments(Tile::share(part), exchange, own);
    for (u32 g = threadIdx.x; g < C.bundle; g += C.threads) a.moments[blockIdx.x * C.bundle + g] = own[g];
  }

  template <int Rank> static __device__ __forceinline__ void run(const GroupNormArgs<Rank, tensors>& a) {
    // Load.
    const u32 bundle = blockIdx.x / Tile::parts, part = blockIdx.x % Tile::parts;
    At at;
    a.bundles.template locate<1>(bundle, at);
    Tile tile(part);                                                     // (vectors, vec) of (lines, bundle, length)
    tile.read(tensor<X>(a, 0) + at[0], [](u32 line) { return X::line_offset(line); });

    // Reduce: the moments of the bundle's groups.
    __shared__ float exchange[Tile::exchanged()];
    __shared__ Moments own[C.bundle], all[C.bundle];                     // of this part, and of all parts
    if constexpr (C.blocks == 0) {
      Tile::merge(all, [&](int g, int p) { return a.moments[(bundle * Tile::parts + p) * C.bundle + g]; });
    } else {
      tile.moments(Tile::share(part), exchange, own);
      if constexpr (C.blocks > 1) {
        merge_in_cluster<Tile>(all, own);
      } else {
        for (u32 g = threadIdx.x; g < C.bundle; g += C.threads) all[g] = own[g];
        __syncthreads();
      }
    }

    // Normalise, apply the program, and store.
    float mean[C.vec], factor[C.vec];                                    // (vec): of the group of each of a vector's elements
#pragma unroll
    for (int e = 0; e < C.vec; ++e) {
      const Moments m = all[Tile::group(e)];
      mean[e] = C.centred ? m.mean : 0;
      factor[e] = factor_of<C.centred>(m, Tile::total, a.epsilon);
    }
    Operands operands;                                                   // (vec) of (lines, bundle, length) each
    read<true>(operands, a, at, 0, tile.column(0), Numbers());
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
      if (!tile.inside(h)) continue;
      const u32 line = tile.line(h), column = tile.column(h);
      read<false>(operands, a, at, line, column, Numbers());
      Vector<typename Y::Type, C.vec> y;                                 // (vec) of (lines, bundle, length)
#pragma unroll
      for (int e = 0; e < C.vec; ++e)
        apply((f32(tile.raw[h].at[e]) - mean[e]) * factor[e], operands, e, y.at[e], Numbers());
      store<Y::access()>(tensor<Y>(a, 1), at[1] + Y::line_offset(line) + column, 1, C.vec, y);
    }
  }

 private:
  template <class V, class A> static __device__ __forceinline__ typename V::Type* tensor(const A& a, int i) {
    return static_cast<typename V::Type*>(a.tensors[i]);
  }
  /// Once: reads the operands that are the same for all vectors of a thread; otherwise the others.
  template <bool Once, class A, int... I>
  static __device__ __forceinline__ void read(Operands& x, const A& a, const At& at, u32 line, u32 column, Indices<I...>) {
    (read_one<Once, I, O>(get<I>(x), a, at, line, column), ...);
  }
  template <bool Once, int I, class V, class A>
  static __device__ __forceinline__ void read_one(Vector<typename V::Type, C.vec>& x, const A& a, const At& at, u32 line,
                                                  u32 column) {
    constexpr bool once = Tile::own_column && V::same_in_lines();
    if constexpr (Once == once) V::template read<C>(x, tensor<V>(a, I + 2), at[I + 2], line, column);
  }
  /// y = Program(n, element e of each operand).
  template <class T, int... I>
  static __device__ __forceinline__ void apply(float n, const Operands& x, int e, T& y, Indices<I...>) {
    Program::apply(n, get<I>(x).at[e]..., y);
  }
};
