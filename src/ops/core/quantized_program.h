// What the problems of quantized products share: parameters as numbers, and the program that ends ONNX's QLinear operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "expr/program.h"
#include "smelt/tensor.h"

namespace smelt::ops {

/// The 8-bit integers that kernels multiply.
constexpr bool is_byte(DType t) { return t == DType::u8 || t == DType::i8; }

std::vector<float> quantized_floats(const Tensor& t);
std::vector<int32_t> quantized_integers(const Tensor& t);

/// Why kernels of exact 32-bit sums do not take products of these elements over `k` of them: other types than 8-bit integers, or
/// sums of 255 · 255 that may not fit. Nothing where they do.
std::optional<Refusal> rejects_sums(DType a, DType b, int64_t k);

/// y = saturate(round(in0) + zero), in0 already divided by y's scale.
expr::Program round_and_saturate(DType to, int32_t zero);

}  // namespace smelt::ops
