// Convolution: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> conv_ops();          // Conv, ConvInteger, ConvTranspose, DeformConv, Col2Im, ONNX Runtime's FusedConv
std::span<const OpRow> qlinear_conv_ops();  // QLinearConv
std::span<const OpRow> fused_conv_ops();    // ai.smelt's Conv, QLinearConv, and these as first layers

extern const TacticFamily conv_family;    // offer.cpp
extern const TacticFamily stem_family;    // cuda_stem_fused.cpp
extern const TacticFamily col2im_family;  // cpu_col2im.cpp

}  // namespace smelt::ops
