// What the problems of quantized products share: parameters as numbers, and the program that ends ONNX's QLinear operators.
#pragma once

#include <cstdint>
#include <vector>

#include "expr/program.h"
#include "smelt/tensor.h"

namespace smelt::ops {

std::vector<float> quantized_floats(const Tensor& t);
std::vector<int32_t> quantized_integers(const Tensor& t);

/// y = saturate(round(in0) + zero), in0 already divided by y's scale.
expr::Program round_and_saturate(DType to, int32_t zero);

}  // namespace smelt::ops
