// What GridSampling::taps (grid.cpp) says of one place, without a branch, so that the compiler vectorises loops over places.
#include "expr/simd/vec.h"
#include "ops/resize/simd/grid.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::grid_block;
using ops::GridBlock;
using ops::GridGeometry;
using ops::GridPadding;

/// Two pixels of an axis and their weights, by place; a pixel that is not there has the weight 0.
struct Axis {
  alignas(64) int32_t first[grid_block], second[grid_block];
  alignas(64) double first_weight[grid_block], second_weight[grid_block];
};

SMELT_INLINE double nearest_whole(double x) {
  constexpr double to_last_bits = 0x1.8p52;
  const double rounded = (x + to_last_bits) - to_last_bits;
  return __builtin_fabs(x) < 0x1p51 ? rounded : x;
}
SMELT_INLINE double within(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
SMELT_INLINE double reflected(double x, double low, double range) {
  const bool below = x < low;
  const double high = low + range, beyond = below ? low - x : x - high, turns = __builtin_floor(beyond / range);
  const double rest = beyond - turns * range, odd = turns - 2 * __builtin_floor(turns * 0.5);
  return below == (odd == 0) ? low + rest : high - rest;
}

template <GridPadding padding, bool nearest>
void find_axis(const float* grid, int64_t step, int64_t count, int64_t extent, bool align, Axis& to) {
  const double length = static_cast<double>(extent), last = length - 1;
  const double low = align ? 0 : -0.5, range = align ? last : length, high = low + range;
  for (int64_t o = 0; o < count; ++o) {
    const double g = static_cast<double>(grid[o * step]);
    double x = align ? (g + 1) * 0.5 * last : ((g + 1) * length - 1) * 0.5;
    if (nearest) x = nearest_whole(x);
    const bool finite = __builtin_fabs(x) <= 0x1p1000;
    if (padding == GridPadding::border) x = x >= low && x <= high ? x : within(x, 0, last);
    if (padding == GridPadding::reflection)
      x = (x >= low && x <= high) || !finite ? x : range > 0 ? reflected(x, low, range) : low;
    const bool number = x == x;
    double first = nearest ? nearest_whole(x) : __builtin_floor(x), weight = nearest ? 1 : 1 - (x - first);
    double second = first + 1, other = nearest ? 0 : x - first;
    // What lies outside: nothing, or the pixel at the edge.
    if (padding == GridPadding::zeros) {
      weight = first >= 0 && first <= last ? weight : 0;
      other = second >= 0 && second <= last ? other : 0;
    } else {
      const bool there = padding == GridPadding::border ? number : number && finite;
      weight = there ? weight : 0;
      other = there ? other : 0;
    }
    to.first[o] = static_cast<int32_t>(number ? within(first, 0, last) : 0);
    to.second[o] = static_cast<int32_t>(number ? within(second, 0, last) : 0);
    to.first_weight[o] = weight;
    to.second_weight[o] = other;
  }
}

void find_axis(const GridGeometry& g, int axis, const float* grid, int64_t count, Axis& to) {
  const float* from = grid + (g.axes - 1 - axis);
  const auto with = [&]<GridPadding padding>() {
    (g.nearest ? find_axis<padding, true> : find_axis<padding, false>)(from, g.axes, count, g.extents[axis], g.align, to);
  };
  if (g.padding == GridPadding::zeros) return with.operator()<GridPadding::zeros>();
  if (g.padding == GridPadding::border) return with.operator()<GridPadding::border>();
  with.operator()<GridPadding::reflection>();
}

void find(const GridGeometry& g, const float* grid, int64_t count, GridBlock* to) {
  Axis axes[ops::grid_axes];
  for (int d = 0; d < g.axes; ++d) find_axis(g, d, grid, count, axes[d]);
  const int taps = g.taps();
  for (int k = 0; k < taps; ++k) {
    double weights[grid_block];
    int32_t* offsets = to->offsets[k];
    for (int d = 0; d < g.axes; ++d) {
      const bool second = k >> (g.axes - 1 - d) & 1 && !g.nearest;
      const int32_t *place = second ? axes[d].second : axes[d].first, step = static_cast<int32_t>(g.steps[d]);
      const double* weight = second ? axes[d].second_weight : axes[d].first_weight;
      if (d == 0)
        for (int64_t o = 0; o < count; ++o) offsets[o] = place[o] * step, weights[o] = weight[o];
      else
        for (int64_t o = 0; o < count; ++o) offsets[o] += place[o] * step, weights[o] *= weight[o];
    }
    for (int64_t o = 0; o < count; ++o) {
      to->weights[k][o] = static_cast<float>(weights[o]);
      offsets[o] = weights[o] == 0 ? -1 : offsets[o];
    }
  }
}

void sum(const GridBlock& b, int taps, const float* x, int64_t count, float* y) {
  int64_t o = 0;
#ifdef __AVX2__
  for (; o + 8 <= count; o += 8) {
    __m256 total = _mm256_setzero_ps();
    for (int k = 0; k < taps; ++k) {
      const __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(b.offsets[k] + o));
      const __m256 there = _mm256_castsi256_ps(_mm256_xor_si256(at, _mm256_set1_epi32(-1)));  // its sign: the offset is not -1
      const __m256 pixels = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, at, there, 4);
      total = _mm256_fmadd_ps(_mm256_load_ps(b.weights[k] + o), pixels, total);
    }
    _mm256_storeu_ps(y + o, total);
  }
#endif
  for (; o < count; ++o) {
    float total = 0;
    for (int k = 0; k < taps; ++k)
      if (b.offsets[k][o] >= 0) total += b.weights[k][o] * x[b.offsets[k][o]];
    y[o] = total;
  }
}

}  // namespace

const ops::GridTable& grid_table() {
  static constexpr ops::GridTable table = {find, sum};
  return table;
}

}  // namespace smelt::SMELT_ISA
