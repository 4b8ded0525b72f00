// The constants and the argument of reduce/reduce.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

struct ReduceConfig {
  bool rows;
  int vec;                      // elements of x0, x1, … that a thread loads at once
  int team;                     // threads that share a result: a power of two
  int side;                     // results (rows) or chunks of them (columns) of a block
  int parts;                    // of a result's values, each a block's
};

/// Tensors: the Inputs x0, x1, …, then the operands, then y.
template <int KeptRank, int ReducedRank, int Inputs, int Tensors> struct ReduceArgs {
  void* tensors[Tensors];       // x0, x1, … [kept…, reduced…]; the others [kept…]
  void* parts;                  // states [parts, kept chunks, results of a chunk]; null for one part
  i64 count;                    // values of a result
  Walk<KeptRank, Tensors> kept;
  Walk<ReducedRank, Inputs> reduced;
};
static_assert(sizeof(ReduceArgs<1, 1, 1, 2>) == 104);

}  // namespace smelt::kernels
