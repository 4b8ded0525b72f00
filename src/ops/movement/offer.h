// Movement's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"
#include "ops/movement/windows.h"

namespace smelt::ops {

/// The outputs of a Transpose, Slice, Expand or Split as windows of its input.
std::vector<StridedWindow> windows_of(const BoundNode& b);
/// Why such a node has no prepared kernel; nothing where windows_of may be asked. `any_strides`: its tensors may lie in any way.
std::optional<Refusal> rejects_windows(const BoundNode& b, bool any_strides = false);

void offer_windows_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu": cpu_windows.cpp
void offer_blocks_cpu(const BoundNode& b, const Machine& machine, Offer& offer);    // "cpu": cpu_blocks.cpp
void offer_mapped_cpu(const BoundNode& b, const Machine& machine, Offer& offer);    // "cpu": cpu_mapped.cpp
void offer_windows_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_windows.cpp
void offer_pad_cuda(const BoundNode& b, const Machine& machine, Offer& offer);      // "cuda": cuda_pad.cpp

}  // namespace smelt::ops
