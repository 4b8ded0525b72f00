// A program over broadcast operands: what ai.smelt's Pointwise and Reduce share.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/core/function_body.h"
#include "ops/core/operator.h"

namespace smelt::ops {

/// The broadcast of inputs [from, to); nothing where a shape is not known. Throws where one is left out.
std::optional<Shape> operand_shape(const InferContext& c, size_t from, size_t to);
/// Throws unless `p` takes `own` inputs and then those of the node in [from, to), in their types.
void check_program(const expr::Program& p, const InferContext& c, size_t from, size_t to, size_t own);
/// The broadcast of all tensors' shapes.
Shape broadcast_shape(std::span<const Tensor> tensors);
/// The node's program; throws where it has none, or one without outputs.
const expr::Program& required_program(const Node& n);
/// In a function body, the program's outputs, each in the broadcast shape of all `inputs`, whichever of them it reads.
std::vector<ValueId> full_outputs(Body& b, const expr::Program& p, std::span<const ValueId> inputs);

}  // namespace smelt::ops
