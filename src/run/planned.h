// Segments with their kernels and memory, for given sizes, and the segments that follow for each outcome of theirs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "run/bound.h"
#include "run/shapes.h"

namespace smelt::run {

class PlanImpl;

struct Planned {
  Segment segment;
  std::vector<StepInfo> infos;                    // of its steps
  std::vector<Tensor> own;                        // memory of results that the caller gives none for; by result, made when needed
  std::map<ValueId, Tensor> known_outputs;        // graph outputs whose value is known before the run
  std::vector<ValueId> found;                     // made by dynamic steps: their sizes decide what follows
  std::shared_ptr<const Environment> after;       // null for the last segment
  /// By the types and shapes of `found`, in order.
  std::map<std::vector<std::pair<DType, Shape>>, std::unique_ptr<Planned>> next;
};

/// Outcomes of one segment that are kept; beyond that all are dropped and planned again when met.
inline constexpr size_t max_outcomes = 16;

/// Plans the next segment for what `env` knows, kernels and memory included.
std::unique_ptr<Planned> plan_next(const PlanImpl& plan, Environment env);
/// The first segment for inputs of these shapes.
std::unique_ptr<Planned> plan_first(const PlanImpl& plan, std::span<const Shape> inputs);

}  // namespace smelt::run
