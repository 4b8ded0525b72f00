// What the verifier knows of the fused operators (docs/fused-ops.md): where operands begin, and what a program may read and give.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace smelt {

/// Whether docs/fused-ops.md defines an operator of this name in ai.smelt.
bool is_fused_operator(std::string_view op);

/// Position of the first operand of an ai.smelt node: inputs before it are the operator's own. Throws Error for an
/// operator that docs/fused-ops.md does not define.
size_t first_operand(const Node& n);

/// Element type that a program computes in over a result of type t: f64 for f64, f32 for everything else.
inline DType accumulator(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

/// Product i of an ai.smelt.JoinedMatMul as the ai.smelt.MatMul that it stands for.
Node product_of_joined(const Node& n, size_t i);

/// Checks an ai.smelt node against its definition; throws Error that names it.
void verify_fused(const Graph& g, NodeId id);

}  // namespace smelt
