// Taking the pointwise nodes that read a fused operator's result into its program.
#pragma once

#include <functional>

#include "base/value_of.h"
#include "fuse/match/compose.h"
#include "fuse/match/match.h"

namespace smelt::fuse {

struct EpilogueLimits {
  size_t operands = 8;                  // tensors read beside the accumulator
  int operations = 64;                  // instructions
  size_t steps = 32;                    // nodes
  std::function<bool(ValueId)> accept;  // which further tensors may be read; empty: all
  bool bytes = false;                   // go on through values of 8 bits
};

struct Epilogue {
  std::vector<NodeId> nodes;       // taken in, in topological order
  ValueId result = ValueId::none;  // what the operator gives now
  Body composition;
  std::optional<Refusal> stopped;  // why it went no further; nothing where it reached the limit of steps

  /// `stopped` where it is known to be there: with no node taken in it is. Throws Error otherwise.
  const Refusal& refusal() const { return value_of(stopped, "why an epilogue went no further"); }
};

/// Follows the readers of base.value: a pointwise node is taken in while the value it reads has no reader outside what is taken
/// in, its result has the same shape (proven, also for symbolic shapes), and its other operands broadcast to it. A small operand
/// that one cheap node makes of another (1 + scale) is computed inside too. With no node taken in, `result` is base.value.
Epilogue absorb(const Graph& g, const Base& base, const EpilogueLimits& limits = {});

/// The base of an ai.smelt node as it is: its first output, its program and its operands.
Base base_of(const Graph& g, NodeId fused);

/// What the nodes taken in do to the operator's result, in order: "bias + gelu", "bias + residual + relu". A constant that is
/// added is a bias, a computed tensor of the result's shape a residual; other nodes go by their operators' names, regions by
/// their last function's.
std::string form_of(const Graph& g, const std::vector<NodeId>& own, const Epilogue& epilogue);

/// The match that gives `fused` the epilogue: its program, its operands behind its own first inputs, and its result as output 0.
/// `own` are the nodes that stand for the operator itself (the fused node, or the ones it is made of).
Match with_epilogue(const Graph& g, std::vector<NodeId> own, Node fused, size_t first_operand, const Epilogue& epilogue);

}  // namespace smelt::fuse
