// The vectorised parts of attention: packing, products of a few rows with packed panels, softmax over rows.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

using simd::FloatKind;  // of q, k, v and y

struct AttentionSimd {
  int64_t panel;  // columns of a packed panel

  /// B^T [n, k] (rows `stride` apart) into panels of [k][panel], zeros beyond n.
  void (*pack_transposed)(FloatKind t, const void* from, int64_t stride, int64_t n, int64_t k, float* to);
  /// B [k, n] (rows `stride` apart) into the same panels.
  void (*pack)(FloatKind t, const void* from, int64_t stride, int64_t k, int64_t n, float* to);
  /// to[i] = factor · from[i].
  void (*load_scaled)(FloatKind t, const void* from, int64_t n, float factor, float* to);
  /// C [rows, panels · panel] = A [rows, k] · B; panels of B are k rows long. lda and ldc in floats. Null where the tiles of
  /// ops/cpu/igemm do it, whose panels these are.
  void (*product)(const float* a, int64_t lda, int64_t rows, int64_t k, const float* b, int64_t panels, float* c, int64_t ldc);
  /// scores[j] = q · row j of n keys (`stride` apart), k elements each: for a query whose keys no other one reads packed.
  void (*dots)(FloatKind t, const float* q, const void* keys, int64_t stride, int64_t n, int64_t k, float* scores);
  /// sums[e] = weights · column e of n values (`stride` apart) of `width` elements.
  void (*weigh)(FloatKind t, const float* weights, const void* values, int64_t stride, int64_t n, int64_t width, float* sums);
  /// Each of `rows` rows of n scores becomes exp(score - largest); factors[i] the inverse of its sum. `guard`: a row whose sum is
  /// NaN becomes zeros.
  void (*softmax)(float* scores, int64_t stride, int64_t rows, int64_t n, float* factors, bool guard);
  /// y[i] = factor · from[i], rounded.
  void (*store_scaled)(FloatKind t, const float* from, int64_t n, float factor, void* y);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::AttentionSimd& attention_simd();
}
namespace smelt::avx2 {
const ops::AttentionSimd& attention_simd();
}
namespace smelt::avx512 {
const ops::AttentionSimd& attention_simd();
}
