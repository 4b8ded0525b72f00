#include "ops/cpu/igemm/row_map.h"

#include "base/error.h"

namespace smelt::ops::igemm {

RowMap::RowMap(std::span<const int64_t> extents, std::span<const int64_t> strides) {
  int n = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    if (n > 0 && stride_[n - 1] == strides[i] * extents[i]) {
      extent_[n - 1] *= extents[i];
      stride_[n - 1] = strides[i];
      continue;
    }
    if (n == 8)
      fail_unsupported("a grid of rows {} with more than 8 axes that cannot be merged",
                       to_string(Shape(extents.begin(), extents.end())));
    extent_[n] = extents[i];
    stride_[n++] = strides[i];
  }
  axes_ = n == 0 ? 1 : n;
}

RowMap::Walk::Walk(const RowMap& map, int64_t row) : map_(map), at_(map.offset(row)) {
  for (int a = map.axes_ - 1; a > 0; --a) {
    index_[a] = row % map.extent_[a];
    row /= map.extent_[a];
  }
  index_[0] = row;
}

void RowMap::Walk::next() {
  for (int a = map_.axes_ - 1; a > 0; --a) {
    at_ += map_.stride_[a];
    if (++index_[a] < map_.extent_[a]) return;
    at_ -= map_.stride_[a] * map_.extent_[a];
    index_[a] = 0;
  }
  at_ += map_.stride_[0];
}

}  // namespace smelt::ops::igemm
