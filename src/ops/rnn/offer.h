// The recurrent networks' tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_recurrent_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_recurrent.cpp
/// "cpu": of f64, cpu_products.cpp.
void offer_recurrent_products(const BoundNode& b, const Machine& machine, Offer& offer);
void offer_recurrent_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_recurrent.cpp
/// "cuda": of DynamicQuantizeLSTM, cuda_quantized.cpp.
void offer_quantized_lstm_cuda(const BoundNode& b, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
