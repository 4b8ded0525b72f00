// NonMaxSuppression takes the boxes of each line (a class of an item) by score, and leaves out those that overlap a better one.
//
//   boxes     [items, count, 4]    as corners, or as centre and extent
//   sorted    [lines, count]       the line's boxes, best first; those with a key of ~0, and all behind, are no candidates
//   corners   [lines, keep]        of the boxes that were taken, for the first test
//   taken     [lines, keep]        their numbers, in order; counts [lines]
//
// A block has a line, a thread one of its next Threads candidates. A cheap test comes first: four minima and two comparisons in
// float tell whether two boxes touch at all, and err only towards yes. Threads test the boxes taken so far, and push the pairs
// that touch into a queue in shared memory. When the queue is nearly full, all threads run the expensive test over it,
// intersection over union in double with its division, so that no warp runs half empty. The candidates that are left are compared
// with each other in the same way. The results are a matrix of bits, along which one warp takes candidates in order.
#pragma once

#include "kernels/detect/nms.h"
#include "select/compact.cuh"
#include "sort/sort.cuh"

/// Gives scores as keys for sorting, the best first. Those below the lowest score, and NaN, come after all others.
struct ByScore : BoxScores {
  using Key = u32;
  __device__ __forceinline__ Item<u32> operator()(u32 line, u32 place) const {
    const float s = scores[static_cast<u64>(line) * count + place];
    const bool candidate = lowest ? s >= *lowest : s == s;
    return {candidate ? ~Ordered<float>::key(s) : 0xffffffffu, place};
  }
};

// Like std::min and std::max they return the first argument where one is NaN.
template <class A> __device__ __forceinline__ A first_min(A a, A b) { return b < a ? b : a; }
template <class A> __device__ __forceinline__ A first_max(A a, A b) { return a < b ? b : a; }

/// A box as the reference has it. No product and sum become one multiply-add.
template <bool Centered> struct ExactBox {
  double y1, x1, y2, x2;
  __device__ __forceinline__ explicit ExactBox(const float* v) {
    if constexpr (Centered) {
      y1 = __dsub_rn(v[1], v[3] * 0.5), x1 = __dsub_rn(v[0], v[2] * 0.5);
      y2 = __dadd_rn(v[1], v[3] * 0.5), x2 = __dadd_rn(v[0], v[2] * 0.5);
    } else {
      y1 = first_min(v[0], v[2]), x1 = first_min(v[1], v[3]), y2 = first_max(v[0], v[2]), x2 = first_max(v[1], v[3]);
    }
  }
  __device__ __forceinline__ explicit ExactBox(const Corners& c) : y1(c.y1), x1(c.x1), y2(c.y2), x2(c.x2) {}
  __device__ __forceinline__ double area() const { return __dmul_rn(__dsub_rn(y2, y1), __dsub_rn(x2, x1)); }
  __device__ __forceinline__ Corners corners() const {
    return {__double2float_rd(y1), __double2float_rd(x1), __double2float_ru(y2), __double2float_ru(x2)};
  }
  /// Returns whether intersection over union is more than the threshold.
  __device__ __forceinline__ bool overlaps(const ExactBox& b, double threshold) const {
    const double h = __dsub_rn(first_min(y2, b.y2), first_max(y1, b.y1)), w = __dsub_rn(first_min(x2, b.x2), first_max(x1, b.x1));
    const double own = area(), other = b.area();
    if (h <= 0 || w <= 0 || own <= 0 || other <= 0) return false;
    const double both = __dmul_rn(h, w);
    return __ddiv_rn(both, __dsub_rn(__dadd_rn(own, other), both)) > threshold;
  }
};

/// Sorts the candidates of line blockIdx.x; most boxes score too little to be one. They are gathered and sorted in shared memory.
/// Where they are more than a tile, each further tile is merged with those before. Behind the candidates, `sorted` gets keys of
/// ~0 as far as `suppress` looks.
template <int Threads, int Tile, int Chunk>
__device__ __forceinline__ void sort_candidates(const CandidatesArgs& a) {
  static_assert(Tile % Threads == 0, "a tile takes whole rounds of the block");
  __shared__ alignas(16) unsigned char memory[sizeof(Item<u32>) * Tile];
  __shared__ u32 next;
  auto* items = reinterpret_cast<Item<u32>*>(memory);
  const ByScore source{a.scores};
  const u32 line = blockIdx.x, count = source.count;
  Item<u32>* const sorted = a.sorted + static_cast<u64>(line) * count;                      // (count)
  Item<u32>* const spare = a.spare + static_cast<u64>(line) * count;                        // (count)
  Item<u32>*from = spare, *to = sorted;
  u32 total = 0;
  for (u32 begin = 0; begin < count;) {
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    u32 found = 0;
    for (; begin < count && found + Threads <= Tile; begin += Threads) {
      const u32 place = begin + threadIdx.x;
      const Item<u32> item = place < count ? source(line, place) : last_item<u32>();
      const bool candidate = item.key != 0xffffffffu;
      const u32 here = __ballot_sync(full_warp, candidate), lane = threadIdx.x % 32;
      u32 at = lane == 0 && here ? atomicAdd(&next, static_cast<u32>(__popc(here))) : 0;   // in any order: they are sorted
      at = broadcast(at, 0) + __popc(here & ((1u << lane) - 1));
      if (candidate) items[at] = item;
      found += __syncthreads_count(candidate);
    }
    u32 n = 4;
    while (n < found) n *= 2;
    for (u32 i = found + threadIdx.x; i < n; i += Threads) items[i] = last_item<u32>();
    sort_by_fours(items, n);
    for (u32 i = threadIdx.x; i < found; i += Threads) to[i + count_before(from, total, items[i])] = items[i];
    for (u32 i = threadIdx.x; i < total; i += Threads) to[i + count_before(items, found, from[i])] = from[i];
    total += found;
    __syncthreads();
    Item<u32>* const merged = to;
    to = from, from = merged;
  }
  for (u32 i = threadIdx.x; from != sorted && i < total; i += Threads) sorted[i] = from[i];
  const u32 end = min(count, (total / Chunk + 2) * Chunk);
  for (u32 i = total + threadIdx.x; i < end; i += Threads) sorted[i] = last_item<u32>();
}

/// Pairs of a candidate (below 256) and another box, pushed by threads and taken out by the whole block.
template <int Threads, int Round> struct PairQueue {
  static constexpr u32 nearly_full = 4 * Threads;
  u32 entries[nearly_full + Threads * Round];
  u32 count;

  /// Pushes this thread's pairs with the others `first` + j, for each bit j. Returns whether the queue should be drained.
  __device__ __forceinline__ bool push(u32 candidate, u32 first, u32 bits) {
    if (!bits) return false;
    u32 at = atomicAdd(&count, static_cast<u32>(__popc(bits)));
    for (; bits; bits &= bits - 1) entries[at++] = candidate | (first + __ffs(bits) - 1) << 8;
    return at > nearly_full;
  }
  /// Takes all pairs out, by the whole block. The caller has a barrier between the last push and this, and one after it.
  template <class Dive> __device__ __forceinline__ void drain(const Dive& dive) {
    for (u32 i = threadIdx.x; i < count; i += Threads) dive(entries[i] & 255, entries[i] >> 8);
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
  }
};

/// Takes the boxes of a line. Near: where corners are exact, boxes are compared by the corners in shared memory, and not read
/// again.
template <bool Centered, bool Near, int Threads>
__device__ __forceinline__ void suppress(const SuppressArgs& a) {
  static_assert(Threads == 256, "a queue's entry has 8 bits for the candidate");
  constexpr int Round = 16, Words = Threads / 32;
  __shared__ PairQueue<Threads, Round> queue;
  __shared__ Corners candidates[Near ? Threads : 1];
  __shared__ Corners others[Threads];      // some of the boxes taken; then the candidates that are left
  __shared__ u32 numbers[Threads];         // of the candidates, by thread; then of those that are left
  __shared__ u32 dead[Threads];            // by thread
  __shared__ u32 beaten[Threads][Words];   // by candidate left: those that it suppresses
  __shared__ u32 order[Threads], newly;

  const u32 line = blockIdx.x, t = threadIdx.x, count = a.count, keep = a.keep;
  const float* const boxes = a.boxes + static_cast<u64>(line / a.classes) * count * 4;      // (count, 4)
  const Item<u32>* const sorted = a.sorted + static_cast<u64>(line) * count;                // (count)
  Corners* const corners = a.corners + static_cast<u64>(line) * keep;                       // (keep)
  u32* const taken = a.taken + static_cast<u64>(line) * keep;                               // (keep)
  const i64 wanted = a.limit ? *a.limit : 0;
  const u32 most = wanted < 0 ? 0 : wanted < keep ? static_cast<u32>(wanted) : keep;
  const double overlap = a.threshold ? static_cast<double>(*a.threshold) : 0.;
  // Corners are exact except those of centred boxes.
  const auto exact = [&](const Corners& c, const u32& number) {
    if constexpr (Centered || !Near) return ExactBox<Centered>(boxes + static_cast<u64>(number) * 4);
    else return ExactBox<Centered>(c);
  };
  u32 total = 0;
  if (t == 0) queue.count = 0;
  for (u32 begin = 0; begin < count && total < most; begin += Threads) {
    const Item<u32> item = begin + t < count ? sorted[begin + t] : last_item<u32>();
    bool alive = item.key != 0xffffffffu;
    if (__syncthreads_count(alive) == 0) break;
    const Corners own = alive ? ExactBox<Centered>(boxes + static_cast<u64>(item.place) * 4).corners() : Corners::nothing();
    if constexpr (Near) candidates[t] = own;
    numbers[t] = item.place, dead[t] = !alive;

    const auto dive = [&](u32 candidate, u32 other) {
      if (dead[candidate]) return;
      if (exact(candidates[Near ? candidate : 0], numbers[candidate]).overlaps(exact(corners[other], taken[other]), overlap))
        dead[candidate] = 1;
    };
    bool any = true;
    for (u32 tile = 0; tile < total && any; tile += Threads) {
      __syncthreads();
      others[t] = tile + t < total ? corners[tile + t] : Corners::nothing();
      __syncthreads();
      for (u32 r = 0; r < min(total - tile, static_cast<u32>(Threads)) && any; r += Round) {
        u32 hits = 0;
        if (alive) {
#pragma unroll
          for (int j = 0; j < Round; ++j) hits |= own.touches(others[r + j]) ? 1u << j : 0u;
        }
        if (!__syncthreads_or(queue.push(t, tile + r, hits))) continue;
        queue.drain(dive);
        alive = !dead[t];
        any = __syncthreads_or(alive);
      }
    }
    __syncthreads();
    queue.drain(dive);
    alive = !dead[t];

    // Candidates that are left move together, in their order.
    const u32 here = __ballot_sync(full_warp, alive);
    u32 left;
    const u32 rank = sum_before<Threads>(__popc(here), left) + __popc(here & ((1u << (t % 32)) - 1));
    if (alive) others[rank] = own, numbers[rank] = item.place;
    if (t >= left) others[t] = Corners::nothing();
#pragma unroll
    for (int w = 0; w < Words; ++w) beaten[t][w] = 0;
    __syncthreads();
    const auto beat = [&](u32 candidate, u32 better) {
      if (exact(others[candidate], numbers[candidate]).overlaps(exact(others[better], numbers[better]), overlap))
        atomicOr(&beaten[better][candidate / 32], 1u << (candidate % 32));
    };
    const Corners mine = others[t];
    for (u32 r = 0; r + 1 < left; r += Round) {
      u32 hits = 0;
      if (t > r && t < left) {
#pragma unroll
        for (int j = 0; j < Round; ++j) hits |= mine.touches(others[r + j]) ? 1u << j : 0u;
        if (t - r < Round) hits &= (1u << (t - r)) - 1;   // better ones only
      }
      if (!__syncthreads_or(queue.push(t, r, hits))) continue;
      queue.drain(beat);
      __syncthreads();
    }
    __syncthreads();
    queue.drain(beat);
    if (t < 32) {
      const u32 first = t * 32;   // a lane has a word of those that are still to be taken
      u32 word = first + 32 <= left ? 0xffffffffu : first < left ? (1u << (left - first)) - 1 : 0u, n = 0;
      for (; total + n < most; ++n) {
        const u32 words = __ballot_sync(full_warp, word != 0);
        if (!words) break;
        const u32 lane = __ffs(words) - 1, next = lane * 32 + __ffs(broadcast(word, lane)) - 1;
        if (t == lane) word &= word - 1;
        if (t < Words) word &= ~beaten[next][t];
        if (t == 0) order[n] = next;
      }
      if (t == 0) newly = n;
    }
    __syncthreads();
    if (t < newly) taken[total + t] = numbers[order[t]], corners[total + t] = others[order[t]];
    total += newly;
  }
  if (t == 0) a.counts[line] = total;
}

/// Writes item, class and box of what was taken, line after line. A block a line.
__device__ __forceinline__ void emit_taken(const EmitTakenArgs& a) {
  __shared__ u32 before;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  const u32 line = blockIdx.x, own = a.counts[line];
  u32 sum = 0;
  for (u32 l = threadIdx.x; l < line; l += blockDim.x) sum += a.counts[l];
  if (sum) atomicAdd(&before, sum);   // whole numbers: the same in any order
  __syncthreads();
  for (u32 i = threadIdx.x; i < own; i += blockDim.x) {
    i64* row = a.y + (static_cast<u64>(before) + i) * 3;                                 // (3)
    row[0] = line / a.classes, row[1] = line % a.classes, row[2] = a.taken[static_cast<u64>(line) * a.keep + i];
  }
  if (line + 1 == gridDim.x && threadIdx.x == 0) *a.found = static_cast<i64>(before) + own;
}
