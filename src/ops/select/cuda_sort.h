// Sorting on a GPU (src/kernels/sort/sort.cuh): what TopK, scattering with a reduction, Unique and NonMaxSuppression share.
#pragma once

#include <functional>
#include <string>

#include "ops/cuda/launches.h"

namespace smelt::ops {

struct LineSort {
  std::string source;                 // the functor that gives the items: "AlongAxis<float, true>"
  std::function<void(Launch&)> give;  // appends it
  int64_t lines = 1, extent = 1;      // below 2^31 in all
  int64_t keep = 1;                   // of each line's first
  int64_t key_bytes = 4;
  int64_t blocks = 1;  // that are to share the work: tiles are halved, down to 1024 items, while there are fewer

  std::string_view key() const { return key_bytes == 4 ? "u32" : "u64"; }
  int64_t item_bytes() const { return key_bytes == 4 ? 8 : 16; }
  /// Items that a block sorts.
  int64_t tile() const;
  int64_t tiles() const { return (extent + tile() - 1) / tile(); }
  static unsigned threads(int64_t tile);
  /// Adds the launches of its kernels; returns where [lines, keep] items lie. `prefix` begins the kernels' names.
  BufferRef add_to(LaunchPlan& plan, const std::string& prefix) const;
};

}  // namespace smelt::ops
