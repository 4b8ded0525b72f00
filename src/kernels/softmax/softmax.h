// The argument of softmax/softmax.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// T: the elements' type. State: what a row's blocks leave for each other. Both are void on the host.
template <class T, class State, int Rank> struct SoftmaxArgs {
  const T* x;                   // [rows…, width]; columns: [columns…, width]
  T* y;                         // like x
  State* parts;                 // [rows, blocks of a row]; null where a row has one block
  i64 from, to;                 // elements from one of a row to the next in x and in y
  Walk<Rank, 2> rows;           // where a row (or a column) begins in x and in y
  u32 width;
};
static_assert(sizeof(SoftmaxArgs<void, void, 1>) == 88);

}  // namespace smelt::kernels
