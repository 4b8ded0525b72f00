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

#include "detect/candidates.cuh"
#include "select/compact.cuh"

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
