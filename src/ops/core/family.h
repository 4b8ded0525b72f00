// A family: operators with a choice of kernels. It has a room, src/ops/FAMILY/:
//
//   family.h             declares its operator tables and its TacticFamily, which src/ops/registry lists
//   FAMILY.cpp, …        the operator tables: a row an operator, its rule for types and shapes, its reference
//   offer.h, offer.cpp   its tactics, all of them: which operators they compute, on the processor and on a GPU
//   problem.h            what is computed, where a node alone does not say it
//   cpu_ALGORITHM.cpp, cuda_ALGORITHM.cpp   a tactic each
#pragma once

#include <span>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Adds candidates and rejections, and sets offer.problem where the family has its own form of it. ops::offer adds the reference.
using OfferTactics = void (*)(const BoundNode& node, const Machine& machine, Offer& offer);

/// Operators that the same tactics compute.
struct OperatorTactics {
  bool (*handles)(const Node& node);
  OfferTactics cpu;   // null: only the reference runs there
  OfferTactics cuda;  // machine.gpu is set; null: there is no kernel
  /// Constant f32 inputs decide which elements its kernels read, as Resize's scales do: problems name their values.
  bool by_float_inputs = false;
  /// Its kernels on the processor are others, or take other times, where inputs are constant: problems say which are.
  bool by_constants = false;
};

struct TacticFamily {
  std::span<const OperatorTactics> operators;
  /// Its kernels like channels-last images: where a node's are plain, they are offered with reorders around them too.
  bool images = false;
};

}  // namespace smelt::ops
