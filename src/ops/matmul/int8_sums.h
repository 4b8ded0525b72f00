// Where the kernels of 8-bit products on igemm put sums that nothing follows.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::matmul {

/// Integer results: the sums themselves.
class StoreSums final : public igemm::Finish {
 public:
  StoreSums(int32_t* to, int64_t columns) : to_(to), columns_(columns) {}
  void take(const igemm::Sums& s) const override {
    for (int64_t r = 0; r < s.rows; ++r) {
      const int32_t* row = reinterpret_cast<const int32_t*>(s.sums + r * s.stride);
      copy(to_ + (s.row + r) * columns_ + s.column, row, s.columns);
    }
  }

 private:
  /// Short rows by pieces, the last of which copies some elements again: a call for each would take longer.
  static void copy(int32_t* to, const int32_t* from, int64_t n) {
    constexpr int64_t piece = 4, longest = 64;
    if (n > longest || n < piece) {
      std::copy_n(from, n, to);
      return;
    }
    for (int64_t i = 0; i + piece <= n; i += piece) std::memcpy(to + i, from + i, piece * sizeof(int32_t));
    std::memcpy(to + n - piece, from + n - piece, piece * sizeof(int32_t));
  }

  int32_t* to_;
  int64_t columns_;
};

}  // namespace smelt::ops::matmul
