// The constants and the argument of norm/group.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

struct GroupConfig {
  int lines, length, bundle;
  int vec, threads, vectors;    // bundle * length % vec == 0
  int blocks;                   // of a cluster, which are all parts of a bundle; 0: any number of parts, no cluster
  bool centred;
};

/// Of some elements: their mean, and the sum of their squared differences from it.
struct alignas(8) Moments {
  float mean, squares;
};

/// Tensors: x, y, the operands.
template <int Rank, int Tensors> struct GroupNormArgs {
  void* tensors[Tensors];       // (lines, bundle, length) each
  Moments* moments;             // [bundles, parts, bundle]; null where GroupConfig::blocks > 0
  Walk<Rank, Tensors> bundles;  // where a bundle begins in each tensor
  float epsilon;
};
static_assert(sizeof(GroupNormArgs<1, 2>) == 72);

}  // namespace smelt::kernels
