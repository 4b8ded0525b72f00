// Convolutions whose extents divide by nothing, or that are all of one kind, for the tests of every kernel.
#pragma once

#include <vector>

#include "smelt/shape.h"

namespace smelt::test {

struct ConvGeometry {
  Shape x, w;
  std::vector<int64_t> stride = {1, 1}, pads = {0, 0, 0, 0};
};

inline const std::vector<ConvGeometry>& conv_geometries() {
  static const std::vector<ConvGeometry> all = {
      {{1, 64, 14, 14}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{2, 5, 9, 7}, {3, 5, 1, 1}},
      {{1, 3, 20, 17}, {8, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
      {{1, 17, 6, 5}, {33, 17, 3, 2}, {1, 2}, {1, 0, 0, 1}},
      {{1, 700, 3, 3}, {25, 700, 1, 1}},
      {{1, 40, 1, 1}, {10, 40, 1, 1}},
      {{3, 1, 4, 4}, {1, 1, 4, 4}},
      {{1, 350, 4, 5}, {40, 350, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 32, 10, 10}, {16, 32, 1, 1}, {2, 2}},
      {{1, 4, 6, 6}, {24, 4, 1, 1}, {2, 2}, {1, 1, 1, 1}},
  };
  return all;
}

}  // namespace smelt::test
