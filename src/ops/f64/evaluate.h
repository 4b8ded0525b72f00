// Whole models in float64: the oracle that tolerances are measured against.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

/// Interprets an imported graph with every f16, bf16 and f32 value as f64: inputs and constants are widened, casts to a
/// floating-point type become casts to f64, and the operators' references compute in double. Integers, bools, strings and
/// the 8-bit and narrower floats, whose rounding is meant, stay what they are. MatMul, Gemm, Conv and ConvTranspose run
/// blocked on `threads` threads (0: all), everything else in plain loops. `inputs` in the order of g.inputs(), of the
/// graph's own types or f64; the outputs are f64 where the graph's are floating-point. Constants are widened when they are
/// read and freed behind their reader, so memory is the largest layer's, not the model's.
std::vector<Tensor> evaluate_f64(const Graph& g, std::span<const Tensor> inputs, int threads = 0);

}  // namespace smelt::ops
