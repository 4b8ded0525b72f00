// Where the rows of a matrix lie when the rows are the points of a grid: the pixels of a channels-last image, the rows of
// a batch of matrices, broadcast operands of either.
#pragma once

#include <cstdint>
#include <span>

#include "smelt/shape.h"

namespace smelt::ops::igemm {

class RowMap {
 public:
  RowMap() = default;
  /// Row i of the grid `extents` (row-major) begins at Σ index · stride, in elements. Adjacent axes are merged where they can be.
  RowMap(std::span<const int64_t> extents, std::span<const int64_t> strides);

  int64_t offset(int64_t row) const {
    if (axes_ == 1) return row * stride_[0];
    int64_t at = 0;
    for (int a = axes_ - 1; a > 0; --a) {
      at += row % extent_[a] * stride_[a];
      row /= extent_[a];
    }
    return at + row * stride_[0];
  }
  /// Rows are `step()` elements apart throughout.
  bool linear() const { return axes_ == 1; }
  int64_t step() const { return stride_[0]; }

  /// Offsets of the rows from `row` on, one after the other, without a division each.
  class Walk {
   public:
    Walk(const RowMap& map, int64_t row);
    int64_t offset() const { return at_; }
    void next();

   private:
    const RowMap& map_;
    int64_t index_[8] = {};
    int64_t at_ = 0;
  };

 private:
  int axes_ = 1;
  int64_t extent_[8] = {1}, stride_[8] = {};
};

}  // namespace smelt::ops::igemm
