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

/// Which steps there are.
struct Steps {
  bool starts, scales, adds, adds_residual;
  bool ends;  // in more than bounds
};

/// Columns c … of row `row`. `r` lies in registers: floats that are stored may alias any other.
template <Steps steps, class Lanes>
inline __attribute__((always_inline)) void take(const FloatRows& r, int64_t row, int64_t c, Lanes lanes) {
  __m256i sum = lanes.load(r.sums + row * r.sums_step + c);
  if constexpr (steps.starts) sum = _mm256_add_epi32(sum, lanes.load(r.start + c));
  __m256 v = _mm256_cvtepi32_ps(sum);
  if constexpr (steps.scales) v = _mm256_mul_ps(v, lanes.load(r.scales + c));
  if (r.factors) v = _mm256_mul_ps(v, r.has_one_factor ? _mm256_broadcast_ss(r.factors) : lanes.load(r.factors + c));
  if constexpr (steps.adds) v = _mm256_add_ps(v, lanes.load(r.addends + c));
  if constexpr (steps.adds_residual) v = _mm256_add_ps(v, lanes.load(r.residual + row * r.residual_step + c));
  if constexpr (steps.ends)
    v = apply(v, r.end);
  else
    v = _mm256_min_ps(_mm256_set1_ps(r.end.high), _mm256_max_ps(_mm256_set1_ps(r.end.low), v));  // a NaN passes
  lanes.store(r.to + row * r.to_step + c, v);
}

template <Steps steps> void take_rows(const FloatRows& all) {
  const FloatRows r = all;
  const int64_t whole = r.columns / 8 * 8;
  const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const Masked rest{_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(r.columns - whole)), order)};
  for (int64_t row = 0; row < r.rows; ++row) {
    for (int64_t c = 0; c < whole; c += 8) take<steps>(r, row, c, Whole());
    if (whole < r.columns) take<steps>(r, row, whole, rest);
  }
}

template <bool... known> void with_steps(const FloatRows& r) { take_rows<Steps{known...}>(r); }
template <bool... known, class... Left> void with_steps(const FloatRows& r, bool next, Left... left) {
  next ? with_steps<known..., true>(r, left...) : with_steps<known..., false>(r, left...);
}

}  // namespace

void floats_of_sums(const FloatRows& rows) {
  using ops::igemm::Activation;
  FloatRows r = rows;
  if (r.end.activation == Activation::none && !r.end.is_scaled) {
    r.end.activation = Activation::clamp;
    r.end.low = -__builtin_inff(), r.end.high = __builtin_inff();
  }
  const bool ends = r.end.activation != Activation::clamp || r.end.is_scaled;
  with_steps<>(r, r.start != nullptr, r.scales != nullptr, r.addends != nullptr, r.residual != nullptr, ends);
}

}  // namespace smelt::avx2
#endif
