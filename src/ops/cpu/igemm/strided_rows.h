// Rows of a left operand that lie in memory as a RowMap says it, each contiguous; for the indirect product.
#pragma once

#include <vector>

#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::igemm {

class StridedRows final : public Rows {
 public:
  StridedRows(RowMap map, std::vector<Part> parts) : map_(map), parts_(std::move(parts)) {}
  void set(const float* base) { base_ = base; }
  void point(int64_t first, int64_t count, const float** to) const override {
    const size_t tile = parts_.size() * tile_rows;
    if (map_.linear() && parts_.size() == 1) {
      const float* row = base_ + map_.offset(first) + parts_[0].offset;
      for (int64_t i = 0; i < count; ++i, row += map_.step()) to[i] = row;  // tiles are tile_rows pointers apart
      return;
    }
    RowMap::Walk walk(map_, first);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      const float* row = base_ + walk.offset();
      const float** here = to + static_cast<size_t>(i / tile_rows) * tile + i % tile_rows;
      for (size_t p = 0; p < parts_.size(); ++p) here[p * tile_rows] = row + parts_[p].offset;
    }
  }

 private:
  const float* base_ = nullptr;
  RowMap map_;
  std::vector<Part> parts_;
};

}  // namespace smelt::ops::igemm
