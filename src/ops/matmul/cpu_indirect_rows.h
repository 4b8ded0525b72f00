// Rows of a product's left operand, for the indirect product.
#pragma once

#include <vector>

#include "ops/cpu/igemm/igemm.h"
#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

/// Rows `map` apart, each contiguous.
class MatrixRows final : public igemm::Rows {
 public:
  MatrixRows(igemm::RowMap map, std::vector<igemm::Part> parts) : map_(map), parts_(std::move(parts)) {}
  void set(const float* base) { base_ = base; }
  void point(int64_t first, int64_t count, const float** to) const override {
    const size_t tile = parts_.size() * igemm::tile_rows;
    igemm::RowMap::Walk walk(map_, first);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      const float* row = base_ + walk.offset();
      const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
      for (size_t p = 0; p < parts_.size(); ++p) here[p * igemm::tile_rows] = row + parts_[p].offset;
    }
  }

 private:
  const float* base_ = nullptr;
  igemm::RowMap map_;
  std::vector<igemm::Part> parts_;
};

/// All rows of a left operand whose batch is part of M.
inline igemm::RowMap tall_rows(const Product& p) {
  Shape extents = p.batch, steps = p.a_steps;
  extents.push_back(p.problem.m / elements(p.batch));
  steps.push_back(p.a_row);
  return igemm::RowMap(extents, steps);
}

}  // namespace smelt::ops::matmul
