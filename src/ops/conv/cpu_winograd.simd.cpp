#ifdef __AVX2__
#include <immintrin.h>

#include "ops/conv/simd/winograd.h"
#include "ops/conv/simd/winograd_transform.h"
#include "ops/cpu/igemm/simd/activate.h"

namespace smelt::avx2 {
namespace {

using ops::conv::WinogradOutput;
using ops::conv::WinogradTable;

void input(const float* const* pixels, int64_t channels, float* to, int64_t step) {
  const float* from[16];
  for (int i = 0; i < 16; ++i) from[i] = pixels[i];
  int64_t c = 0;
  for (; c + 8 <= channels; c += 8) {
    winograd_input<F32Lanes>([&](int i) { return _mm256_loadu_ps(from[i] + c); },
                             [&](int i, __m256 v) { _mm256_storeu_ps(to + i * step + c, v); });
  }
  if (c == channels) return;
  const __m256i mask = lanes_below(static_cast<int>(channels - c));
  winograd_input<F32Lanes>([&](int i) { return _mm256_maskload_ps(from[i] + c, mask); },
                           [&](int i, __m256 v) { _mm256_maskstore_ps(to + i * step + c, mask, v); });
}

void output(const WinogradOutput& o) {
  int64_t c = 0;
  for (; c + 8 <= o.columns; c += 8) {
    const __m256 bias = o.bias ? _mm256_loadu_ps(o.bias + c) : _mm256_setzero_ps();
    winograd_output<F32Lanes>([&](int i) { return _mm256_loadu_ps(o.sums + i * o.step + c); },
                              [&](int i, __m256 v) {
                                if (!o.y[i]) return;
                                v = _mm256_add_ps(v, bias);
                                if (o.residual[i]) v = _mm256_add_ps(v, _mm256_loadu_ps(o.residual[i] + c));
                                _mm256_storeu_ps(o.y[i] + c, apply(v, o.end));
                              });
  }
  if (c == o.columns) return;
  const __m256i mask = lanes_below(static_cast<int>(o.columns - c));
  const __m256 bias = o.bias ? _mm256_maskload_ps(o.bias + c, mask) : _mm256_setzero_ps();
  winograd_output<F32Lanes>([&](int i) { return _mm256_maskload_ps(o.sums + i * o.step + c, mask); },
                            [&](int i, __m256 v) {
                              if (!o.y[i]) return;
                              v = _mm256_add_ps(v, bias);
                              if (o.residual[i]) v = _mm256_add_ps(v, _mm256_maskload_ps(o.residual[i] + c, mask));
                              _mm256_maskstore_ps(o.y[i] + c, mask, apply(v, o.end));
                            });
}

}  // namespace

const WinogradTable& winograd_table() {
  static constexpr WinogradTable table = {input, output};
  return table;
}

}  // namespace smelt::avx2
#endif
