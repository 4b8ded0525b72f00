// Extents of a grid, counted in 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace smelt::device::cuda {

/// Blocks along x, of which a grid has at most 2^31 - 1, y and z, at most 65535 each. Throws Error for more.
class Grid {
 public:
  Grid(int64_t x = 1, int64_t y = 1, int64_t z = 1)
      : extents_{counted(x, (int64_t{1} << 31) - 1, 'x'), counted(y, 65535, 'y'), counted(z, 65535, 'z')} {}
  unsigned operator[](size_t axis) const { return extents_[axis]; }

 private:
  static unsigned counted(int64_t blocks, int64_t most, char axis) {
    if (blocks < 0 || blocks > most) fail("{} blocks, a grid has at most {} along {}", blocks, most, axis);
    return static_cast<unsigned>(blocks);
  }
  unsigned extents_[3];
};

}  // namespace smelt::device::cuda
