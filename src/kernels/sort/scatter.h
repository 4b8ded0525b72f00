// The arguments of sort/scatter.cuh.
#pragma once

#include "kernels/movement/rows.h"
#include "kernels/sort/sort.h"

namespace smelt::kernels {

/// Which row of updates each slot gets.
struct Winners {
  u32* of_slot;                 // [slots], zeros before: one more than the last row of each
  u32 rows;
  u32 padding;
};
static_assert(sizeof(Winners) == 16);

/// At: i64 operator()(u32 row): the slot that the row goes to; -1 for none.
template <class At> struct WinnersArgs {
  Winners winners;
  At at;
};

/// A map of rows (movement/rows.h): winners go to their slots, others nowhere.
template <class At> struct Winning {
  const u32* winners;           // [slots]
  i64 width;
  At at;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const i64 slot = at(row);
    return {row * width, slot >= 0 && winners[slot] == row + 1 ? slot * width : -1};
  }
#endif
};

/// T: the elements' type; void on the host.
template <class T> struct CombineArgs {
  const Item<u32>* sorted;      // [rows] of slots
  const T* updates;             // [rows, width]
  T* y;                         // [slots, width]
  Divider width;
  u32 rows;
};
static_assert(sizeof(CombineArgs<void>) == 40);

}  // namespace smelt::kernels
