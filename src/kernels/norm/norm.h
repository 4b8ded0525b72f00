// The constants and the argument of norm/norm.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// What happens to a row in the L2 cache. Streamed: what is read and what is written is evicted first. Reread: the row is read
/// for the sums and again for the result; the cache is to keep it in between, and no register holds it.
enum class Traffic { plain, streamed, reread };

/// Tensors by their numbers in NormArgs; -1: there is none. x is 0.
struct NormConfig {
  int residual, sum, y, mean, inverse, operands;                            // operands: the first of them
  int width, vec, vectors;
  int y_access;                                                             // of store
  int threads;                                                              // of a row: a power of two, at least 4
  int rows;                                                                 // of a block
  bool centred;
  bool prefetches;                                                          // operands are loaded before the row is added up
  bool ahead;                                                               // they are constants: before the kernels before have ended
  Traffic traffic;
};

/// Tensors: x, then those that NormConfig numbers.
template <int Rank, int Tensors> struct NormArgs {
  void* tensors[Tensors];       // [rows…, width] each; mean and inverse [rows…]
  Walk<Rank, Tensors> rows;     // where a row begins in each tensor
  float epsilon;
};

/// Bytes of a NormArgs, for numbers that the host knows at run time only.
SMELT_SHARED constexpr u64 norm_bytes(int rank, int tensors) {
  return 8 * static_cast<u64>(tensors) + walk_bytes(rank, tensors) + 8;
}
static_assert(sizeof(NormArgs<1, 2>) == norm_bytes(1, 2) && sizeof(NormArgs<3, 60>) == norm_bytes(3, 60));

}  // namespace smelt::kernels
