// Inputs and outputs that are one buffer: what `past` holds, `present` holds too, and more.
#pragma once

#include <span>
#include <vector>

#include "run/bound.h"
#include "run/plan.h"

namespace smelt::run {

/// What a plan for such a pair depends on: that there is one, and how far apart its elements lie.
struct CacheForm {
  ValueId past, present;
  Shape strides;  // of both, along present's axes
  bool operator==(const CacheForm&) const = default;
};

/// A caller's Cache, checked against the plan.
struct BoundCache {
  CacheForm form;
  Tensor memory;
  size_t input = 0, output = 0;  // positions in the plan's inputs and outputs
  Tensor past;                   // of the past's shape: its elements lie as the form says, not as a Tensor's
};

/// Throws Error (usage), as Execution::bind says.
std::vector<BoundCache> bind_caches(const PlanImpl& plan, std::span<const Cache> caches);
/// Throws Error (usage) where a cache's memory overlaps another tensor, or another cache's.
void check_apart(const PlanImpl& plan, std::span<const BoundCache> caches, std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs);
/// Throws Error (usage) where a present of this shape does not fit the cache's memory.
void check_room(const PlanImpl& plan, const BoundCache& cache, const Shape& present);
/// The tensors in the plan's order, with the pasts of caches in their places.
std::vector<Tensor> with_pasts(std::span<const Tensor> inputs, std::span<const BoundCache> caches);
std::vector<CacheForm> forms(std::span<const BoundCache> caches);

/// Tells the segment which pairs share memory (Segment::caches), with the strides that they have there. Who reads one, but for
/// the Concat, reads a dense copy: assign_views leaves it out where the reader follows strides. After assign_layouts. Throws
/// Error (unsupported) where the Concat is no step of the segment's.
void place_caches(Segment& s, std::span<const CacheForm> caches);

}  // namespace smelt::run
