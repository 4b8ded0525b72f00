// Extents of a grid, counted in 64 bits.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace smelt::device::cuda {

/// So many blocks along x, of which a grid has at most 2^31 - 1. Throws Error for more.
inline unsigned grid_x(int64_t blocks) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  if (blocks < 0 || blocks > most) fail("{} blocks, a grid has at most {} along x", blocks, most);
  return static_cast<unsigned>(blocks);
}

/// Along y or z, where a grid has at most 65535. Throws Error for more.
inline unsigned grid_yz(int64_t blocks) {
  constexpr int64_t most = 65535;
  if (blocks < 0 || blocks > most) fail("{} blocks, a grid has at most {} along y and z", blocks, most);
  return static_cast<unsigned>(blocks);
}

}  // namespace smelt::device::cuda
