// The tactics of ai.onnx.ml; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_trees_cpu(const BoundNode& b, const Machine& machine, Offer& offer);            // "cpu": cpu_trees.cpp
void offer_trees_cuda(const BoundNode& b, const Machine& machine, Offer& offer);           // "cuda": cuda_trees.cpp
void offer_row_models_cpu(const BoundNode& b, const Machine& machine, Offer& offer);       // "cpu": cpu_rows.cpp
void offer_label_encoder_cpu(const BoundNode& b, const Machine& machine, Offer& offer);    // "cpu": cpu_lookup.cpp
void offer_one_hot_encoder_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_lookup.cpp

void offer_features_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_features.cpp

}  // namespace smelt::ops
