// Selecting what is flagged, in its order (src/kernels/select/compact.cuh), as part of a kernel.
#pragma once

#include <functional>

#include "ops/cuda/launches.h"

namespace smelt::ops {

/// Flagged places and what is done with them.
struct Selection {
  std::string flag, put;              // the functors' types
  std::function<void(Launch&)> give;  // appends them
  int64_t extent = 0;
  size_t count = 1;  // the output that is the count

  /// Adds the launches of its kernels, one block's or those of tiles. `prefix` begins the kernels' names.
  void add_to(LaunchPlan& plan, bool tiles, const std::string& prefix = "") const;
};

/// Candidates of one block and of tiles, where they may be worth it. `moved`: bytes; `more_us`: what else is done, a guess.
void offer_selection(int64_t extent, double moved, const Gpu& gpu, Offer& offer,
                     const std::function<std::unique_ptr<Kernel>(bool tiles)>& make, double more_us = 0);

}  // namespace smelt::ops
