// Running sums and products along lines: y[i] = x[0] ∘ … ∘ x[i], or without x[i] (Exclusive), from the end on (Reverse).
//
//   x, y    [outer, extent, inner]
//
// There are three forms. Rows (inner 1): a block does a line, Threads * Items elements at a time; a thread has Items neighbours, and
// warps scan the threads' totals. Columns: a thread does a line, and neighbouring threads read neighbouring elements. Parts: threads of
// a block share a line, which each goes through twice, first for its total. The sums are in A: double for all real types, which costs
// nothing in a kernel that waits for memory, and 64 bits for integers.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "common/expr.cuh"
#include "common/warp.cuh"
#include "kernels/scan/scan.h"

template <class A> struct RunningSum {
  static constexpr int start = 0;
  static __device__ __forceinline__ A of(A a, A b) { return a + b; }
};
template <class A> struct RunningProduct {
  static constexpr int start = 1;
  static __device__ __forceinline__ A of(A a, A b) { return a * b; }
};

/// x, y: [blocks, extent], which may be the same.
template <class A, class Op, bool Exclusive, bool Reverse, int Threads, int Items, class T>
__device__ __forceinline__ void scan_rows(const T* x, T* y, u32 extent) {
  __shared__ A warps[Threads / 32];
  __shared__ A carry;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += static_cast<u64>(blockIdx.x) * extent, y += static_cast<u64>(blockIdx.x) * extent;
  if (threadIdx.x == 0) carry = A(Op::start);
  for (u32 begin = 0; begin < extent; begin += Threads * Items) {
    A own[Items];
    A total = A(Op::start);
#pragma unroll
    for (int i = 0; i < Items; ++i) {
      const u32 at = begin + threadIdx.x * Items + i;
      own[i] = at < extent ? widened<A>(x[Reverse ? extent - 1 - at : at]) : A(Op::start);
      total = Op::of(total, own[i]);
    }
    const A until = scan_lanes(total, [](A a, A b) { return Op::of(a, b); });   // of the lanes up to this one
    A before = shuffle_up(until, 1);
    if (lane == 0) before = A(Op::start);
    __syncthreads();                                                        // the carry of the last round is written
    if (lane == 31) warps[warp] = until;
    __syncthreads();
    A running = carry;
    for (u32 w = 0; w < warp; ++w) running = Op::of(running, warps[w]);
    running = Op::of(running, before);
#pragma unroll
    for (int i = 0; i < Items; ++i) {
      const u32 at = begin + threadIdx.x * Items + i;
      const A after = Op::of(running, own[i]);
      if (at < extent) y[Reverse ? extent - 1 - at : at] = narrowed<T>(Exclusive ? running : after);
      running = after;
    }
    __syncthreads();                                                        // everyone has read the carry
    if (threadIdx.x == Threads - 1) carry = running;
  }
}

template <class A, class Op, bool Exclusive, bool Reverse, int Threads, int Items, class T>
__device__ __forceinline__ void scan_rows(const ScanArgs<T>& a) {
  scan_rows<A, Op, Exclusive, Reverse, Threads, Items>(a.x, a.y, a.extent);
}

template <class A, class Op, bool Exclusive, bool Reverse, class T>
__device__ __forceinline__ void scan_columns(const ScanArgs<T>& a) {
  const u32 line = blockIdx.x * blockDim.x + threadIdx.x, extent = a.extent;
  if (line >= a.lines) return;
  const Divider& inner = a.inner;
  const u32 o = inner.quotient(line), i = line - o * inner.divisor;
  const u64 first = static_cast<u64>(o) * extent * inner.divisor + i;
  A running = A(Op::start);
#pragma unroll 4
  for (u32 k = 0; k < extent; ++k) {
    const u64 at = first + static_cast<u64>(Reverse ? extent - 1 - k : k) * inner.divisor;
    const A after = Op::of(running, widened<A>(a.x[at]));
    a.y[at] = narrowed<T>(Exclusive ? running : after);
    running = after;
  }
}

/// A block does Lanes lines next to one another, of each a part of the extent by one of Parts threads. x and y may be the same.
template <class A, class Op, bool Exclusive, bool Reverse, int Lanes, int Parts, class T>
__device__ __forceinline__ void scan_parts(const ScanArgs<T>& a) {
  __shared__ A totals[Parts][Lanes];
  const u32 lane = threadIdx.x % Lanes, part = threadIdx.x / Lanes, line = blockIdx.x * Lanes + lane, extent = a.extent;
  const u32 size = (extent + Parts - 1) / Parts, begin = min(part * size, extent);
  const u32 end = line < a.lines ? min(begin + size, extent) : begin;
  const Divider& inner = a.inner;
  const u32 o = inner.quotient(line), i = line - o * inner.divisor;
  const u64 first = static_cast<u64>(o) * extent * inner.divisor + i;
  const auto at = [&](u32 k) { return first + static_cast<u64>(Reverse ? extent - 1 - k : k) * inner.divisor; };
  A total = A(Op::start);
#pragma unroll 4
  for (u32 k = begin; k < end; ++k) total = Op::of(total, widened<A>(a.x[at(k)]));
  totals[part][lane] = total;
  __syncthreads();
  A running = A(Op::start);
  for (u32 p = 0; p < part; ++p) running = Op::of(running, totals[p][lane]);
#pragma unroll 4
  for (u32 k = begin; k < end; ++k) {
    const u64 place = at(k);
    const A after = Op::of(running, widened<A>(a.x[place]));
    a.y[place] = narrowed<T>(Exclusive ? running : after);
    running = after;
  }
}
