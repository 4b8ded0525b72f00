// Pixels taken by a list of places, all channels of a pixel at once. For *.simd.cpp sources and ops/.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// Channels to a block: a pixel's channels are padded to whole blocks.
inline constexpr int64_t tap_block = 16;

/// Folds weights[k] · pixels[places[k] · channels + c] over k < taps into to[c], for `channels`, a multiple of tap_block.
using FoldTaps = void (*)(const float* pixels, const int64_t* places, const float* weights, int64_t taps, int64_t channels,
                          float* to);
struct TapSimd {
  FoldTaps sum;
  FoldTaps largest;  // a NaN that is not the first is passed over; of no taps, 0
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::TapSimd& tap_simd();
}
namespace smelt::avx2 {
const ops::TapSimd& tap_simd();
}
