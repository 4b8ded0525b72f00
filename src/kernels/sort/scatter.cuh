// Scatters rows in an order that does not depend on which thread runs first.
//
//   y [slots, width]        begins as the data
//   updates [rows, width]   row r goes to slot at(r); a slot of -1 is outside of the data and left out
//
// Without a reduction the last row of a slot wins; a maximum over row numbers finds it. With a reduction, rows are sorted by slot
// (sort.cuh), and the rows of a slot are combined one after the other, first to last. A loop over the rows gives the same bits.
#pragma once

#include "common/convert.cuh"
#include "kernels/sort/scatter.h"
#include "movement/rows.cuh"
#include "sort/sort.cuh"

/// Finds the last row of each slot. A thread a row.
template <class At> __device__ __forceinline__ void mark_winners(const WinnersArgs<At>& a) {
  const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= a.winners.rows) return;
  const i64 slot = a.at(row);
  if (slot >= 0) atomicMax(a.winners.of_slot + slot, row + 1);
}

/// Gives the rows as one line of keys, their slots; rows that go nowhere come last.
template <class At> struct BySlot {
  using Key = u32;
  At at;
  __device__ __forceinline__ Item<u32> operator()(u32, u32 row) const {
    const i64 slot = at(row);
    return {slot < 0 ? 0xffffffffu : static_cast<u32>(slot), row};
  }
};

template <class A> struct Add {
  static __device__ __forceinline__ A of(A a, A b) { return a + b; }
};
template <class A> struct Mul {
  static __device__ __forceinline__ A of(A a, A b) { return a * b; }
};
template <class A> struct Larger {
  static __device__ __forceinline__ A of(A a, A b) { return a < b || b != b ? b : a; }
};
template <class A> struct Smaller {
  static __device__ __forceinline__ A of(A a, A b) { return b < a || b != b ? b : a; }
};

/// Takes rows in the order of `sorted`: the first row of a slot combines all rows of the slot. A thread an element of a row.
template <class A, class Op, class T> __device__ __forceinline__ void combine(const CombineArgs<T>& a) {
  const Item<u32>* const sorted = a.sorted;                                 // (rows)
  const Divider& width = a.width;
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= a.rows * width.divisor) return;
  const u32 i = width.quotient(number), c = number - i * width.divisor, slot = sorted[i].key;
  if (slot == 0xffffffffu || (i > 0 && sorted[i - 1].key == slot)) return;
  T* to = a.y + static_cast<u64>(slot) * width.divisor + c;
  A total = widened<A>(*to);
  for (u32 r = i; r < a.rows && sorted[r].key == slot; ++r)
    total = Op::of(total, widened<A>(a.updates[static_cast<u64>(sorted[r].place) * width.divisor + c]));
  *to = narrowed<T>(total);
}
