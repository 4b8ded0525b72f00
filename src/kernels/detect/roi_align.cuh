// RoiAlign (He et al., arXiv:1703.06870), on the grid that the reference takes (src/ops/detect/roi.cpp): of each region's bins
// the mean of bilinear samples, or the largest weighted neighbour.
//
//   x        [batch, channels, height, width]
//   rois     [R, 4]           x1, y1, x2, y2
//   items    [R]              of the batch
//   y        [R, channels, out_height, out_width]
//
// A block has a region and some of its channels. Along either axis a bin is a list of (pixel, weight), the same for all channels:
// two for each sample; or, for a mean whose samples are closer than pixels are, one for each pixel, their sum. The mean over a
// bin is then the product of two such lists. Regions have lists of different lengths, so the block takes another shape for each:
// its threads are folded into powers of two over a bin's columns, its rows, and bins and channels, such that neighbouring threads
// read neighbouring pixels and few of them idle; the threads of a bin are added up by shuffles.
// A region that the reference refuses (an item that is not there, more than 2^16 samples a side) is 0.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "common/warp.cuh"
#include "kernels/detect/roi_shape.h"

/// A region along one axis, in double and without multiply-adds: a sample more or less is no rounding error.
struct RoiAxis {
  double start, bin, of_grid;   // of_grid: 1 / grid
  int grid, extent;

  __device__ __forceinline__ void set(const RoiShape& s, double low, double high, int extent_, int bins) {
    extent = extent_;
    start = __dsub_rn(__dmul_rn(low, s.scale), s.shift);
    double length = __dsub_rn(__dsub_rn(__dmul_rn(high, s.scale), s.shift), start);
    if (s.shift == 0 && length < 1) length = 1;
    bin = __ddiv_rn(length, bins);
    const double n = ceil(bin);
    grid = s.sampling > 0 ? s.sampling : n > 0 && n <= 65536 ? static_cast<int>(n) : 0;
    of_grid = __ddiv_rn(1, grid);
  }
  struct Sample {
    int low;       // pixel; -1: outside of the map
    double rest;   // how far behind it
  };
  __device__ __forceinline__ Sample sample(int of_bin, int i) const {
    // A division without a branch: rounded as one (Markstein 1990), as grid's inverse is.
    const double v = __dmul_rn(i + 0.5, bin), q = __dmul_rn(v, of_grid),
                 quotient = fma(fma(-q, static_cast<double>(grid), v), of_grid, q);
    return sample_at(__dadd_rn(__dadd_rn(start, __dmul_rn(of_bin, bin)), quotient));
  }
  __device__ __forceinline__ Sample sample_at(double v) const {
    if (!(v >= -1 && v <= extent)) return {-1, 0};
    v = v < 0 ? 0 : v;
    const int low = static_cast<int>(v);
    return low >= extent - 1 ? Sample{extent - 1, 0} : Sample{low, v - low};
  }
};

template <class A> struct RoiEntry {
  int pixel;
  A weight;
};

/// Entry `which` (0, 1) of a sample.
template <class A> __device__ __forceinline__ RoiEntry<A> entry_of(int low, A rest, int which, int extent) {
  if (low < 0) return {0, A(0)};
  return which == 0 ? RoiEntry<A>{low, A(1) - rest} : RoiEntry<A>{min(low + 1, extent - 1), rest};
}

/// The entries of every bin along an axis, `count` each, `entries` [bins, count].
template <class A, int Capacity> struct RoiTable {
  RoiEntry<A> entries[Capacity];
  int low[Capacity / 2];
  A rest[Capacity / 2];
  int pixels;   // the most of a bin
  __device__ __forceinline__ RoiEntry<A> operator()(int bin, int i, int count) const { return entries[bin * count + i]; }
};

/// The same, computed where it is read: for regions that no table holds. Their samples are so many that the last bit of a place
/// does not matter.
struct RoiComputed {
  const RoiAxis& axis;
  template <class A> __device__ __forceinline__ RoiEntry<A> entry(int bin, int i) const {
    const RoiAxis::Sample s = axis.sample_at(axis.start + bin * axis.bin + (i / 2 + 0.5) * axis.bin * axis.of_grid);
    return entry_of<A>(s.low, static_cast<A>(s.rest), i % 2, axis.extent);
  }
};

/// Fills the table, by the whole block; returns the entries of a bin. `bins · axis.grid` is at most Capacity / 2.
template <bool Merge, class A, int Capacity>
__device__ __forceinline__ int fill_table(RoiTable<A, Capacity>& t, const RoiAxis& axis, int bins) {
  const int g = axis.grid;
  for (int i = threadIdx.x; i < bins * g; i += blockDim.x) {
    const RoiAxis::Sample s = axis.sample(i / g, i % g);
    t.low[i] = s.low, t.rest[i] = static_cast<A>(s.rest);
  }
  if (threadIdx.x == 0) t.pixels = 0;
  __syncthreads();
  // The pixels from a bin's first sample inside of the map to behind its last: samples go upwards, those inside are neighbours.
  const auto first = [&](int bin) {
    int i = 0;
    while (i < g && t.low[bin * g + i] < 0) ++i;
    return i;
  };
  if (Merge && axis.bin > 0) {
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
      int begin = first(bin), end = g - 1;
      while (end >= begin && t.low[bin * g + end] < 0) --end;
      if (end >= begin) atomicMax(&t.pixels, min(t.low[bin * g + end] + 1, axis.extent - 1) - t.low[bin * g + begin] + 1);
    }
    __syncthreads();
    const int n = t.pixels;
    if (n < 2 * g) {
      for (int i = threadIdx.x; i < bins * n; i += blockDim.x) {
        const int bin = i / n, begin = first(bin), pixel = begin < g ? t.low[bin * g + begin] + i % n : 0;
        A weight = 0;
        for (int k = begin; k < g; ++k) {
          const int low = t.low[bin * g + k];
          if (low < 0) break;
          const A rest = t.rest[bin * g + k];
          weight += low == pixel ? A(1) - rest : low + 1 == pixel ? rest : A(0);
        }
        t.entries[i] = {min(pixel, axis.extent - 1), weight};
      }
      __syncthreads();
      return n;
    }
  }
  for (int i = threadIdx.x; i < 2 * bins * g; i += blockDim.x)
    t.entries[i] = entry_of<A>(t.low[i / 2], t.rest[i / 2], i % 2, axis.extent);
  __syncthreads();
  return 2 * g;
}

/// The largest power of two up to `most` of which no more than a quarter idle over n.
__device__ __forceinline__ int fold(int n, int most) {
  int p = 1;
  for (int q = 2; q <= most; q *= 2)
    if ((n + q - 1) / q * q * 3 <= n * 4) p = q;
  return p;
}

/// This block's bins of all its channels, U at a time. There are at least U channels; the last few are computed twice where they
/// are no multiple of U. rows(bin, i), columns(bin, i) are the lists, `ny` and `nx` long.
template <bool Maximum, int U, class A, class T, class Rows, class Columns>
__device__ __forceinline__ void pool_bins(const T* x, T* y, const RoiShape& s, int channels, int ny, int nx, A samples,
                                          const Rows& rows, const Columns& columns) {
  const int px = fold(nx, 16), steps = (nx + px - 1) / px;
  const int py = steps * ny > 64 ? fold(ny, min(32 / px, 16)) : 1;   // rows are folded where a thread would read many pixels
  const int column = threadIdx.x & (px - 1), line = threadIdx.x / px & (py - 1), slot = threadIdx.x / (px * py);
  const int slots = blockDim.x / (px * py), plane = s.height * s.width;
  const int bins = s.bins.divisor, items = (channels + U - 1) / U * bins;
  for (int begin = 0; begin < items; begin += slots) {   // all lanes take part in the shuffles
    const int item = begin + slot;
    const int several = s.bins.quotient(item), bin = item - several * bins, first = min(several * U, channels - U);
    const int row = s.row.quotient(bin), of_row = bin - row * s.row.divisor;
    A sum[U];
#pragma unroll
    for (int u = 0; u < U; ++u) sum[u] = Maximum ? A(-__int_as_float(0x7f800000)) : A(0);
    if (item < items) {
      const T* map = x + static_cast<i64>(first) * plane;                   // [U channels, height, width]
      for (int b = column; b < nx; b += px) {
        const RoiEntry<A> across = columns(of_row, b);
        A part[U];
#pragma unroll
        for (int u = 0; u < U; ++u) part[u] = 0;
#pragma unroll 2
        for (int a = line; a < ny; a += py) {
          const RoiEntry<A> down = rows(row, a);
          const T* pixel = map + (down.pixel * s.width + across.pixel);
#pragma unroll
          for (int u = 0; u < U; ++u) {
            const A v = widened<A>(pixel[u * plane]);
            if constexpr (Maximum) sum[u] = max(sum[u], down.weight * across.weight * v);
            else part[u] += down.weight * v;
          }
        }
        if constexpr (!Maximum) {
#pragma unroll
          for (int u = 0; u < U; ++u) sum[u] += across.weight * part[u];
        }
      }
    }
    for (int offset = 1; offset < px * py; offset *= 2) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const A other = shuffle_xor(sum[u], offset);
        if constexpr (Maximum) sum[u] = max(sum[u], other);
        else sum[u] += other;
      }
    }
    if (item >= items) continue;
    const int lane = threadIdx.x & (px * py - 1);        // all of a bin's have its sums
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if ((u & (px * py - 1)) != lane) continue;
      if constexpr (!Maximum) sum[u] /= max(samples, A(1));
      y[(first + u) * bins + bin] = narrowed<T>(sum[u]);
    }
  }
}

/// A block has region blockIdx.x % regions, and channels from (blockIdx.x / regions) · s.group on: regions that read the same
/// planes follow each other.
template <bool Maximum, int U, class A, int Capacity, class T>
__device__ __forceinline__ void roi_align(const T* x, const T* rois, const i64* of_item, T* y, const RoiShape& s, u32 regions) {
  __shared__ RoiTable<A, Capacity> down, across;
  __shared__ RoiAxis vertical, horizontal;
  const u32 part = blockIdx.x / regions, region = blockIdx.x - part * regions;
  const int channel = static_cast<int>(part) * s.group, channels = min(s.group, s.channels - channel), bins = s.bins.divisor;
  const i64 item = of_item[region];
  y += (static_cast<i64>(region) * s.channels + channel) * bins;
  const auto corner = [&](int i) { return widened<double>(rois[static_cast<i64>(region) * 4 + i]); };
  if (threadIdx.x == 0) vertical.set(s, corner(1), corner(3), s.height, s.out_height);
  if (threadIdx.x == 32) horizontal.set(s, corner(0), corner(2), s.width, s.out_width);
  __syncthreads();
  if (item < 0 || item >= s.batch || vertical.grid == 0 || horizontal.grid == 0) {
    for (int i = threadIdx.x; i < channels * bins; i += blockDim.x) y[i] = narrowed<T>(A(0));
    return;
  }
  x += (item * s.channels + channel) * s.height * s.width;
  const A samples = static_cast<A>(vertical.grid) * static_cast<A>(horizontal.grid);
  constexpr int most = Capacity / 2;
  if (vertical.grid <= most / s.out_height && horizontal.grid <= most / s.out_width) {
    const int ny = fill_table<!Maximum>(down, vertical, s.out_height), nx = fill_table<!Maximum>(across, horizontal, s.out_width);
    const auto rows = [&](int bin, int i) { return down(bin, i, ny); };
    const auto columns = [&](int bin, int i) { return across(bin, i, nx); };
    if (channels >= U) pool_bins<Maximum, U>(x, y, s, channels, ny, nx, samples, rows, columns);
    else pool_bins<Maximum, 1>(x, y, s, channels, ny, nx, samples, rows, columns);
  } else {
    const RoiComputed rows{vertical}, columns{horizontal};
    pool_bins<Maximum, 1>(
        x, y, s, channels, 2 * vertical.grid, 2 * horizontal.grid, samples,
        [&](int bin, int i) { return rows.entry<A>(bin, i); }, [&](int bin, int i) { return columns.entry<A>(bin, i); });
  }
}
