// The matrix product: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> matmul_ops();          // MatMul, Gemm, MatMulInteger and ONNX Runtime's fused forms
std::span<const OpRow> qlinear_matmul_ops();  // QLinearMatMul, QGemm
std::span<const OpRow> fused_matmul_ops();    // ai.smelt's MatMul, QLinearMatMul, BlockMatMul

extern const TacticFamily matmul_family;  // offer.cpp

}  // namespace smelt::ops
