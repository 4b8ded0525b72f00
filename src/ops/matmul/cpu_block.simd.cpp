#include "expr/simd/transpose.h"
#include "ops/matmul/simd/block_scales.h"

namespace smelt::SMELT_ISA {
namespace {

#ifdef __AVX2__
/// The scales of a chunk of `count` blocks, one for each lane.
template <int count> SMELT_INLINE F32 scales_of_lanes(const float* s) {
  if constexpr (count == 1) return splat(*s);
  if constexpr (count == 2)
    return _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(s))),
                                _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
  if constexpr (count == 4)
    return _mm256_permutevar_ps(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(s)),
                                _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  if constexpr (count == lanes) return load(s);
}
#else
template <int count> SMELT_INLINE F32 scales_of_lanes(const float* s) {
  if constexpr (count == 1) return splat(*s);
  if constexpr (count == 2) return _mm_setr_ps(s[0], s[0], s[1], s[1]);
  if constexpr (count == lanes) return load(s);
}
#endif

// Of lambdas: registers that they capture stay registers only where they are inlined.
#define SMELT_FLATTEN __attribute__((always_inline))

template <int bits> constexpr int planes = 32 / bits;
template <int bits> constexpr int chunk_of = lanes* planes<bits>;
constexpr int chunk_bytes = lanes * 4;

/// What weights of plane j are times their number. The last plane reaches the sign, and is shifted down instead of masked.
template <int bits> constexpr int exponent(int j) { return j == planes<bits> - 1 ? 0 : bits * j; }
SMELT_INLINE float two_to_minus(int e) { return 1.0f / static_cast<float>(uint32_t{1} << e); }

/// The weights of plane j of a chunk, times 2^exponent(j).
template <int bits, int j> SMELT_INLINE F32 plane(I32 words) {
  if constexpr (j == planes<bits> - 1) return to_float(shift_right<32 - bits>(words));
  constexpr uint32_t mask = ((1u << bits) - 1) << exponent<bits>(j);
  return to_float(words & splat(static_cast<int32_t>(mask)));
}

/// f.operator()<j>() for each plane.
template <int bits, int j = 0, class F> SMELT_INLINE void for_planes(F&& f) {
  if constexpr (j < planes<bits>) {
    f.template operator()<j>();
    for_planes<bits, j + 1>(f);
  }
}

template <int bits> void spread_as(const float* a, int64_t k, float* to) {
  for (int64_t begin = 0; begin < k; begin += chunk_of<bits>, to += chunk_of<bits>) {
    const int64_t count = k - begin < chunk_of<bits> ? k - begin : chunk_of<bits>;
    const float* from = a + begin;
    float rest[chunk_of<bits>];
    if (count < chunk_of<bits>) {
      __builtin_memset(rest, 0, sizeof(rest));
      for (int64_t i = 0; i < count; ++i) rest[i] = from[i];
      from = rest;
    }
    if constexpr (planes<bits> == lanes) {
      F32 v[lanes];
      SMELT_UNROLL
      for (int i = 0; i < lanes; ++i) v[i] = load(from + i * lanes);
      transpose(v);
      SMELT_UNROLL
      for (int j = 0; j < lanes; ++j) store(to + j * lanes, v[j] * splat(two_to_minus(exponent<bits>(j))));
      continue;
    }
    for (int j = 0; j < planes<bits>; ++j) {
      const float factor = two_to_minus(exponent<bits>(j));
      for (int i = 0; i < lanes; ++i) to[j * lanes + i] = from[i * planes<bits> + j] * factor;
    }
  }
}

void spread(const BlockWeights& w, const float* a, float* to, float* sums) {
  with_bits(w.bits, [&]<int n>() { spread_as<n>(a, w.k, to); });
  for (int64_t i = 0; sums && i < w.blocks; ++i) {
    const int64_t end = (i + 1) * w.block < w.k ? (i + 1) * w.block : w.k;
    float sum = 0;
    for (int64_t k = i * w.block; k < end; ++k) sum += a[k];
    sums[i] = sum;
  }
}

int64_t unit(const BlockWeights& w) { return lanes * (32 / w.bits); }
int64_t row_floats(const BlockWeights& w) { return (w.k + unit(w) - 1) / unit(w) * unit(w); }
int rows_of(int64_t left) { return static_cast<int>(left < 4 ? left : 4); }
int taken(int) { return 0; }

/// totals[m] += scales · Σ over a chunk.
template <int bits, int rows> SMELT_INLINE void add_chunk(I32 words, F32 scales, const float* a, int64_t a_step, F32* totals) {
  constexpr int chains = rows == 1 ? 2 : 1;  // so that additions do not wait for each other
  F32 sums[rows][chains];
  for_planes<bits>([&]<int j>() SMELT_FLATTEN {
    const F32 w = plane<bits, j>(words);
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) {
      const F32 x = load(a + m * a_step + j * lanes);
      F32& to = sums[m][j % chains];
      to = j < chains ? w * x : fma(w, x, to);
    }
  });
  SMELT_UNROLL
  for (int m = 0; m < rows; ++m) {
    if constexpr (chains == 2) sums[m][0] = sums[m][0] + sums[m][1];
    totals[m] = fma(sums[m][0], scales, totals[m]);
  }
}

/// `count`: blocks of a chunk; 1 also where a block has several chunks.
template <int bits, int count, int rows> void add_as(const BlockWeights& w, int64_t columns, int64_t from, int64_t to,
                                                     const float* a, int64_t a_step, float* y, int64_t y_step, float* memory) {
  constexpr int64_t step = chunk_of<bits>;
  const I32 sign = splat(sign_of_words<bits>(w.is_signed));
  const int64_t first = from / w.block, last = (to + w.block - 1) / w.block;
  int shift = 0;  // chunks of a block, as a power of two
  while (count == 1 && (step << shift) < w.block) ++shift;
  const int64_t bytes = (to - from) * bits / 8 + ((to - from) * bits % 8 != 0), whole = bytes / chunk_bytes;
  a += from;
  for (int64_t j = 0; j < columns; ++j) {
    scales_of_row(w, j, first, last, memory);
    const uint8_t* row = w.q + j * w.q_step + from * bits / 8;
    F32 totals[rows];
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) totals[m] = splat(0.0f);
    for (int64_t c = 0; c < whole; ++c) {
      const F32 scales = scales_of_lanes<count>(memory + (count == 1 ? c >> shift : c * count));
      add_chunk<bits, rows>(load_words(row + c * chunk_bytes) ^ sign, scales, a + c * step, a_step, totals);
    }
    if (const int64_t rest = bytes - whole * chunk_bytes; rest > 0) {
      uint8_t words[chunk_bytes] = {};
      __builtin_memcpy(words, row + whole * chunk_bytes, static_cast<size_t>(rest));
      const F32 scales = scales_of_lanes<count>(memory + (count == 1 ? whole >> shift : whole * count));
      add_chunk<bits, rows>(load_words(words) ^ sign, scales, a + whole * step, a_step, totals);
    }
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) y[m * y_step + j] += sum(totals[m]);
  }
}

void add(const BlockWeights& w, int64_t columns, int64_t from, int64_t to, const float* a, int64_t a_step, int rows, float* y,
         int64_t y_step, float* memory) {
  with_bits(w.bits, [&]<int bits>() {
    const auto by_rows = [&]<int count>() {
      switch (rows) {
        case 1: return add_as<bits, count, 1>(w, columns, from, to, a, a_step, y, y_step, memory);
        case 2: return add_as<bits, count, 2>(w, columns, from, to, a, a_step, y, y_step, memory);
        case 3: return add_as<bits, count, 3>(w, columns, from, to, a, a_step, y, y_step, memory);
        default: return add_as<bits, count, 4>(w, columns, from, to, a, a_step, y, y_step, memory);
      }
    };
    const int64_t count = chunk_of<bits> / w.block;
    if (count <= 1) return by_rows.template operator()<1>();
    if constexpr (chunk_of<bits> >= 32)
      if (count == 2) return by_rows.template operator()<2>();
    if constexpr (chunk_of<bits> >= 64)
      if (count == 4) return by_rows.template operator()<4>();
    if constexpr (chunk_of<bits> >= 128)
      if (count == 8) return by_rows.template operator()<8>();
  });
}

/// As many rows of w as there are lanes, side by side.
template <int bits>
void panel_lanes(const BlockWeights& w, int64_t columns, int64_t width, int64_t from, int64_t to, float* panel) {
  constexpr int64_t word = planes<bits>, group = lanes;  // words of a row that are read at a time
  const I32 sign = splat(sign_of_words<bits>(w.is_signed));
  const int64_t end = (w.k * bits + 7) / 8;  // of a row's bytes
  const int shift = __builtin_ctzll(static_cast<unsigned long long>(w.block));
  for (int64_t begin = from; begin < to; begin += group * word) {
    const int64_t words = ((to - begin < group * word ? to - begin : group * word) + word - 1) / word;
    const int64_t at = begin * bits / 8, left = end - at;
    F32 side_by_side[lanes];
    SMELT_UNROLL
    for (int64_t r = 0; r < lanes; ++r) {
      const uint8_t* row = w.q + (r < columns ? r : 0) * w.q_step + at;
      uint8_t some[chunk_bytes];
      if (left < chunk_bytes) {
        __builtin_memset(some, 0, sizeof(some));
        for (int64_t i = 0; i < left; ++i) some[i] = row[i];
        row = some;
      }
      side_by_side[r] = as_float(load_words(row));
    }
    transpose(side_by_side);
    int64_t known = -1;
    F32 scales = splat(0.0f), zeros = scales;
    for (int64_t i = 0; i < words; ++i) {
      const int64_t first = begin + i * word;
      if (const int64_t block = first >> shift; block != known) {
        float s[lanes] = {}, z[lanes] = {};
        for (int64_t r = 0; r < columns; ++r) {
          const int64_t at = r * w.blocks + block;
          with_float_type(w.scale_kind, [&]<class H>(const H*) {
            float one[lanes];
            store(one, load_first(static_cast<const H*>(w.scales) + at, 1));
            s[r] = one[0];
          });
          z[r] = static_cast<float>(w.zeros ? w.zeros[at] : w.zero);
        }
        scales = load(s);
        zeros = -(load(z) * scales);
        known = block;
      }
      const I32 v = smelt::SMELT_ISA::bits(side_by_side[i]) ^ sign;
      float* out = panel + (first - from) * width;
      const int64_t count = to - first < word ? to - first : word;
      const auto put = [&]<int j>() SMELT_FLATTEN {
        store(out + j * width, fma(plane<bits, j>(v), scales * splat(two_to_minus(exponent<bits>(j))), zeros));
      };
      if (count == word)
        for_planes<bits>(put);
      else
        for_planes<bits>([&]<int j>() SMELT_FLATTEN {
          if (j < count) put.template operator()<j>();
        });
    }
  }
}

void panel(const BlockWeights& w, int64_t columns, int64_t width, int64_t from, int64_t to, float* panel) {
  constexpr int64_t step = 128;  // elements of K whose part of the panel stays in the L1 cache until its rows are whole
  for (int64_t begin = from; begin < to; begin += step) {
    const int64_t end = to - begin < step ? to : begin + step;
    for (int64_t first = 0; first < width; first += lanes) {
      // Rows that are there; where none of a register's is, nothing is read.
      const BlockWeights some = block_weights_at(w, first < columns ? first : columns - 1);
      const int64_t used = columns - first < 0 ? 0 : columns - first < lanes ? columns - first : lanes;
      float* out = panel + (begin - from) * width + first;
      with_bits(w.bits, [&]<int bits>() { panel_lanes<bits>(some, used, width, begin, end, out); });
    }
  }
}

}  // namespace

const ops::matmul::BlockTable& block_product_table() {
  static constexpr BlockTable table = {rows_of, taken, false, unit, row_floats, spread, start_blocks, add};
  return table;
}

extern const ops::matmul::BlockPanel block_panel = panel;

}  // namespace smelt::SMELT_ISA
