#include "ops/cpu/sums_pass.h"

#include <algorithm>

#include "ops/core/strides.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {

SumsInPlace::SumsInPlace(const BoundTensor& y, size_t column_axis, int threads)
    : rows_(without(y.shape, column_axis), without(memory_strides(y), column_axis)),
      count_(elements(without(y.shape, column_axis))),
      columns_(y.shape[column_axis]),
      threads_(threads) {}

void SumsInPlace::run(void* y, const igemm::Finish& finish) const {
  const float* sums = static_cast<const float*>(y);
  parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) finish.take({row, 1, 0, columns_, sums + rows_.offset(row), columns_, thread});
  });
}

int64_t IntegerSums::rows_at_a_time(int64_t rows) const {
  constexpr int64_t cached_sums = 1 << 17;  // half a megabyte for each core
  const int64_t most = std::max<int64_t>(1, threads_ * cached_sums / std::max<int64_t>(1, columns_));
  if (rows <= most) return rows;
  int64_t best = 1;
  for (int64_t d = 1; d <= most; ++d)
    if (rows % d == 0) best = d;
  // Smaller steps cost more to start than the cache gives back.
  return best * 2 >= most ? best : rows;
}

/// f(first row, rows, thread), for blocks that are read again from the L1 cache.
template <class F> void IntegerSums::by_blocks(int64_t rows, F&& f) const {
  constexpr int64_t block_sums = 4096;
  const int64_t block = std::clamp<int64_t>(block_sums / columns_, 1, 64);
  parallel(useful_threads(threads_, rows * columns_ / 2), rows, block, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; row += block) f(row, std::min(block, end - row), thread);
  });
}

void IntegerSums::run(const int32_t* sums, int64_t first_row, int64_t rows, const igemm::Finish& finish) const {
  by_blocks(rows, [&](int64_t row, int64_t count, int thread) {
    const float* here = reinterpret_cast<const float*>(sums + row * columns_);
    finish.take({first_row + row, count, 0, columns_, here, columns_, thread});
  });
}

void IntegerSums::add(int32_t* sums, int64_t rows, const int32_t* start) const {
  by_blocks(rows, [&, add = avx2::integer_rows().add_i32](int64_t row, int64_t count, int) {
    for (int64_t r = row; r < row + count; ++r) add(sums + r * columns_, start, columns_);
  });
}

}  // namespace smelt::ops
