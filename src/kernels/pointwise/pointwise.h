// The constants and the argument of pointwise/pointwise.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

struct PointwiseConfig {
  int threads;                  // of a block
  int width;                    // elements of a chunk
};

/// Tensors: the inputs, then the outputs.
template <int Rank, int Tensors> struct PointwiseArgs {
  void* tensors[Tensors];
  Walk<Rank, Tensors> walk;
};

/// Bytes of a PointwiseArgs, for numbers that the host knows at run time only.
SMELT_SHARED constexpr u64 pointwise_bytes(int rank, int tensors) {
  return 8 * static_cast<u64>(tensors) + walk_bytes(rank, tensors);
}
static_assert(sizeof(PointwiseArgs<1, 2>) == pointwise_bytes(1, 2) && sizeof(PointwiseArgs<4, 60>) == pointwise_bytes(4, 60));

}  // namespace smelt::kernels
