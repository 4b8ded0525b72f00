#include "ops/attention/simd/kernel.h"

#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::FloatKind;

constexpr int64_t panel = lanes == 4 ? 8 : 16;

/// n (at most a panel) elements, zeros behind them.
template <class H> SMELT_INLINE void load_panel(const H* from, int64_t n, float* to) {
  for (int64_t i = 0; i < panel; i += lanes)
    store(to + i, i + lanes <= n ? load(from + i) : i < n ? load_first(from + i, n - i) : F32(0));
}

void pack_transposed(FloatKind t, const void* data, int64_t stride, int64_t n, int64_t k, float* to) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(data);
    for (int64_t j = 0; j < n; j += panel, to += k * panel)
      for (int64_t first = 0; first < panel; first += lanes) {
        const int64_t columns = n - j - first;  // that there are
        for (int64_t i = 0; i < k; i += lanes) {
          const int64_t count = k - i < lanes ? k - i : lanes;
          F32 v[lanes];
          SMELT_UNROLL
          for (int64_t c = 0; c < lanes; ++c) v[c] = c < columns ? get(from + (j + first + c) * stride + i, count) : F32(0);
          transpose(v);
          SMELT_UNROLL
          for (int64_t e = 0; e < lanes; ++e)
            if (e < count) store(to + (i + e) * panel + first, v[e]);
        }
      }
  });
}

void pack(FloatKind t, const void* data, int64_t stride, int64_t k, int64_t n, float* to) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(data);
    for (int64_t j = 0; j < n; j += panel)
      for (int64_t i = 0; i < k; ++i, to += panel) load_panel(from + i * stride + j, n - j, to);
  });
}

void load_scaled(FloatKind t, const void* data, int64_t n, float factor, float* to) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(data);
    const F32 f = splat(factor);
    for_registers(n, [&](int64_t i, int64_t count) { put(to + i, get(from + i, count) * f, count); });
  });
}

void store_scaled(FloatKind t, const float* from, int64_t n, float factor, void* data) {
  with_float_type(t, [&]<class H>(const H*) {
    H* to = static_cast<H*>(data);
    const F32 f = splat(factor);
    for_registers(n, [&](int64_t i, int64_t count) { put(to + i, get(from + i, count) * f, count); });
  });
}

#ifndef __AVX2__
/// C [rows, panel] (+)= A [rows, k] · B [k, panel].
template <int rows> void tile(const float* a, int64_t lda, int64_t k, const float* b, float* c, int64_t ldc, bool add) {
  F32 left[rows], right[rows];
  for (int r = 0; r < rows; ++r) {
    left[r] = add ? load(c + r * ldc) : F32(0);
    right[r] = add ? load(c + r * ldc + lanes) : F32(0);
  }
  for (int64_t i = 0; i < k; ++i, b += panel) {
    const F32 b0 = load(b), b1 = load(b + lanes);
    for (int r = 0; r < rows; ++r) {
      const F32 v = splat(a[r * lda + i]);
      left[r] = fma(v, b0, left[r]);
      right[r] = fma(v, b1, right[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    store(c + r * ldc, left[r]);
    store(c + r * ldc + lanes, right[r]);
  }
}

void product(const float* a, int64_t lda, int64_t rows, int64_t k, const float* b, int64_t panels, float* c, int64_t ldc) {
  constexpr int64_t tile_rows = 6, k_block = 256;  // a panel's part of 256 rows stays in the L1 cache
  using Tile = void (*)(const float*, int64_t, int64_t, const float*, float*, int64_t, bool);
  static constexpr Tile tiles[] = {nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
  for (int64_t from = 0; from == 0 || from < k; from += k_block) {
    const int64_t part = k - from < k_block ? k - from : k_block;
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t r = 0; r < rows; r += tile_rows) {
        const int64_t height = rows - r < tile_rows ? rows - r : tile_rows;
        tiles[height](a + r * lda + from, lda, part, b + (p * k + from) * panel, c + r * ldc + p * panel, ldc, from > 0);
      }
  }
}
#endif

void dots(FloatKind t, const float* q, const void* keys, int64_t stride, int64_t n, int64_t k, float* scores) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(keys);
    for (int64_t j = 0; j < n; j += lanes) {
      const int64_t count = n - j < lanes ? n - j : lanes;
      F32 sums[lanes];
      SMELT_UNROLL
      for (F32& s : sums) s = F32(0);
      for_registers(k, [&](int64_t i, int64_t elements) {
        const F32 own = get(q + i, elements);
        if (count == lanes) {
          SMELT_UNROLL
          for (int r = 0; r < lanes; ++r) sums[r] = fma(own, get(from + (j + r) * stride + i, elements), sums[r]);
        } else {
          for (int64_t r = 0; r < count; ++r) sums[r] = fma(own, get(from + (j + r) * stride + i, elements), sums[r]);
        }
      });
      transpose(sums);
      F32 total = sums[0];
      for (int r = 1; r < lanes; ++r) total = total + sums[r];
      put(scores + j, total, count);
    }
  });
}

void weigh(FloatKind t, const float* weights, const void* values, int64_t stride, int64_t n, int64_t width, float* sums) {
  with_float_type(t, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(values);
    int64_t e = 0;
    for (; e + 4 * lanes <= width; e += 4 * lanes) {
      F32 each[4] = {F32(0), F32(0), F32(0), F32(0)};
      for (int64_t j = 0; j < n; ++j) {
        const F32 w = splat(weights[j]);
        for (int r = 0; r < 4; ++r) each[r] = fma(w, load(from + j * stride + e + r * lanes), each[r]);
      }
      for (int r = 0; r < 4; ++r) store(sums + e + r * lanes, each[r]);
    }
    for (; e < width; e += lanes) {
      const int64_t count = width - e < lanes ? width - e : lanes;
      F32 total = F32(0);
      for (int64_t j = 0; j < n; ++j) total = fma(splat(weights[j]), get(from + j * stride + e, count), total);
      put(sums + e, total, count);
    }
  });
}

void softmax(float* scores, int64_t stride, int64_t rows, int64_t n, float* factors, bool guard) {
  for (int64_t r = 0; r < rows; ++r, scores += stride) {
    const F32 t = splat(largest(scores, n));
    F32 sums[2] = {F32(0), F32(0)};
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes)
      for (int u = 0; u < 2; ++u) {
        const F32 e = exp_nonpositive(load(scores + i + u * lanes) - t);
        store(scores + i + u * lanes, e);
        sums[u] = sums[u] + e;
      }
    for_registers(n - i, [&](int64_t k, int64_t count) {
      const F32 e = exp_nonpositive(get(static_cast<const float*>(scores) + i + k, count) - t);
      put(scores + i + k, e, count);
      sums[0] = sums[0] + (count == lanes ? e : first_or(e, count, F32(0)));
    });
    const float total = sum(sums[0] + sums[1]);
    factors[r] = 1 / total;
    if (guard && total != total) {
      __builtin_memset(scores, 0, static_cast<size_t>(n) * sizeof(float));
      factors[r] = 0;
    }
  }
}

#ifdef __AVX2__
constexpr auto product = nullptr;
#endif
constexpr ops::AttentionSimd table = {panel, pack_transposed, pack, load_scaled, product, dots, weigh, softmax, store_scaled};

}  // namespace

const ops::AttentionSimd& attention_simd() { return table; }

}  // namespace smelt::SMELT_ISA
