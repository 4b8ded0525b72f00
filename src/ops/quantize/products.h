// Quantized products (product.cpp) and the QLinear forms of other operators (qlinear.cpp), for the family's table.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

void infer_qlinear_conv(InferContext& c);
void run_qlinear_conv(ComputeContext& c);
void infer_qlinear_matmul(InferContext& c);
void run_qlinear_matmul(ComputeContext& c);
void infer_qgemm(InferContext& c);
void run_qgemm(ComputeContext& c);

/// QLinearAdd and the like: dequantize, the plain operator in f32, quantize.
void infer_qlinear(InferContext& c);
void run_qlinear(ComputeContext& c);

}  // namespace smelt::ops
