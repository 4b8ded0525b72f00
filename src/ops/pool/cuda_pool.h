// A pooling as kernels for a GPU see it.
#pragma once

#include <string_view>

#include "ops/core/window.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops::pool {

struct Pooling {
  std::string_view kind;  // Pool's enumerator
  DType type;
  BoundTensor x, y, index;
  bool indexed = false, column_major = false;
  Window window;               // three axes
  bool channels_last = false;  // in x and y
  bool whole = false;          // the window is the plane
};

/// "cudnn": poolings of two axes, channels-last, without indices or dilation. After offer.problem is set.
void offer_cudnn(const Pooling& p, const Gpu& gpu, double estimate, Offer& offer);

}  // namespace smelt::ops::pool
