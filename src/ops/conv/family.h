// Convolution: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> conv_ops();          // Conv, ConvInteger, ConvTranspose, DeformConv, Col2Im, ONNX Runtime's FusedConv
std::span<const OpDef> qlinear_conv_ops();  // QLinearConv
std::span<const OpDef> fused_conv_ops();    // ai.smelt's Conv, QLinearConv

extern const TacticFamily conv_family;  // offer.cpp

}  // namespace smelt::ops
