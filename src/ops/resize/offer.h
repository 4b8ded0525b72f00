// Resizing's tactics, the list of those on the processor, and what they share.
#pragma once

#include <string>
#include <vector>

#include "ops/core/family.h"
#include "ops/movement/mapped_axes.h"
#include "ops/resize/resize.h"

namespace smelt::ops {

/// resize_axes of a bound Resize or Upsample; refused where its scales or sizes are not known before the run.
/// Tensors that exporters leave empty count as left out.
Result<std::vector<ResizeAxis>> known_resize_axes(const BoundNode& b);
/// The axes of a nearest Resize or Upsample, and what lies outside of a region of interest.
Result<PaddedAxes> nearest_axes(const BoundNode& b);

void offer_nearest_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_nearest.cpp, channels-last images
void offer_interpolated_cpu(const BoundNode& b, const Machine& machine,
                            Offer& offer);  // "cpu": cpu_interpolated.cpp, linear and cubic
void offer_separable_cpu(const BoundNode& b, const Machine& machine,
                         Offer& offer);  // "cpu": cpu_separable.cpp, what interpolated does not take

/// Of Resize and Upsample on the processor: all of them, in the order in which they are offered.
inline constexpr OfferTactics cpu_resize_tactics[] = {offer_nearest_cpu, offer_interpolated_cpu};

void offer_grid_sample_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_grid.cpp

void offer_affine_grid_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_affine_grid.cpp

void offer_nearest_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_nearest.cpp
void offer_interpolation_cuda(const BoundNode& b, const Machine& machine,
                              Offer& offer);  // "cuda": cuda_resize.cpp, linear and cubic
void offer_grid_sample_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_grid.cpp
void offer_affine_grid_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_affine_grid.cpp

}  // namespace smelt::ops
