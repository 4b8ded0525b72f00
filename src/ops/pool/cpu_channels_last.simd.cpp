// Pixels of channels-last images: folds over a window's pixels, all channels of which lie side by side.
#include "expr/simd/vector.h"
#include "ops/pool/simd/rows.h"

namespace smelt::SMELT_ISA {
namespace {

struct Larger {
  template <class V> static SMELT_INLINE V of(V a, V b) {
    if constexpr (std::is_same_v<V, float>)
      return (b > a) | (b != b) ? b : a;
    else
      return extreme_or_nan<true, float>(a, b);
  }
};
struct Sum {
  template <class V> static SMELT_INLINE V of(V a, V b) { return a + b; }
};

/// `count` registers of channels from `first` on.
template <class Op, int count>
SMELT_INLINE void fold_block(float* to, const float* const* pixels, int64_t number, int64_t first, float factor) {
  constexpr int64_t size = width<float>;
  decltype(load_vector(to)) sums[count];
  for (int j = 0; j < count; ++j) sums[j] = load_vector(pixels[0] + first + j * size);
  for (int64_t i = 1; i < number; ++i)
    for (int j = 0; j < count; ++j) sums[j] = Op::of(sums[j], load_vector(pixels[i] + first + j * size));
  for (int j = 0; j < count; ++j) {
    if constexpr (std::is_same_v<Op, Sum>) sums[j] = sums[j] * factor;
    store_vector(to + first + j * size, sums[j]);
  }
}

template <class Op> void fold(float* to, const float* const* pixels, int64_t number, float factor, int64_t channels) {
  constexpr int64_t size = width<float>;
  constexpr int block = 4;
  int64_t c = 0;
  for (; c + block * size <= channels; c += block * size) fold_block<Op, block>(to, pixels, number, c, factor);
  for (; c + size <= channels; c += size) fold_block<Op, 1>(to, pixels, number, c, factor);
  for (; c < channels; ++c) {
    float v = pixels[0][c];
    for (int64_t i = 1; i < number; ++i) v = Op::of(v, pixels[i][c]);
    to[c] = std::is_same_v<Op, Sum> ? v * factor : v;
  }
}

void largest(float* to, const float* const* pixels, int64_t number, int64_t channels) {
  fold<Larger>(to, pixels, number, 1, channels);
}

void scaled_sum(float* to, const float* const* pixels, int64_t number, float factor, int64_t channels) {
  fold<Sum>(to, pixels, number, factor, channels);
}

void scale(float* to, float factor, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) to[c] *= factor;
}

}  // namespace

const ops::pool::RowFunctions& pool_rows() {
  static constexpr ops::pool::RowFunctions table = {largest, scaled_sum, scale};
  return table;
}

}  // namespace smelt::SMELT_ISA
