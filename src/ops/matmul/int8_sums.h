// What kernels of 8-bit products on igemm share: where the sums go, and how the rows of the left operand lie.
#pragma once

#include <algorithm>

#include "ops/cpu/igemm/igemm.h"
#include "ops/matmul/problem.h"

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

/// The rows of the left operand as a grid, where the right one has no batch: its batch axes, then its rows.
inline Shape row_grid(const Product& p) {
  Shape s = p.batch;
  s.push_back(p.problem.m / std::max<int64_t>(1, elements(p.batch)));
  return s;
}
inline Shape row_steps(const Product& p) {
  Shape s = p.a_steps;
  s.push_back(p.a_row);
  return s;
}

}  // namespace smelt::ops::matmul
