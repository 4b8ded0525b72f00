// Sorts lines of keys, each with the place that it came from. Equal keys are ordered by place, so there is one order only.
//
//   lines     [lines, extent] keys from a functor, item(line, place)
//   runs      [lines, runs, keep] sorted items: the first `keep` of each run, since no other can be among the line's first `keep`
//
// A run begins as a tile of N keys that a block sorts in shared memory (bitonic, Batcher 1968). Runs are merged two by two: an
// item's place in the merged run is its own place plus the number of items of the other run before it, which bisection finds.
#pragma once

#include "common/divide.cuh"
#include "common/expr.cuh"
#include "kernels/sort/sort.h"

/// Comes after every other item.
template <class K> __device__ __forceinline__ Item<K> last_item() { return {static_cast<K>(~K(0)), 0xffffffffu}; }

/// Keys that order as TopK does: a NaN is larger than every number, and the zeros are equal.
template <class T> struct Ordered {
  using Key = u32;
  static __device__ __forceinline__ u32 key(T x) { return static_cast<u32>(static_cast<i32>(x)) ^ 0x80000000u; }
};
template <> struct Ordered<u32> {
  using Key = u32;
  static __device__ __forceinline__ u32 key(u32 x) { return x; }
};
template <> struct Ordered<i64> {
  using Key = u64;
  static __device__ __forceinline__ u64 key(i64 x) { return static_cast<u64>(x) ^ 0x8000000000000000ull; }
};
template <> struct Ordered<u64> {
  using Key = u64;
  static __device__ __forceinline__ u64 key(u64 x) { return x; }
};
template <> struct Ordered<float> {
  using Key = u32;
  static __device__ __forceinline__ u32 key(float x) {
    if (x != x) return 0xffffffffu;
    const u32 bits = x == 0.f ? 0u : __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
};
template <> struct Ordered<f16> {
  using Key = u32;
  static __device__ __forceinline__ u32 key(f16 x) { return Ordered<float>::key(f32(x)); }
};
template <> struct Ordered<bf16> {
  using Key = u32;
  static __device__ __forceinline__ u32 key(bf16 x) { return Ordered<float>::key(f32(x)); }
};
template <> struct Ordered<double> {
  using Key = u64;
  static __device__ __forceinline__ u64 key(double x) {
    if (x != x) return ~0ull;
    const u64 bits = x == 0. ? 0ull : static_cast<u64>(__double_as_longlong(x));
    return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
  }
};

/// The elements of lines along an axis; Largest: the largest first.
template <class T, bool Largest> struct AlongAxis : AxisLines<T> {
  using Key = typename Ordered<T>::Key;
  __device__ __forceinline__ Item<Key> operator()(u32 line, u32 place) const {
    const Key key = Ordered<T>::key(this->x[this->at(line, place)]);
    return {Largest ? static_cast<Key>(~key) : key, place};
  }
};

/// Sorts a tile's items, by all threads of the block; N a power of two.
template <int N, class K> __device__ __forceinline__ void sort_shared(Item<K>* items) {
  for (u32 size = 2; size <= N; size *= 2) {
    for (u32 step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (u32 pair = threadIdx.x; pair < N / 2; pair += blockDim.x) {
        const u32 low = 2 * pair - (pair & (step - 1)), high = low + step;
        const Item<K> a = items[low], b = items[high];
        if (b.before(a) == ((low & size) == 0)) items[low] = b, items[high] = a;
      }
    }
  }
  __syncthreads();
}

/// Sorts the first n items, by all threads of the block; n a power of two, at least 4. A thread takes four items through two
/// steps, which halves the barriers, the reads and the writes.
template <class K> __device__ __forceinline__ void sort_by_fours(Item<K>* items, u32 n) {
  const auto order = [](Item<K>& a, Item<K>& b, bool up) {
    if (b.before(a) != up) return;
    const Item<K> kept = a;
    a = b, b = kept;
  };
  for (u32 size = 2; size <= n; size *= 2) {
    u32 step = size / 2;
    for (; step > 1; step /= 4) {
      __syncthreads();
      const u32 half = step / 2;
      for (u32 four = threadIdx.x; four < n / 4; four += blockDim.x) {
        const u32 at = 4 * four - 3 * (four & (half - 1));
        const bool up = (at & size) == 0;
        Item<K> a = items[at], b = items[at + half], c = items[at + step], d = items[at + step + half];
        order(a, c, up), order(b, d, up);
        order(a, b, up), order(c, d, up);
        items[at] = a, items[at + half] = b, items[at + step] = c, items[at + step + half] = d;
      }
    }
    if (step == 0) continue;
    __syncthreads();
    for (u32 pair = threadIdx.x; pair < n / 2; pair += blockDim.x) {
      Item<K> a = items[2 * pair], b = items[2 * pair + 1];
      order(a, b, (2 * pair & size) == 0);
      items[2 * pair] = a, items[2 * pair + 1] = b;
    }
  }
  __syncthreads();
}

/// Fills `items` with tile blockIdx.x % tiles of its line and sorts it; returns the line.
template <int N, class K, class Source>
__device__ __forceinline__ u32 sort_tile(Item<K>* items, const Source& source, u32 extent, u32 tiles) {
  const u32 line = blockIdx.x / tiles, begin = (blockIdx.x - line * tiles) * N;
  for (u32 i = threadIdx.x; i < N; i += blockDim.x)
    items[i] = begin + i < extent ? source(line, begin + i) : last_item<K>();
  sort_shared<N>(items);
  return line;
}

/// Sorts each tile. Launch: a block a tile.
template <int N, class Source> __device__ __forceinline__ void sort_tiles(const SortArgs<Source>& a) {
  using K = typename Source::Key;
  const SortedTiles<K>& sorted = a.sorted;
  __shared__ alignas(16) unsigned char memory[sizeof(Item<K>) * N];
  auto* items = reinterpret_cast<Item<K>*>(memory);
  sort_tile<N>(items, a.source, sorted.extent, sorted.tiles);
  for (u32 i = threadIdx.x; i < sorted.keep; i += blockDim.x)
    sorted.out[static_cast<u64>(blockIdx.x) * sorted.keep + i] = items[i];
}

/// How many of n sorted items come before `item`.
template <class K> __device__ __forceinline__ u32 count_before(const Item<K>* items, u32 n, const Item<K>& item) {
  u32 begin = 0;
  while (begin < n) {
    const u32 middle = (begin + n) / 2;
    if (items[middle].before(item)) begin = middle + 1;
    else n = middle;
  }
  return begin;
}

/// Merges the runs of each line two by two. A thread an item.
template <class K> __device__ __forceinline__ void merge_runs(const MergeArgs<K>& a) {
  const Divider &keep = a.keep, &per_line = a.per_line;
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= a.count) return;
  const u32 run_of_all = keep.quotient(number), place = number - run_of_all * keep.divisor;
  const u32 line = per_line.quotient(run_of_all), run = run_of_all - line * per_line.divisor;
  const Item<K> item = a.runs[number];
  u32 before = 0;
  const u32 other = run ^ 1;
  if (other < per_line.divisor) {
    const Item<K>* o = a.runs + (static_cast<u64>(line) * per_line.divisor + other) * keep.divisor;             // (keep)
    u32 end = keep.divisor;
    while (before < end) {
      const u32 middle = (before + end) / 2;
      // Only items behind the end of a line are equal; those of the left run come first.
      if (other < run ? !item.before(o[middle]) : o[middle].before(item)) before = middle + 1;
      else end = middle;
    }
  }
  const u32 to = place + before, pairs = (per_line.divisor + 1) / 2;
  if (to < a.kept) a.out[(static_cast<u64>(line) * pairs + run / 2) * a.kept + to] = item;
}

/// Writes an item of a line, the i-th of its first k: the element and its place, each where it is asked for.
template <class T, class K>
__device__ __forceinline__ void put(const TopKArgs<T, K>& a, u32 line, u32 i, const Item<K>& item) {
  const Divider& inner = a.lines.inner;
  const u32 o = inner.quotient(line), in = line - o * inner.divisor;
  const u64 to = (static_cast<u64>(o) * a.k.divisor + i) * inner.divisor + in;
  if (a.values) a.values[to] = a.lines.x[a.lines.at(line, item.place)];
  if (a.places) a.places[to] = item.place;
}

/// TopK of lines of at most N elements, which are one tile each. Launch: a block of Threads threads a line.
template <int N, int Threads, bool Largest, class T, class K>
__device__ __forceinline__ void top_k_of_tiles(const TopKArgs<T, K>& a) {
  __shared__ alignas(16) unsigned char memory[sizeof(Item<K>) * N];
  auto* items = reinterpret_cast<Item<K>*>(memory);                         // (N)
  const u32 line = sort_tile<N>(items, AlongAxis<T, Largest>{a.lines}, a.lines.extent, 1);
  for (u32 i = threadIdx.x; i < a.k.divisor; i += Threads) put(a, line, i, items[i]);
}

/// TopK of lines whose first k items are sorted. Launch: blocks of Threads threads, a thread an item.
template <int Threads, class T, class K> __device__ __forceinline__ void top_k_of_sorted(const TopKArgs<T, K>& a) {
  const u32 number = blockIdx.x * static_cast<u32>(Threads) + threadIdx.x;
  if (number >= a.count) return;
  const u32 line = a.k.quotient(number);
  put(a, line, number - line * a.k.divisor, a.items[number]);
}
