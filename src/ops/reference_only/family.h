// What conformance needs and nobody tunes: operators.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

std::span<const OpDef> text_ops();      // strings
std::span<const OpDef> random_ops();    // Random…, Bernoulli, Multinomial, Dropout
std::span<const OpDef> signal_ops();    // DFT, STFT, windows
std::span<const OpDef> ml_ops();        // ai.onnx.ml
std::span<const OpDef> training_ops();  // one optimiser step

}  // namespace smelt::ops
