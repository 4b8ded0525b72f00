// Softmax's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// The axes that are normalised together: before opset 13 all from the given one on.
std::vector<size_t> softmax_axes(const Node& node, int64_t rank);

void offer_softmax_rows(const BoundNode& b, const Machine& machine, Offer& offer);        // "cpu": cpu_softmax.cpp
void offer_softmax_onednn(const BoundNode& b, const Machine& machine, Offer& offer);      // "onednn": cpu_onednn.cpp
void offer_softmax_cuda(const BoundNode& b, const Machine& machine, Offer& offer);        // "cuda": cuda_softmax.cpp
void offer_softmax_bytes_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_quantized.cpp
void offer_loss_cpu(const BoundNode& b, const Machine& machine, Offer& offer);            // "cpu": cpu_loss.cpp
void offer_nll_loss_cpu(const BoundNode& b, const Machine& machine, Offer& offer);        // "cpu": cpu_nll_loss.cpp
void offer_loss_cuda(const BoundNode& b, const Machine& machine, Offer& offer);           // "cuda": cuda_loss.cpp

}  // namespace smelt::ops
