#ifdef __AVX2__
#include "ops/cpu/igemm/simd/panels.h"

#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"

namespace smelt::avx2 {
namespace {

/// Elements of a row lie side by side.
void pack_rows(float* to, int64_t width, const float* from, int64_t row, int64_t k, int64_t used, F32 alpha) {
  for (int64_t i = 0; i < k; ++i, from += row)
    for (int64_t j = 0; j < width; j += lanes, to += lanes) {
      const int64_t count = used - j;
      store(to, count >= lanes ? load(from + j) * alpha : count > 0 ? load_first(from + j, count) * alpha : F32(0));
    }
}

/// Those of a column do: squares, turned in registers. Lines of the cache of 16 elements are read at once.
void pack_columns(float* to, int64_t width, const float* from, int64_t column, int64_t k, int64_t used, F32 alpha) {
  constexpr int64_t line = 16;
  for (int64_t begin = 0; begin < k; begin += line)
    for (int64_t j = 0; j < width; j += lanes)
      for (int64_t i = begin; i < k && i < begin + line; i += lanes) {
        const int64_t count = k - i < lanes ? k - i : lanes;
        F32 v[lanes];
        SMELT_UNROLL
        for (int64_t c = 0; c < lanes; ++c) v[c] = j + c < used ? get(from + (j + c) * column + i, count) * alpha : F32(0);
        transpose(v);
        SMELT_UNROLL
        for (int64_t e = 0; e < lanes; ++e)
          if (e < count) store(to + (i + e) * width + j, v[e]);
      }
}

}  // namespace

void pack_panel(float* to, int64_t width, const float* from, int64_t row, int64_t column, int64_t k, int64_t used, float alpha) {
  if (column == 1) return pack_rows(to, width, from, row, k, used, splat(alpha));
  if (row == 1) return pack_columns(to, width, from, column, k, used, splat(alpha));
  for (int64_t i = 0; i < k; ++i, to += width)
    for (int64_t j = 0; j < width; ++j) to[j] = j < used ? alpha * from[i * row + j * column] : 0.0f;
}

}  // namespace smelt::avx2
#endif
