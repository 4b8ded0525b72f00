// Evaluating a program over whole tensors: operands broadcast to the outputs' shape.
#pragma once

#include <span>
#include <vector>

#include "expr/program.h"
#include "smelt/tensor.h"

namespace smelt::ops {

/// One tensor of shape `shape` for each of the program's outputs. inputs[i] has the type of the program's input i and
/// broadcasts to `shape`; throws Error otherwise.
std::vector<Tensor> evaluate_program(const expr::Program& p, std::span<const Tensor> inputs, const Shape& shape);

}  // namespace smelt::ops
