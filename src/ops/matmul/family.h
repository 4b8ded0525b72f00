// The matrix product: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> matmul_ops();          // MatMul, Gemm, MatMulInteger and ONNX Runtime's fused forms
std::span<const OpDef> qlinear_matmul_ops();  // QLinearMatMul, QGemm
std::span<const OpDef> fused_matmul_ops();    // ai.smelt's MatMul, QLinearMatMul

extern const TacticFamily matmul_family;  // offer.cpp

}  // namespace smelt::ops
