// One arena for everything that lives during a run, from lifetimes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt::plan {

inline constexpr int64_t arena_alignment = 64;  // a cache line, and the widest vector load

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, both included
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of the alignment
  int64_t bytes = 0;             // the arena's size: the peak
};

/// Offsets such that no two blocks whose lifetimes meet overlap. Greedy by size: the largest block first, each into the
/// smallest gap that holds it among the blocks alive at the same time (Pisarchyk and Lee, "Efficient Memory Management for
/// Deep Neural Net Inference", 2020). Deterministic. O(n log n) in the number of blocks and of pairs that meet. Where more than 8
/// million pairs meet, it follows the steps instead: each block takes the smallest gap that is free when it begins.
ArenaPlan plan_arena(std::span<const Lifetime> blocks, int64_t alignment = arena_alignment);

}  // namespace smelt::plan
