// How threads share a tile's copies (common/tile_copy.cuh), for g++, which chooses tiles, and for NVRTC.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Whether all threads have copies of lines of `copies` copies each: of a whole line a thread each, or of a part of it all.
SMELT_SHARED constexpr bool all_threads_copy(i64 copies, i64 threads) {
  return copies <= threads ? threads % copies == 0 : copies % threads == 0;
}

}  // namespace smelt::kernels
