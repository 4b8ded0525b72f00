// Sums that a library's product left in memory, on their way to the result: CpuEpilogue over them, by all threads.
#pragma once

#include "ops/core/tactic.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops {

/// Float sums that lie where the result will.
class SumsInPlace {
 public:
  /// `y`: what the product wrote (f32, its columns along `column_axis` adjacent) and the program replaces.
  SumsInPlace(const BoundTensor& y, size_t column_axis, int threads);
  void run(void* y, const igemm::Finish& finish) const;

 private:
  igemm::RowMap rows_;
  int64_t count_, columns_;
  int threads_;
};

/// Dense rows of 32-bit sums, made some at a time.
class IntegerSums {
 public:
  IntegerSums(int64_t columns, int threads) : columns_(columns), threads_(threads) {}

  /// Bytes that the sums of so many rows take; vectors of the last row may be read as a whole.
  int64_t bytes(int64_t rows) const { return (rows * columns_ * 4 + 127) / 64 * 64; }
  /// Of `rows`, how many to make at a time, so that they stay in the cores' caches: a divisor of it.
  int64_t rows_at_a_time(int64_t rows) const;
  /// Gives rows [0, rows) of `sums` to `finish` as those from `first_row` on.
  void run(const int32_t* sums, int64_t first_row, int64_t rows, const igemm::Finish& finish) const;
  /// Adds start[column] to rows [0, rows) of `sums`, which are the result.
  void add(int32_t* sums, int64_t rows, const int32_t* start) const;

 private:
  template <class F> void by_blocks(int64_t rows, F&& f) const;
  int64_t columns_;
  int threads_;
};

}  // namespace smelt::ops
