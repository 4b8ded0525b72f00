#include "ops/cpu/rows/simd/rows.h"

#include "expr/simd/reduce.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::FloatKind;

/// v as it reads back once stored as an H.
template <class H> SMELT_INLINE F32 rounded(F32 v) {
  if constexpr (sizeof(H) == sizeof(float)) {
    return v;
  } else {
    H kept[lanes];
    store(kept, v);
    return load(static_cast<const H*>(kept));
  }
}

void load_row(FloatKind t, const void* x_, const void* residual_, void* sum_, float* row, int64_t n) {
  with_float_type(t, [&]<class H>(const H*) {
    const H *x = static_cast<const H*>(x_), *residual = static_cast<const H*>(residual_);
    H* sum = static_cast<H*>(sum_);
    for_registers(n, [&](int64_t i, int64_t count) {
      F32 v = get(x + i, count);
      if (residual) v = rounded<H>(v + get(residual + i, count));
      if (sum) put(sum + i, v, count);
      put(row + i, v, count);
    });
  });
}

void normalize(float* row, int64_t n, bool centre, double epsilon) {
  const auto count = static_cast<float>(n);
  const F32 mean = splat(centre ? sum_of(row, n, [](F32 v) { return v; }) / count : 0.0f);
  const float variance = sum_of(row, n, [&](F32 v) { return (v - mean) * (v - mean); }) / count;
  const F32 factor = splat(1 / __builtin_sqrtf(variance + static_cast<float>(epsilon)));
  for_registers(n, [&](int64_t i, int64_t c) { put(row + i, (get(static_cast<const float*>(row) + i, c) - mean) * factor, c); });
}

void scale_row(FloatKind t, const float* row, const float* gamma, const float* beta, void* y_, int64_t n) {
  with_float_type(t, [&]<class H>(const H*) {
    H* y = static_cast<H*>(y_);
    for_registers(n, [&](int64_t i, int64_t c) {
      F32 v = get(row + i, c);
      if (gamma) v = v * get(gamma + i, c);
      if (beta) v = v + get(beta + i, c);
      put(y + i, v, c);
    });
  });
}

void rotate(FloatKind t, const void* x_, const float* cos, const float* sin, void* y_, int64_t half, bool half_tables,
            bool interleaved) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* x = static_cast<const H*>(x_);
    H* y = static_cast<H*>(y_);
    if (!interleaved) {
      const float *cos2 = half_tables ? cos : cos + half, *sin2 = half_tables ? sin : sin + half;
      for_registers(half, [&](int64_t i, int64_t c) {
        const F32 a = get(x + i, c), b = get(x + half + i, c);
        put(y + i, a * get(cos + i, c) - b * get(sin + i, c), c);
        put(y + half + i, b * get(cos2 + i, c) + a * get(sin2 + i, c), c);
      });
      return;
    }
    int64_t done = 0;
#ifdef __AVX2__
    // Real and imaginary parts change places; each entry of a half table stands for both.
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const F32 signs = _mm256_setr_ps(-1, 1, -1, 1, -1, 1, -1, 1);
    const auto entries = [&](const float* table, int64_t i) -> F32 {
      if (!half_tables) return load(table + i);
      return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(table + i / 2)), twice);
    };
    for (; done + lanes <= 2 * half; done += lanes) {
      const F32 v = load(x + done), partners = _mm256_permute_ps(v.v, 0xb1);
      store(y + done, v * entries(cos, done) + partners * signs * entries(sin, done));
    }
#endif
    for (int64_t i = done; i < 2 * half; i += lanes) {
      const int64_t count = 2 * half - i < lanes ? 2 * half - i : lanes;
      float v[lanes], out[lanes] = {};
      store(v, get(x + i, count));
      for (int64_t k = 0; k < count; k += 2) {
        const int64_t e = half_tables ? (i + k) / 2 : i + k, o = half_tables ? e : e + 1;
        out[k] = v[k] * cos[e] - v[k + 1] * sin[e];
        out[k + 1] = v[k + 1] * cos[o] + v[k] * sin[o];
      }
      put(y + i, load(static_cast<const float*>(out)), count);
    }
  });
}

void extremes(const float* row, int64_t n, float* smallest, float* largest) {
  // The second operand is what minimum and maximum return beside a NaN.
  F32 low[4], high[4];
  for (int u = 0; u < 4; ++u) low[u] = splat(__builtin_inff()), high[u] = splat(-__builtin_inff());
  const auto take = [&](F32 v, int u) {
    low[u] = raw_min(v, low[u]);
    high[u] = raw_max(v, high[u]);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int u = 0; u < 4; ++u) take(load(row + i + u * lanes), u);
  for (; i + lanes <= n; i += lanes) take(load(row + i), 0);
  if (i < n) take(first_or(load_first(row + i, n - i), n - i, splat(row[i])), 1);
  float lows[lanes], highs[lanes];
  store(lows, raw_min(raw_min(low[0], low[1]), raw_min(low[2], low[3])));
  store(highs, raw_max(raw_max(high[0], high[1]), raw_max(high[2], high[3])));
  *smallest = lows[0], *largest = highs[0];
  for (int k = 1; k < lanes; ++k) {
    *smallest = lows[k] < *smallest ? lows[k] : *smallest;
    *largest = highs[k] > *largest ? highs[k] : *largest;
  }
}

constexpr ops::RowSimd table = {load_row, normalize, scale_row, rotate, extremes};

}  // namespace

const ops::RowSimd& row_simd() { return table; }

}  // namespace smelt::SMELT_ISA
