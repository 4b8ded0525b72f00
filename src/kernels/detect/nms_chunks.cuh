// NonMaxSuppression of lines with many candidates, or of few lines: many blocks share a line.
//
//   boxes     [items, count, 4]    as corners, or as centre and extent
//   sorted    [lines, count]       the line's boxes, best first; those with a key of ~0, and all behind, are no candidates
//   taken     [lines, keep]        the numbers of the boxes that were taken, in order; counts [lines]
//
// A line's candidates are gone through in chunks, two launches each:
//
//   test_chunk   a row is a candidate of the chunk. Some blocks test 256 rows against a share of the boxes taken in the chunks before:
//                rows that overlap one are dead. The others test 256 rows against 64 candidates of the chunk: a word of the matrix of
//                bits `better`, row by row those that are better and overlap.
//   pick_chunk   a block a line decides which rows are taken (below), and appends them.
//
// How many launches there are depends on shapes alone. Where the limit is reached, or no candidate is left, they return at once.
//
// Which are taken is what one after the other would give: a row is, unless a better one that is taken overlaps it. A warp has 64
// rows and goes through them in order. What it knows of the rows of warps before is what they said at the last barrier: one
// that was taken rules a row out; one that is open keeps it open. After a barrier the first warp with open rows has none any more,
// so there are at most chunk / 64 rounds; boxes rarely suppress each other over more than a few.
//
// Overlaps are decided in float where bounds of intersection and union, rounded outwards, lie on one side of the threshold: numbers
// of 24 bits that differ lie 2^-24 apart, and the reference's doubles are off by 2^-49 at most. The rest, next to the threshold, is
// decided as the reference does it. A box with a NaN overlaps none there, since its area is one; here no comparison finds that it
// touches.
#pragma once

#include "detect/candidates.cuh"
#include "select/compact.cuh"

/// A box as tests in float have it.
struct BoxBounds {
  Corners corners;      // cover it
  float least, most;    // bounds of its area
  float slack;          // by which `corners` are further apart along an axis, at most
  u32 number;

  static __device__ __forceinline__ BoxBounds nothing() { return {Corners::nothing(), 0, 0, 0, 0}; }
};

template <bool Centered> __device__ __forceinline__ BoxBounds bounds_of(const float* boxes, u32 number) {
  const float* v = boxes + static_cast<u64>(number) * 4;                                    // (4)
  if constexpr (Centered) {
    const ExactBox<true> e(v);
    const Corners c = e.corners();
    const double area = e.area(), down = (c.y2 - e.y2) + (e.y1 - c.y1), across = (c.x2 - e.x2) + (e.x1 - c.x1);
    return {c, __double2float_rd(area), __double2float_ru(area), __double2float_ru(down > across ? down : across), number};
  } else {
    const Corners c{first_min(v[0], v[2]), first_min(v[1], v[3]), first_max(v[0], v[2]), first_max(v[1], v[3])};
    return {c, __fmul_rd(__fsub_rd(c.y2, c.y1), __fsub_rd(c.x2, c.x1)),
            __fmul_ru(__fsub_ru(c.y2, c.y1), __fsub_ru(c.x2, c.x1)), 0, number};
  }
}

/// Whether ExactBox::overlaps is true of the two.
template <bool Centered>
__device__ __forceinline__ bool overlap(const BoxBounds& a, const BoxBounds& b, const float* boxes, float threshold) {
  const float top = fmaxf(a.corners.y1, b.corners.y1), bottom = fminf(a.corners.y2, b.corners.y2);
  const float left = fmaxf(a.corners.x1, b.corners.x1), right = fminf(a.corners.x2, b.corners.x2);
  const float down = __fsub_ru(bottom, top), across = __fsub_ru(right, left);
  if (!(down > 0 && across > 0)) return false;
  float least_down = __fsub_rd(bottom, top), least_across = __fsub_rd(right, left);
  if constexpr (Centered) {
    const float slack = __fadd_ru(a.slack, b.slack);
    least_down = __fsub_rd(least_down, slack), least_across = __fsub_rd(least_across, slack);
  }
  const bool sure = least_down > 0 && least_across > 0;
  const float most = __fmul_ru(down, across), least = sure ? __fmul_rd(least_down, least_across) : 0.f;
  const float most_of_both = __fsub_ru(__fadd_ru(a.most, b.most), least);
  const float least_of_both = __fsub_rd(__fadd_rd(a.least, b.least), most);
  if (sure && least > __fmul_ru(threshold, most_of_both)) return true;
  if (most < __fmul_rd(threshold, least_of_both)) return false;
  return ExactBox<Centered>(boxes + static_cast<u64>(a.number) * 4)
      .overlaps(ExactBox<Centered>(boxes + static_cast<u64>(b.number) * 4), threshold);
}

/// Bits of those of 32 boxes that touch `c`: of all that overlap it, and of hardly any other. A box with a NaN touches none.
__device__ __forceinline__ u32 touching(const Corners& c, const BoxBounds* others) {
  u32 bits = 0;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const Corners o = others[j].corners;
    bits |= o.y2 > c.y1 && c.y2 > o.y1 && o.x2 > c.x1 && c.x2 > o.x1 ? 1u << j : 0u;
  }
  return bits;
}

/// What the launches of a chunk find of a line.
struct LineSoFar {
  const float* boxes;           // (count, 4)
  const Item<u32>* sorted;      // (count)
  u32* taken;                   // (keep)
  u32 total, most;              // boxes taken, and to be taken at most

  __device__ __forceinline__ LineSoFar(const ChunkArgs& a, u32 line)
      : boxes(a.boxes + static_cast<u64>(line / a.classes) * a.count * 4),
        sorted(a.sorted + static_cast<u64>(line) * a.count),
        taken(a.taken + static_cast<u64>(line) * a.keep),
        total(a.begin ? a.counts[line] : 0) {
    const i64 wanted = a.limit ? *a.limit : 0;
    most = wanted < 0 ? 0 : wanted < a.keep ? static_cast<u32>(wanted) : a.keep;
  }
  /// The candidate at a place; none behind the last.
  __device__ __forceinline__ Item<u32> at(const ChunkArgs& a, u32 place) const {
    return place < a.count ? sorted[place] : last_item<u32>();
  }
  /// Whether nothing of the chunk can be taken.
  __device__ __forceinline__ bool ends_before(const ChunkArgs& a) const {
    return total >= most || sorted[a.begin].key == 0xffffffffu;
  }
};

/// Tests the rows of a chunk. Launch: `tasks` blocks of 256 threads a line; the first `against` of them, `splits` for 256 rows, test
/// against boxes taken before, the others against the chunk's own.
template <bool Centered, int Chunk> __device__ __forceinline__ void test_chunk(const ChunkArgs& a) {
  constexpr u32 Rows = 256, Columns = 64, Words = Chunk / Columns;
  static_assert(Chunk % Rows == 0, "whole blocks of rows");
  __shared__ BoxBounds others[Rows];
  const u32 line = blockIdx.x / a.tasks, task = blockIdx.x - line * a.tasks, t = threadIdx.x;
  const LineSoFar l(a, line);
  if (l.ends_before(a)) return;
  const float threshold = a.threshold ? *a.threshold : 0.f;

  const bool own = task >= a.against;
  u32 rows = 0, column = 0;      // which 256 rows; which 64 of the chunk, or which share of the boxes taken
  if (own) {                     // row by row of the lower triangle: 256 rows have columns of as many, and of all before
    column = task - a.against;
    for (; column >= (rows + 1) * (Rows / Columns); ++rows) column -= (rows + 1) * (Rows / Columns);
  } else {
    rows = task / a.splits, column = task - rows * a.splits;
  }
  const u32 row = rows * Rows + t;
  const Item<u32> item = l.at(a, a.begin + row);
  const bool candidate = item.key != 0xffffffffu;
  if (!__syncthreads_or(candidate)) return;
  const BoxBounds mine = candidate ? bounds_of<Centered>(l.boxes, item.place) : BoxBounds::nothing();

  if (own) {
    if (t < Columns) {
      const Item<u32> other = l.at(a, a.begin + column * Columns + t);
      others[t] = other.key != 0xffffffffu ? bounds_of<Centered>(l.boxes, other.place) : BoxBounds::nothing();
    }
    __syncthreads();
    const u32 first = column * Columns, ahead = row > first ? min(row - first, Columns) : 0;    // of the columns, better than the row
    u64 word = 0;
#pragma unroll 1
    for (u32 j = 0; j < ahead; j += 32) {
      u32 bits = touching(mine.corners, others + j);
      if (ahead - j < 32) bits &= (1u << (ahead - j)) - 1;
      for (; bits; bits &= bits - 1) {
        const u32 other = j + __ffs(bits) - 1;
        if (overlap<Centered>(mine, others[other], l.boxes, threshold)) word |= 1ull << other;
      }
    }
    __syncwarp();
    a.better[(static_cast<u64>(line) * Chunk + row) * Words + column] = word;
    const u32 any = __ballot_sync(full_warp, word != 0);
    u32* const halves = reinterpret_cast<u32*>(a.beaten + (static_cast<u64>(line) * Words + row / 64) * Words + column);   // (2)
    if (t % 32 == 0) halves[row / 32 % 2] = any;
    return;
  }
  bool dead = false;
  for (u32 tile = column * Rows; tile < l.total; tile += a.splits * Rows) {
    if (!__syncthreads_or(candidate && !dead)) break;
    others[t] = tile + t < l.total ? bounds_of<Centered>(l.boxes, l.taken[tile + t]) : BoxBounds::nothing();
    __syncthreads();
    const u32 n = candidate ? min(l.total - tile, Rows) : 0;
#pragma unroll 1
    for (u32 j = 0; j < n && !dead; j += 32)
      for (u32 bits = touching(mine.corners, others + j); bits && !dead; bits &= bits - 1)
        dead = overlap<Centered>(mine, others[j + __ffs(bits) - 1], l.boxes, threshold);
  }
  __syncwarp();
  const u32 bits = __ballot_sync(full_warp, dead);
  if (t % 32 == 0 && bits) atomicOr(a.dead + static_cast<u64>(line) * (Chunk / 32) + row / 32, bits);
}

struct Either {
  __device__ __forceinline__ u64 operator()(u64 x, u64 y) const { return x | y; }
};

/// Takes the rows of a chunk, and leaves `dead` at zero. Launch: a block of Chunk / 2 threads a line.
template <int Chunk> __device__ __forceinline__ void pick_chunk(const ChunkArgs& a) {
  constexpr u32 Words = Chunk / 64, Threads = Words * 32, Batch = 8;
  static_assert(Words <= 32, "a lane has a word of a row");
  __shared__ u64 taken_words[2][Words], open_words[2][Words];
  const u32 line = blockIdx.x, t = threadIdx.x, lane = t % 32, warp = t / 32;
  const LineSoFar l(a, line);
  if (l.ends_before(a)) {
    if (a.begin == 0 && t == 0) a.counts[line] = 0;
    return;
  }
  const u32 place = a.begin + warp * 64 + lane;
  const Item<u32> low = l.at(a, place), high = l.at(a, place + 32);
  // Words have a bit a row of the warp, and are the same in all lanes but where a lane has a word of other rows.
  u64 open = __ballot_sync(full_warp, low.key != 0xffffffffu) |
             static_cast<u64>(__ballot_sync(full_warp, high.key != 0xffffffffu)) << 32;
  u64 beaten = 0;                // those of the warp's rows that overlap one of the lane's
  if (open && lane <= warp) beaten = a.beaten[(static_cast<u64>(line) * Words + warp) * Words + lane];
  u32 dead = 0;
  if (lane < 2) {
    u32* const at = a.dead + static_cast<u64>(line) * (Chunk / 32) + warp * 2 + lane;
    if (a.begin) dead = *at;     // before the first chunk nothing was written
    *at = 0;
  }
  open &= ~(broadcast(dead, 0) | static_cast<u64>(broadcast(dead, 1)) << 32);
  const u64 bound = fold_lanes(beaten, Either());
  u64 taken = open & ~bound;
  open &= bound;
  u32 from = 0;
  if (lane == 0) taken_words[from][warp] = taken, open_words[from][warp] = open;

  const u64* const better = a.better + (static_cast<u64>(line) * Chunk + warp * 64) * Words;     // (64, Words)
  while (__syncthreads_or(open != 0)) {
    u64 taken_there = lane < warp ? taken_words[from][lane] : lane == warp ? taken : 0;
    u64 open_there = lane < warp ? open_words[from][lane] : lane == warp ? open : 0;
    for (u64 left = open; left;) {
      u64 word[Batch];
      u32 row[Batch];
#pragma unroll
      for (u32 i = 0; i < Batch; ++i, left &= left - 1) {
        row[i] = left ? __ffsll(left) - 1 : 64;
        word[i] = row[i] < 64 && (beaten >> row[i] & 1) ? better[row[i] * Words + lane] : 0;
      }
#pragma unroll
      for (u32 i = 0; i < Batch; ++i) {
        if (row[i] == 64) break;
        const bool ruled_out = __any_sync(full_warp, (word[i] & taken_there) != 0);
        if (!ruled_out && __any_sync(full_warp, (word[i] & open_there) != 0)) continue;
        open &= ~(1ull << row[i]);
        if (!ruled_out) taken |= 1ull << row[i];
        if (lane == warp) taken_there = taken, open_there = open;
      }
    }
    from ^= 1;                   // what others still read is not written over
    if (lane == 0) taken_words[from][warp] = taken, open_words[from][warp] = open;
  }

  u32 newly;
  const u32 before = sum_before<Threads>(__popcll(taken), newly), room = l.most - l.total;
  const u32 first = before + __popcll(taken & ((1ull << lane) - 1)), second = before + __popcll(taken & ((1ull << (lane + 32)) - 1));
  if ((taken >> lane & 1) && first < room) l.taken[l.total + first] = low.place;
  if ((taken >> lane >> 32 & 1) && second < room) l.taken[l.total + second] = high.place;
  if (t == 0) a.counts[line] = l.total + min(newly, room);
}
