// The geometry of Col2Im.
#pragma once

#include "ops/core/tactic.h"
#include "ops/core/window.h"

namespace smelt::ops {

struct Blocks {
  Shape image, places;
  Window window;
  int64_t channels = 0;
};

/// Of columns x [N, C · block, L]. Throws Error where they do not fit the image.
Blocks blocks_of(const Node& node, const Shape& x, const Shape& image, const Shape& block);

void offer_col2im_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_col2im.cpp

}  // namespace smelt::ops
