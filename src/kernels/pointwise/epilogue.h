// The constants and the argument of pointwise/epilogue.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

struct EpilogueConfig {
  int width;                  // columns at a time
  int row_rank, batch_rank;   // axes that the rows and the batches have
};

/// Where the elements of y, which is tensor 0, and of the operands lie: begin + batches' offset + rows' offset + column * step.
template <int RowRank, int BatchRank, int Tensors> struct EpilogueArgs {
  void* begins[Tensors];
  Walk<RowRank, Tensors> rows;
  Walk<BatchRank, Tensors> batches;
  i64 steps[Tensors];         // elements from one column to the next
};

/// The argument of a kernel with an epilogue: its own, then that. Args' size is a multiple of 8.
template <class A, class Epilogue> struct WithEpilogue {
  A args;
  Epilogue epilogue;
};

/// Bytes of an EpilogueArgs, for numbers that the host knows at run time only.
SMELT_SHARED constexpr u64 epilogue_bytes(int row_rank, int batch_rank, int tensors) {
  return walk_bytes(row_rank, tensors) + walk_bytes(batch_rank, tensors) + 16 * static_cast<u64>(tensors);
}
static_assert(sizeof(EpilogueArgs<1, 1, 1>) == epilogue_bytes(1, 1, 1) &&
              sizeof(EpilogueArgs<2, 1, 3>) == epilogue_bytes(2, 1, 3) &&
              sizeof(EpilogueArgs<1, 3, 2>) == epilogue_bytes(1, 3, 2));

}  // namespace smelt::kernels
