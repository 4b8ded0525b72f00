// Tables with an entry for every index of an axis, which are vectors: no account counts them, and an axis may be long.
#pragma once

#include "base/memory.h"

namespace smelt::ops {

/// Throws Error where the memory for one, of `each` bytes an index, could not be had.
inline void check_axis_table(int64_t extent, int64_t each = 8) {
  constexpr int64_t small = int64_t{1} << 20;
  if (extent > small) check_available(extent > INT64_MAX / each ? INT64_MAX : extent * each, DType::i64, {extent});
}

}  // namespace smelt::ops
