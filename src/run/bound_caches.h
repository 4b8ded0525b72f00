// A caller's caches (smelt::Cache) as an Execution binds them: checked against the plan and against the other tensors.
#pragma once

#include <span>
#include <vector>

#include "plan/caches.h"
#include "run/plan.h"

namespace smelt::run {

/// A caller's Cache, checked against the plan.
struct BoundCache {
  plan::CacheForm form;
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
std::vector<plan::CacheForm> forms(std::span<const BoundCache> caches);

}  // namespace smelt::run
