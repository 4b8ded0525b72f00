#include "ops/cpu/rows/simd/taps.h"
#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

constexpr int64_t block = ops::tap_block;
constexpr int registers = block / lanes;

template <bool largest>
void fold(const float* pixels, const int64_t* places, const float* weights, int64_t taps, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; c += block) {
    F32 sums[registers];
    for (F32& s : sums) s = F32(0);
    for (int64_t k = 0; k < taps; ++k) {
      const float* pixel = pixels + places[k] * channels + c;
      const F32 weight = splat(weights[k]);
      for (int r = 0; r < registers; ++r) {
        const F32 v = load(pixel + r * lanes);
        if constexpr (largest)
          sums[r] = k == 0 ? v * weight : raw_max(v * weight, sums[r]);
        else
          sums[r] = fma(v, weight, sums[r]);
      }
    }
    for (int r = 0; r < registers; ++r) store(to + c + r * lanes, sums[r]);
  }
}

}  // namespace

const ops::TapSimd& tap_simd() {
  static constexpr ops::TapSimd table = {fold<false>, fold<true>};
  return table;
}

}  // namespace smelt::SMELT_ISA
