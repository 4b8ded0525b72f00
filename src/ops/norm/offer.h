// Normalisation's tactics; offer.cpp lists them.
#pragma once

#include "ops/norm/problem.h"

namespace smelt::ops {

/// "cpu": cpu_rows.cpp. False, and nothing offered, for what it does not know: residuals, programs, other parameters.
bool offer_plain_norm_rows(const BoundNode& b, const Machine& machine, Offer& offer);
/// "cpu": cpu_norm.cpp. A node that norm_unknown and norm_rows_apart have nothing against, without mean and deviation as outputs.
void offer_norm_rows(const BoundNode& b, const Machine& machine, Offer& offer);
/// "onednn": cpu_onednn.cpp, plain layer normalisation of such a node.
void offer_norm_onednn(const BoundNode& b, const Machine& machine, Offer& offer);

void offer_grouped_cpu(const BoundNode& b, const Machine& machine, Offer& offer);     // "cpu": cpu_grouped.cpp
void offer_lrn_cpu(const BoundNode& b, const Machine& machine, Offer& offer);         // "cpu": cpu_lrn.cpp
void offer_batch_norm_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_batch.cpp

/// "cpu": cpu_staged.cpp. LpNormalization and MeanVarianceNormalization.
void offer_lp_norm_cpu(const BoundNode& b, const Machine& machine, Offer& offer);
void offer_mean_variance_cpu(const BoundNode& b, const Machine& machine, Offer& offer);

/// "cuda": cuda_norm.cpp. A node that norm_unknown and norm_rows_apart have nothing against.
void offer_whole_rows_cuda(const BoundNode& b, const Gpu& gpu, Offer& offer);
/// "cuda": cuda_group_norm.cpp, rows in pieces. A node that norm_unknown has nothing against.
void offer_split_rows_cuda(const BoundNode& b, const Gpu& gpu, Offer& offer);
void offer_grouped_cuda(const BoundNode& b, const Machine& machine,
                        Offer& offer);  // "cuda": cuda_group_norm.cpp, GroupNormalization and InstanceNormalization
void offer_batch_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_batch.cpp
void offer_lp_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer);     // "cuda": cuda_lines.cpp
void offer_lrn_cuda(const BoundNode& b, const Machine& machine, Offer& offer);         // "cuda": cuda_lines.cpp

}  // namespace smelt::ops
