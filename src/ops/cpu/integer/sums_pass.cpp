#include "ops/cpu/integer/sums_pass.h"

#include <algorithm>

#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::integer {

int64_t SumsPass::rows_at_a_time(int64_t rows) const {
  constexpr int64_t cached_sums = 1 << 17;  // half a megabyte for each core
  const int64_t most = std::max<int64_t>(1, threads_ * cached_sums / std::max<int64_t>(1, columns_));
  if (rows <= most) return rows;
  int64_t best = 1;
  for (int64_t d = 1; d <= most; ++d)
    if (rows % d == 0) best = d;
  // Smaller steps cost more to start than the cache gives back.
  return best * 2 >= most ? best : rows;
}

void SumsPass::run(int32_t* sums, int64_t first_row, int64_t rows, const int32_t* start, const Epilogue::Runner* finish) const {
  if (!start && !finish) return;
  constexpr int64_t block_sums = 4096;  // read again from the L1 cache
  const int64_t block = std::clamp<int64_t>(block_sums / columns_, 1, 64);
  const auto add = avx2::integer_rows().add_i32;
  parallel(useful_threads(threads_, rows * columns_ / 2), rows, block, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; row += block) {
      const int64_t count = std::min(block, end - row);
      int32_t* here = sums + row * columns_;
      if (finish) {
        finish->take({first_row + row, count, 0, columns_, reinterpret_cast<const float*>(here), columns_, thread}, start);
      } else {
        for (int64_t r = 0; r < count; ++r) add(here + r * columns_, start, columns_);
      }
    }
  });
}

}  // namespace smelt::ops::integer
