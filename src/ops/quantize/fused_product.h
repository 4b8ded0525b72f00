// What ai.smelt's 8-bit convolution and matrix product share: exact sums for their references, quantised operands in their
// function bodies.
#pragma once

#include "ops/core/function_body.h"
#include "smelt/tensor.h"

namespace smelt::ops {

/// v - zero as 64-bit integers in f64, where every sum of products of 8-bit integers is exact. zero [M] lies along `axis`.
Tensor less_zero_point(const Tensor& v, const Tensor& zero, int64_t axis);
/// float(sum) · (scale_a · scale_b), the second scale along `axis` where it has more than one value.
Tensor scaled_sum(const Tensor& sum, const Tensor& a, const Tensor& b, int64_t axis);

/// Integer operators take unsigned activations everywhere: a signed one is moved up by 128, its zero point too.
ValueId unsigned_activation(Body& b, ValueId x);
/// The zero point at `input`, 0 where it is left out.
ValueId zero_point(Body& b, size_t input, DType of);
/// The scales' product, in f32.
ValueId scale_product(Body& b, ValueId x, ValueId w);

}  // namespace smelt::ops
