// Resizing and sampling of images: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> sample_ops();  // Resize, GridSample, AffineGrid

extern const TacticFamily resize_family;  // offer.cpp

}  // namespace smelt::ops
