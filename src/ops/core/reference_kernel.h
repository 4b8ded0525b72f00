// The tactic that every operator has: its reference, in plain loops.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Whether the reference can run this node: it has a definition, its tensors are plain and dense, no output is a string.
/// Nothing when it can, else the reason.
std::optional<Refusal> reference_rejects(const BoundNode& node);

/// A kernel that calls OpDef::reference. Copies what it needs of `node`, which must pass reference_rejects.
std::unique_ptr<Kernel> reference_kernel(const BoundNode& node);

/// True for pointwise operators that the expression language has and that draw no random numbers: kernels take their operands
/// in any layout, and output 0 may be the memory of an operand. ai.smelt Pointwise, Relu, Add, Sum, Where, Cast, …; not Dropout,
/// and none without an expression (BitCast).
bool is_elementwise(const Node& node);

}  // namespace smelt::ops
