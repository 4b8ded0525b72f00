#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/igemm/simd/activate.h"
#include "ops/cpu/integer/simd/floats.h"

namespace smelt::avx2 {
namespace {

using ops::integer::FloatRows;

/// 8 columns, or those that `mask` has.
struct Whole {
  __m256i load(const int32_t* p) const { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  __m256 load(const float* p) const { return _mm256_loadu_ps(p); }
  void store(float* p, __m256 v) const { _mm256_storeu_ps(p, v); }
};
struct Masked {
  __m256i mask;
  __m256i load(const int32_t* p) const { return _mm256_maskload_epi32(p, mask); }
  __m256 load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  void store(float* p, __m256 v) const { _mm256_maskstore_ps(p, mask, v); }
};

/// Columns c … of row `row`.
template <class Lanes> inline __attribute__((always_inline)) void take(const FloatRows& r, int64_t row, int64_t c, Lanes lanes) {
  __m256i sum = lanes.load(r.sums + row * r.sums_step + c);
  if (r.start) sum = _mm256_add_epi32(sum, lanes.load(r.start + c));
  __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), lanes.load(r.scales + c));
  if (r.factors) v = _mm256_mul_ps(v, r.has_one_factor ? _mm256_broadcast_ss(r.factors) : lanes.load(r.factors + c));
  if (r.addends) v = _mm256_add_ps(v, lanes.load(r.addends + c));
  if (r.residual) v = _mm256_add_ps(v, lanes.load(r.residual + row * r.residual_step + c));
  lanes.store(r.to + row * r.to_step + c, apply(v, r.end));
}

}  // namespace

void floats_of_sums(const FloatRows& r) {
  const int64_t whole = r.columns / 8 * 8;
  const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const Masked rest{_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(r.columns - whole)), order)};
  for (int64_t row = 0; row < r.rows; ++row) {
    for (int64_t c = 0; c < whole; c += 8) take(r, row, c, Whole());
    if (whole < r.columns) take(r, row, whole, rest);
  }
}

}  // namespace smelt::avx2
#endif
