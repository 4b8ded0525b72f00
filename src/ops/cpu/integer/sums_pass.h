// 32-bit sums that a library's product left in memory, on their way to the result.
#pragma once

#include "ops/cpu/integer/epilogue.h"

namespace smelt::ops::integer {

class SumsPass {
 public:
  SumsPass(int64_t columns, int threads) : columns_(columns), threads_(threads) {}

  /// Bytes that the sums of so many rows take; vectors of the last row may be read as a whole.
  int64_t bytes(int64_t rows) const { return (rows * columns_ * 4 + 127) / 64 * 64; }
  /// Of `rows`, how many to make at a time, so that they stay in the cores' caches: a divisor of it.
  int64_t rows_at_a_time(int64_t rows) const;
  /// Adds start[column] to rows [0, rows) of `sums` (null: adds nothing), then gives them to `finish` as those from `first_row`
  /// on (null: they are the result).
  void run(int32_t* sums, int64_t first_row, int64_t rows, const int32_t* start, const Epilogue::Runner* finish) const;

 private:
  int64_t columns_;
  int threads_;
};

}  // namespace smelt::ops::integer
