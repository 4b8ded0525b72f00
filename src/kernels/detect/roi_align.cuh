// RoiAlign (He et al., arXiv:1703.06870), with the samples of the reference (src/ops/detect/roi.cpp): for each bin of a region
// the mean of bilinear samples, or the largest weighted neighbour.
//
//   x        [batch, channels, height, width]
//   rois     [R, 4]           x1, y1, x2, y2
//   items    [R]              indices into the batch
//   y        [R, channels, out_height, out_width]
//
// A block computes some channels of one region. Along each axis a bin is a list of (pixel, weight), the same for all channels:
// two entries for each sample; or, for a mean whose samples are closer than pixels are, one entry for each pixel, with the sum of
// its weights. The mean over a bin is the product of its two lists. The lengths of the lists differ from region to region, so a
// block adapts its shape: its threads are split by powers of two over a bin's columns, its rows, and (bin, channel), such that
// neighbouring threads read neighbouring pixels and few threads are idle. Shuffles add the sums of a bin's threads.
//
// y is 0 for a region that the reference rejects: an item outside of the batch, more than 2^16 samples along a side.
//
// Launch: one block per (group of channels, region).
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "common/warp.cuh"
#include "kernels/detect/roi_align.h"

/// A region along one axis. In double and without fused multiply-adds, as the reference: otherwise rounding could change the
/// number of samples.
struct RoiAxis {
  double start, bin, of_grid;   // of_grid: 1 / grid
  int grid, extent;

  template <class T>
  __device__ __forceinline__ void set(const RoiAlignArgs<T>& s, double low, double high, int extent_, int bins) {
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
    double rest;   // distance from it
  };
  __device__ __forceinline__ Sample sample(int of_bin, int i) const {
    // v / grid without the branches of a division, and correctly rounded, since of_grid is (Markstein 1990).
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
};

/// The entries of a bin, of a table with `count` each.
template <class A> struct RoiListed {
  const RoiEntry<A>* entries;
  int count;
  __device__ __forceinline__ RoiEntry<A> operator()(int i) const { return entries[i]; }
};

/// The same entries, computed when they are read: for regions whose samples exceed a table. With so many samples the last bit of
/// a place does not matter. Of samples outside of the map there are a few at either end, which count as zeros: a bin's list is no
/// longer than the map lets it be, however large the region is. NaN and infinite places have no entries.
template <class A> struct RoiComputed {
  const RoiAxis& axis;
  double begin, step;   // of the samples
  int first, count;     // of the entries' samples; of the entries
  __device__ __forceinline__ RoiComputed(const RoiAxis& axis_, int bin) : axis(axis_) {
    step = axis.bin * axis.of_grid;
    begin = axis.start + bin * axis.bin + 0.5 * step;
    const double low = (-1 - begin) / step, high = (axis.extent - begin) / step;            // the map's edges, in samples
    const auto of_grid = [&](double i) { return static_cast<int>(fmin(fmax(i, 0.0), static_cast<double>(axis.grid))); };
    first = step == 0 ? 0 : of_grid(floor(fmin(low, high)) - 1);
    count = 2 * max(0, (step == 0 ? axis.grid : of_grid(ceil(fmax(low, high)) + 2)) - first);
  }
  __device__ __forceinline__ RoiEntry<A> operator()(int i) const {
    const RoiAxis::Sample s = axis.sample_at(begin + (first + i / 2) * step);
    return entry_of<A>(s.low, static_cast<A>(s.rest), i % 2, axis.extent);
  }
};

/// Fills the table with all threads of the block; returns the number of entries of a bin. `bins · axis.grid` is at most
/// Capacity / 2.
template <bool Merge, class A, int Capacity>
__device__ __forceinline__ int fill_table(RoiTable<A, Capacity>& t, const RoiAxis& axis, int bins) {
  const int g = axis.grid;
  for (int i = threadIdx.x; i < bins * g; i += blockDim.x) {
    const RoiAxis::Sample s = axis.sample(i / g, i % g);
    t.low[i] = s.low, t.rest[i] = static_cast<A>(s.rest);
  }
  if (threadIdx.x == 0) t.pixels = 0;
  __syncthreads();
  // A bin's pixels go from that of its first sample inside of the map to the one after that of its last: samples ascend, so those
  // inside of the map follow each other.
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

/// The largest power of two up to `most` that leaves at most a quarter of its threads idle over n.
__device__ __forceinline__ int fold(int n, int most) {
  int p = 1;
  for (int q = 2; q <= most; q *= 2)
    if ((n + q - 1) / q * q * 3 <= n * 4) p = q;
  return p;
}

/// Computes the bins of this block's `channels` channels, U channels at a time. There are at least U; where their number is no
/// multiple of U, some are computed twice. rows(bin), columns(bin) are the lists, of ny and nx entries at most.
///
///   x    [channels, height, width]
///   y    [channels, out_height, out_width]
template <bool Maximum, int U, class A, class T, class Rows, class Columns>
__device__ __forceinline__ void pool_bins(const T* x, T* y, const RoiAlignArgs<T>& s, int channels, int ny, int nx, A samples,
                                          const Rows& rows, const Columns& columns) {
  const int px = fold(nx, 16), steps = (nx + px - 1) / px;
  const int py = steps * ny > 64 ? fold(ny, min(32 / px, 16)) : 1;   // rows are split where a thread would read many pixels
  const int column = threadIdx.x & (px - 1), line = threadIdx.x / px & (py - 1), slot = threadIdx.x / (px * py);
  const int slots = blockDim.x / (px * py), plane = s.height * s.width;
  const int bins = s.bins.divisor, items = (channels + U - 1) / U * bins;
  for (int begin = 0; begin < items; begin += slots) {   // without an exit: all lanes take part in the shuffles
    const int item = begin + slot;
    const int several = s.bins.quotient(item), bin = item - several * bins, first = min(several * U, channels - U);
    const int row = s.row.quotient(bin), of_row = bin - row * s.row.divisor;
    A sum[U];
#pragma unroll
    for (int u = 0; u < U; ++u) sum[u] = Maximum ? A(-__int_as_float(0x7f800000)) : A(0);
    bool empty = false;                                                     // all samples lie outside of the map
    if (item < items) {
      const auto across_all = columns(of_row);
      const auto down_all = rows(row);
      empty = across_all.count == 0 || down_all.count == 0;
      const T* map = x + static_cast<i64>(first) * plane;                   // [U channels, height, width]
      for (int b = column; b < across_all.count; b += px) {
        const RoiEntry<A> across = across_all(b);
        A part[U];
#pragma unroll
        for (int u = 0; u < U; ++u) part[u] = 0;
#pragma unroll 2
        for (int a = line; a < down_all.count; a += py) {
          const RoiEntry<A> down = down_all(a);
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
    const int lane = threadIdx.x & (px * py - 1);        // each of a bin's lanes has the sums
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if ((u & (px * py - 1)) != lane) continue;
      if constexpr (!Maximum) sum[u] /= max(samples, A(1));
      else if (empty) sum[u] = 0;
      y[(first + u) * bins + bin] = narrowed<T>(sum[u]);
    }
  }
}

/// A block has region blockIdx.x % regions, and `group` channels from (blockIdx.x / regions) · group on: blocks that read the
/// same planes are neighbours.
template <bool Maximum, int U, class A, int Capacity, class T>
__device__ __forceinline__ void roi_align(const RoiAlignArgs<T>& s) {
  __shared__ RoiTable<A, Capacity> down, across;
  __shared__ RoiAxis vertical, horizontal;
  const u32 part = blockIdx.x / s.regions, region = blockIdx.x - part * s.regions;
  const int channel = static_cast<int>(part) * s.group, channels = min(s.group, s.channels - channel), bins = s.bins.divisor;
  const i64 item = s.items[region];
  T* y = s.y + (static_cast<i64>(region) * s.channels + channel) * bins;                        // [channels, bins]
  const auto corner = [&](int i) { return widened<double>(s.rois[static_cast<i64>(region) * 4 + i]); };
  if (threadIdx.x == 0) vertical.set(s, corner(1), corner(3), s.height, s.out_height);
  if (threadIdx.x == 32) horizontal.set(s, corner(0), corner(2), s.width, s.out_width);
  __syncthreads();
  if (item < 0 || item >= s.batch || vertical.grid == 0 || horizontal.grid == 0) {
    for (int i = threadIdx.x; i < channels * bins; i += blockDim.x) y[i] = narrowed<T>(A(0));
    return;
  }
  const T* x = s.x + (item * s.channels + channel) * s.height * s.width;                        // [channels, height, width]
  const A samples = static_cast<A>(vertical.grid) * static_cast<A>(horizontal.grid);
  constexpr int most = Capacity / 2;
  if (vertical.grid <= most / s.out_height && horizontal.grid <= most / s.out_width) {
    const int ny = fill_table<!Maximum>(down, vertical, s.out_height), nx = fill_table<!Maximum>(across, horizontal, s.out_width);
    const auto rows = [&](int bin) { return RoiListed<A>{down.entries + bin * ny, ny}; };
    const auto columns = [&](int bin) { return RoiListed<A>{across.entries + bin * nx, nx}; };
    if (channels >= U) pool_bins<Maximum, U>(x, y, s, channels, ny, nx, samples, rows, columns);
    else pool_bins<Maximum, 1>(x, y, s, channels, ny, nx, samples, rows, columns);
  } else {
    const auto rows = [&](int bin) { return RoiComputed<A>(vertical, bin); };
    const auto columns = [&](int bin) { return RoiComputed<A>(horizontal, bin); };
    pool_bins<Maximum, 1>(x, y, s, channels, 2 * vertical.grid, 2 * horizontal.grid, samples, rows, columns);
  }
}
