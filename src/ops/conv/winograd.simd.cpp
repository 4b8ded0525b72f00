#ifdef __AVX2__
#include <immintrin.h>

#include "ops/conv/simd/winograd.h"
#include "ops/igemm/simd/activate.h"

namespace smelt::avx2 {
namespace {

using ops::conv::WinogradOutput;
using ops::conv::WinogradTable;

/// Lanes below n set.
inline __m256i lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Four values along an axis to the four of Bᵀ.
inline __attribute__((always_inline)) void forward(__m256& a, __m256& b, __m256& c, __m256& d) {
  const __m256 first = _mm256_sub_ps(a, c), second = _mm256_add_ps(b, c), third = _mm256_sub_ps(c, b),
               fourth = _mm256_sub_ps(b, d);
  a = first;
  b = second;
  c = third;
  d = fourth;
}

template <class Load, class Store> inline __attribute__((always_inline)) void input_step(Load load, Store store) {
  __m256 v[4][4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) v[y][x] = load(4 * y + x);
    forward(v[0][x], v[1][x], v[2][x], v[3][x]);
  }
#pragma GCC unroll 4
  for (int y = 0; y < 4; ++y) {
    forward(v[y][0], v[y][1], v[y][2], v[y][3]);
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) store(4 * y + x, v[y][x]);
  }
}

void input(const float* const* pixels, int64_t channels, float* to, int64_t step) {
  const float* from[16];
  for (int i = 0; i < 16; ++i) from[i] = pixels[i];
  int64_t c = 0;
  for (; c + 8 <= channels; c += 8) {
    input_step([&](int i) { return _mm256_loadu_ps(from[i] + c); },
               [&](int i, __m256 v) { _mm256_storeu_ps(to + i * step + c, v); });
  }
  if (c == channels) return;
  const __m256i mask = lanes(channels - c);
  input_step([&](int i) { return _mm256_maskload_ps(from[i] + c, mask); },
             [&](int i, __m256 v) { _mm256_maskstore_ps(to + i * step + c, mask, v); });
}

template <class Load, class Store> inline __attribute__((always_inline)) void output_step(Load load, Store store) {
  __m256 rows[2][4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
    const __m256 a = load(x), b = load(4 + x), c = load(8 + x), d = load(12 + x);
    rows[0][x] = _mm256_add_ps(a, _mm256_add_ps(b, c));
    rows[1][x] = _mm256_sub_ps(_mm256_sub_ps(b, c), d);
  }
#pragma GCC unroll 2
  for (int y = 0; y < 2; ++y) {
    const __m256* r = rows[y];
    store(2 * y, _mm256_add_ps(r[0], _mm256_add_ps(r[1], r[2])));
    store(2 * y + 1, _mm256_sub_ps(_mm256_sub_ps(r[1], r[2]), r[3]));
  }
}

void output(const WinogradOutput& o) {
  int64_t c = 0;
  for (; c + 8 <= o.columns; c += 8) {
    const __m256 bias = o.bias ? _mm256_loadu_ps(o.bias + c) : _mm256_setzero_ps();
    output_step([&](int i) { return _mm256_loadu_ps(o.sums + i * o.step + c); },
                [&](int i, __m256 v) {
                  if (!o.y[i]) return;
                  v = _mm256_add_ps(v, bias);
                  if (o.residual[i]) v = _mm256_add_ps(v, _mm256_loadu_ps(o.residual[i] + c));
                  _mm256_storeu_ps(o.y[i] + c, activate(v, o.activation, o.low, o.high));
                });
  }
  if (c == o.columns) return;
  const __m256i mask = lanes(o.columns - c);
  const __m256 bias = o.bias ? _mm256_maskload_ps(o.bias + c, mask) : _mm256_setzero_ps();
  output_step([&](int i) { return _mm256_maskload_ps(o.sums + i * o.step + c, mask); },
              [&](int i, __m256 v) {
                if (!o.y[i]) return;
                v = _mm256_add_ps(v, bias);
                if (o.residual[i]) v = _mm256_add_ps(v, _mm256_maskload_ps(o.residual[i] + c, mask));
                _mm256_maskstore_ps(o.y[i] + c, mask, activate(v, o.activation, o.low, o.high));
              });
}

}  // namespace

const WinogradTable& winograd_table() {
  static constexpr WinogradTable table = {input, output};
  return table;
}

}  // namespace smelt::avx2
#endif
