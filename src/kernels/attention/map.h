// The argument of attention/map.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct MapArgs {
  u8* map;               // [batches, heads, groups of rows, tiles of keys]
  u32 heads, rows, keys;
  u32 padding;
};
static_assert(sizeof(MapArgs) == 24);

}  // namespace smelt::kernels
