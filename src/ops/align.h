// Where scratch memory is cut.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// The next multiple of 64: a cache line, and the widest vector load.
constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace smelt::ops
