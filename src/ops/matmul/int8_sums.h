// Where the kernels of 8-bit products on igemm put sums that nothing follows.
#pragma once

#include <algorithm>

#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::matmul {

/// Integer results: the sums themselves.
class StoreSums final : public igemm::Finish {
 public:
  StoreSums(int32_t* to, int64_t columns) : to_(to), columns_(columns) {}
  void take(const igemm::Sums& s) const override {
    for (int64_t r = 0; r < s.rows; ++r) {
      const int32_t* row = reinterpret_cast<const int32_t*>(s.sums + r * s.stride);
      std::copy_n(row, s.columns, to_ + (s.row + r) * columns_ + s.column);
    }
  }

 private:
  int32_t* to_;
  int64_t columns_;
};

}  // namespace smelt::ops::matmul
