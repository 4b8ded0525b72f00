// Attention's tactics; offer.cpp lists them, those of one kernel on a GPU are in cuda_attention.h.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_attention_products(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": of f64, cpu_products.cpp
void offer_attention_cpu(const BoundNode& b, const Machine& machine, Offer& offer);       // "cpu": cpu_attention.cpp
void offer_general_attention_cuda(const BoundNode& b, const Machine& machine,
                                  Offer& offer);  // "cuda": cuda_general.cpp, ONNX's Attention as it is
void offer_rotary_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_rotary.cpp
void offer_rotary_operator_cpu(const BoundNode& b, const Machine& machine,
                               Offer& offer);  // "cpu": cpu_rotary_operator.cpp, ONNX's and ONNX Runtime's as they are
void offer_rotary_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_rotary.cpp

}  // namespace smelt::ops
