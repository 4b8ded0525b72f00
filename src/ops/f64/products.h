// MatMul, Gemm, Conv and ConvTranspose of double tensors through the blocked product.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops::f64 {

/// The result of a product node whose floating-point inputs are all f64; nothing (not valid()) for every other operator,
/// and for products that blocking does not help (depthwise convolutions).
Tensor product(const Node& node, std::span<const Tensor> inputs, int threads);

}  // namespace smelt::ops::f64
