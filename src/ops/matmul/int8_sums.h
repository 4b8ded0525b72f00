// Where the kernels of 8-bit products on igemm put sums that nothing follows.
#pragma once

#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/short_lines.h"

namespace smelt::ops::matmul {

/// Integer results: the sums themselves.
class StoreSums final : public igemm::Finish {
 public:
  StoreSums(int32_t* to, int64_t columns) : to_(to), columns_(columns) {}
  void take(const igemm::Sums& s) const override {
    constexpr int64_t size = sizeof(int32_t);
    copy_lines(to_ + s.row * columns_ + s.column, s.sums, s.rows, s.columns * size, columns_ * size, s.stride * size);
  }

 private:
  int32_t* to_;
  int64_t columns_;
};

}  // namespace smelt::ops::matmul
