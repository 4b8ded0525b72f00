// Two products of one input of which the first, the gate, has the second in its program: silu(x · gate) * (x · up). A GPU's kernel
// multiplies both at once, and neither is written.
#pragma once

#include "smelt/tensor.h"

namespace smelt::ops::matmul {

/// Attribute of an ai.smelt.MatMul that is both, and whose constant b holds the weights of both (gated_weights): the input of its
/// program that is the second product. The node has no such operand.
inline constexpr const char* gate_attribute = "gate";

constexpr int64_t gate_columns = 64;

/// [K, N] and [K, N] as [K, 2 N]: 64 columns of each in turn. N is a multiple of 64, both have one type.
Tensor gated_weights(const Tensor& gate, const Tensor& up);

}  // namespace smelt::ops::matmul
