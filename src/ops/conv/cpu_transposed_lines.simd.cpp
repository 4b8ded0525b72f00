#include "ops/conv/simd/transposed_lines.h"

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

/// Sums of all channels stay in `registers` registers.
template <int registers> SMELT_INLINE void add_block(const float* x, int64_t step, const float* w, int64_t channels, float* to) {
  F32 sums[registers];
  for (int u = 0; u < registers; ++u) sums[u] = load(to + u * lanes);
  for (int64_t c = 0; c < channels; ++c, x += step) {
    const F32 factor = splat(w[c]);
    for (int u = 0; u < registers; ++u) sums[u] = fma(factor, load(x + u * lanes), sums[u]);
  }
  for (int u = 0; u < registers; ++u) store(to + u * lanes, sums[u]);
}

void add(const float* x, int64_t step, const float* w, int64_t channels, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 * lanes <= n; i += 8 * lanes) add_block<8>(x + i, step, w, channels, to + i);
  for (; i + 2 * lanes <= n; i += 2 * lanes) add_block<2>(x + i, step, w, channels, to + i);
  for (; i + lanes <= n; i += lanes) add_block<1>(x + i, step, w, channels, to + i);
  if (const int64_t left = n - i) {
    F32 sum = load_first(to + i, left);
    for (int64_t c = 0; c < channels; ++c) sum = fma(splat(w[c]), load_first(x + c * step + i, left), sum);
    store_first(to + i, sum, left);
  }
}

void interleave(const float* from, int64_t length, int64_t stride, int64_t n, float* y) {
  const int64_t whole = n / stride;
  if (whole == 0) {  // the stride is larger than the line
    for (int64_t at = 0; at < n; ++at) y[at] = from[at * length];
    return;
  }
  if (stride == 2) {
    const float* __restrict even = from, * __restrict odd = from + length;
    float* __restrict to = y;
    for (int64_t i = 0; i < whole; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
  } else {
    for (int64_t p = 0; p < stride; ++p)
      for (int64_t i = 0; i < whole; ++i) y[i * stride + p] = from[p * length + i];
  }
  for (int64_t at = whole * stride; at < n; ++at) y[at] = from[at % stride * length + whole];
}

constexpr ops::TransposedLines table = {add, interleave};

}  // namespace

const ops::TransposedLines& transposed_lines() { return table; }

}  // namespace smelt::SMELT_ISA
