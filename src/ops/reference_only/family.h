// What conformance needs and nobody tunes: operators.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/operator.h"

namespace smelt::ops {

std::span<const OpRow> text_ops();         // strings
std::span<const OpRow> token_ops();        // regular expressions
std::span<const OpRow> contributed_ops();  // ONNX Runtime's own
std::span<const OpRow> random_ops();       // Random…, Bernoulli, Multinomial, Dropout
std::span<const OpRow> training_ops();     // one optimiser step

}  // namespace smelt::ops
