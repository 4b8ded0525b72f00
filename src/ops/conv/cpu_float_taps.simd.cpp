// What a tap reads is loaded once for up to four results, whose sums stay in registers over all taps.
#include "expr/simd/transpose.h"
#include "ops/conv/simd/float_taps.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::FloatTapSums;

/// Registers of places for so many results: sums that do not wait for each other, and fewer loads than products.
constexpr int registers_of(int results) {
  if (lanes == 16) return results >= 3 ? 4 : 8;
  return results >= 3 ? 2 : results == 2 ? 4 : 8;
}

/// Places from `o` on, of the results whose weights and lines these are. So many registers of them; returns the first place behind.
template <int results, int registers>
SMELT_INLINE int64_t fold_some(const FloatTapSums& s, const float* weights, float* to, int64_t o) {
  for (; o + (registers > 1 ? registers * lanes : 1) <= s.places; o += registers * lanes) {
    F32 sums[results][registers];
    SMELT_UNROLL
    for (int r = 0; r < results; ++r) SMELT_UNROLL
    for (int p = 0; p < registers; ++p) sums[r][p] = splat(0.0f);
    const float* w = weights;
    for (int64_t j = 0; j < s.count; ++j, w += results) {
      const float* from = s.from + s.offsets[j] + o;
      F32 x[registers];
      SMELT_UNROLL
      for (int p = 0; p < registers; ++p) x[p] = load(from + p * lanes);
      SMELT_UNROLL
      for (int r = 0; r < results; ++r) {
        const F32 weight = splat(w[r]);
        SMELT_UNROLL
        for (int p = 0; p < registers; ++p) sums[r][p] = fma(x[p], weight, sums[r][p]);
      }
    }
    SMELT_UNROLL
    for (int r = 0; r < results; ++r) SMELT_UNROLL
    for (int p = 0; p < registers; ++p) store(to + r * s.to_step + o + p * lanes, sums[r][p]);
  }
  return o;
}

template <int results> void fold_results(const FloatTapSums& s, int64_t m) {
  const float* weights = s.weights + m * s.count;
  float* to = s.to + m * s.to_step;
  constexpr int registers = registers_of(results);
  int64_t o = fold_some<results, registers>(s, weights, to, 0);
  if constexpr (registers > 4) o = fold_some<results, 4>(s, weights, to, o);
  if constexpr (registers > 2) o = fold_some<results, 2>(s, weights, to, o);
  fold_some<results, 1>(s, weights, to, o);
}

void fold(const FloatTapSums& s) {
  int64_t m = 0;
  for (; m + 4 <= s.results; m += 4) fold_results<4>(s, m);
  if (s.results - m == 3) fold_results<3>(s, m);
  if (s.results - m == 2) fold_results<2>(s, m);
  if (s.results - m == 1) fold_results<1>(s, m);
}

void end(const float* __restrict sums, float start, float low, float high, int64_t n, float* __restrict to) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = sums[i] + start, above = low > v ? low : v;
    to[i] = high < above ? high : above;
  }
}

void whole(const float* __restrict sums, int32_t start, int64_t n, int32_t* __restrict to) {
  constexpr int64_t at_once = ops::float_taps_lanes;
  for (int64_t i = 0; i < n; i += at_once)
    for (int64_t j = 0; j < at_once; ++j) to[i + j] = static_cast<int32_t>(sums[i + j]) + start;
}

}  // namespace

const ops::FloatTaps& float_taps() {
  static constexpr ops::FloatTaps table = {fold, end, whole};
  return table;
}

}  // namespace smelt::SMELT_ISA
