// Where scratch memory is cut.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// The next multiple of 64: a cache line, and the widest vector load.
constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
/// The next multiple of 256, what the driver's own blocks are aligned to: the widest that a library asks for.
constexpr int64_t device_aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace smelt::ops
