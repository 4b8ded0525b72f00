// The tactic that every operator has: its reference, in plain loops.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Whether the reference can run this node: it has a definition, its tensors are plain and dense, no output is a string.
/// Nothing when it can, else the reason.
std::optional<std::string> reference_rejects(const BoundNode& node);

/// A kernel that calls OpDef::reference. Copies what it needs of `node`, which must pass reference_rejects.
std::unique_ptr<Kernel> reference_kernel(const BoundNode& node);

/// True for operators whose output element depends only on the input elements at its place (after broadcasting):
/// Relu, Add, Where, Cast, ai.smelt Pointwise, …; not the variadic Max, Min, Mean and Sum, which pass over the output once per
/// input.
bool is_elementwise(const Node& node);

}  // namespace smelt::ops
