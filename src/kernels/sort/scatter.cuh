// Scattering rows in an order that does not depend on the threads'.
//
//   y [slots, width]        begins as the data
//   updates [rows, width]   row r goes to slot at(r); a slot of -1 is outside of the data and left out
//
// Without a reduction the last row of a slot wins, found by a maximum over row numbers. With one, rows are sorted by slot
// (sort.cuh) and each slot's are combined one after the other, first to last: what a loop over the rows gives, bit for bit.
#pragma once

#include "common/convert.cuh"
#include "movement/rows.cuh"
#include "sort/sort.cuh"

/// winners [slots], zero before: one more than the last row of each.
template <class At> __device__ __forceinline__ void mark_winners(u32* winners, u32 rows, const At& at) {
  const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const i64 slot = at(row);
  if (slot >= 0) atomicMax(winners + slot, row + 1);
}

/// A map of rows: winners go to their slots, others nowhere.
template <class At> struct Winning {
  const u32* winners;
  i64 width;
  At at;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const i64 slot = at(row);
    return {row * width, slot >= 0 && winners[slot] == row + 1 ? slot * width : -1};
  }
};

/// The rows as one line of keys; those outside come last.
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

/// Rows in the order of `sorted`: the first of a slot combines all of the slot's. A thread an element of a row.
template <class A, class Op, class T>
__device__ __forceinline__ void combine(const Item<u32>* sorted, const T* updates, T* y, u32 rows, Divider width) {
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= rows * width.divisor) return;
  const u32 i = width.quotient(number), c = number - i * width.divisor, slot = sorted[i].key;
  if (slot == 0xffffffffu || (i > 0 && sorted[i - 1].key == slot)) return;
  T* to = y + static_cast<u64>(slot) * width.divisor + c;
  A total = widened<A>(*to);
  for (u32 r = i; r < rows && sorted[r].key == slot; ++r)
    total = Op::of(total, widened<A>(updates[static_cast<u64>(sorted[r].place) * width.divisor + c]));
  *to = narrowed<T>(total);
}
