// Products of rows rounded to 8 bits with weights in blocks, by dot products of bytes: with AVX2 by products of pairs that are added
// in 16 bits, with AVX-512 by VNNI.
//
// A register of weights is split into planes: the bytes' lowest bits, those above, and so on; a row's bytes lie as the planes have
// them. Each 32-bit lane adds up neighbouring weights, all of one block, so that lanes have factors of their own: the scale of the
// weights' block times that of the row's.
#ifdef __AVX2__
#include "expr/simd/transpose.h"
#include "ops/matmul/simd/block_scales.h"

namespace smelt::SMELT_ISA {
namespace {

#ifdef __AVX512F__
#define SMELT_DOT __attribute__((target("avx512vnni")))

/// sum += Σ of four neighbours' products. w is unsigned, a signed.
template <int bits> SMELT_DOT SMELT_INLINE I32 dot(I32 sum, I32 w, I32 a) { return {_mm512_dpbusd_epi32(sum.v, w.v, a.v)}; }
SMELT_INLINE F32 permuted(F32 x, I32 lane) { return _mm512_permutexvar_ps(lane.v, x.v); }
constexpr int taken_of(int) { return 0; }
#else
#define SMELT_DOT

/// The same. Sums of two products of up to 4 bits stay within 16 bits; of numbers of 8 bits 128 less are multiplied, their sign
/// being a's: two products are then at most 2 · 128 · 127.
template <int bits> SMELT_INLINE I32 dot(I32 sum, I32 w, I32 a) {
  const __m256i pairs =
      bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w.v), _mm256_sign_epi8(a.v, w.v)) : _mm256_maddubs_epi16(w.v, a.v);
  return {_mm256_add_epi32(sum.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}
SMELT_INLINE F32 permuted(F32 x, I32 lane) { return _mm256_permutevar8x32_ps(x.v, lane.v); }
constexpr int taken_of(int bits) { return bits == 8 ? 128 : 0; }
#endif

constexpr int register_bytes = lanes * 4;
template <int bits> constexpr int planes = 8 / bits;
template <int bits> constexpr int chunk_of = register_bytes* planes<bits>;  // weights of a register

/// Registers of weights whose products are added before they are scaled.
template <int bits> SMELT_INLINE int registers_of(int64_t block) { return block >= 2 * chunk_of<bits> ? 2 : 1; }

/// Of a row's unit: its bytes, the lanes' factors, what their sums begin with.
template <int bits> constexpr int unit_floats(int registers) { return (registers * planes<bits> + 2) * lanes; }

int taken(int bits) { return taken_of(bits); }

int rows_of(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

int64_t unit(const BlockWeights& w) {
  int64_t elements = 0;
  with_bits(w.bits, [&]<int bits>() { elements = registers_of<bits>(w.block) * chunk_of<bits>; });
  return elements;
}

int64_t row_floats(const BlockWeights& w) {
  int64_t of_unit = 0;
  with_bits(w.bits, [&]<int bits>() { of_unit = unit_floats<bits>(registers_of<bits>(w.block)); });
  const int64_t elements = unit(w);
  return (w.k + elements - 1) / elements * of_unit;
}

SMELT_INLINE F32 magnitude(F32 x) { return as_float(bits(x) & splat(int32_t{0x7fffffff})); }

/// n numbers, a multiple of the lanes, as factor · bytes; the factor. It is no number where one of them is none, or infinite.
SMELT_INLINE float rounded(const float* a, int64_t n, int32_t* bytes) {
  F32 largest = splat(0.0f), none = splat(0.0f);
  for (int64_t i = 0; i < n; i += lanes) {
    const F32 x = load(a + i);
    largest = raw_max(magnitude(x), largest);
    none = fma(x, splat(0.0f), none);
  }
  float each[lanes], most = 0;
  store(each, largest);
  for (int i = 0; i < lanes; ++i) most = each[i] > most ? each[i] : most;
  const float factor = most / 127;
  // Of numbers so small that the quotient overflows nothing is left.
  const F32 by = splat(factor > 0x1p-120f ? 1 / factor : 0.0f), top = splat(127.0f);
  for (int64_t i = 0; i < n; i += lanes) {
    const I32 v = to_int(raw_max(raw_min(load(a + i) * by, top), -top));
    __builtin_memcpy(bytes + i, &v, sizeof v);
  }
  return factor + sum(none);
}

template <int bits> void round_as(const BlockWeights& w, const float* a, float* to, float* sums) {
  constexpr int most = 2 * chunk_of<bits>;
  const int registers = registers_of<bits>(w.block), elements = registers * chunk_of<bits>;
  const int64_t group = w.block < elements ? w.block : elements;
  const int zero = w.zeros ? 0 : w.taken - w.zero;
  if (sums)
    for (int64_t i = 0; i < w.blocks; ++i) sums[i] = 0;
  for (int64_t begin = 0; begin < w.k; begin += elements, to += unit_floats<bits>(registers)) {
    float padded[most];
    const float* from = a + begin;
    if (const int64_t left = w.k - begin; left < elements) {
      for (int64_t i = 0; i < elements; ++i) padded[i] = i < left ? from[i] : 0.0f;
      from = padded;
    }
    int32_t numbers[most];
    int8_t* bytes = reinterpret_cast<int8_t*>(to);
    float factors[lanes];
    for (int64_t at = 0; at < elements; at += group) {
      const float factor = rounded(from + at, group, numbers + at);
      // Of a register's lanes those that this group meets; of two registers all.
      const int64_t first = group == elements ? 0 : at * lanes / elements,
                    count = group == elements ? lanes : group * lanes / elements;
      for (int64_t i = 0; i < count; ++i) factors[first + i] = factor;
      if (sums && begin + at < w.k) {
        int32_t total = 0;
        for (int64_t i = 0; i < group; ++i) total += numbers[at + i];
        sums[(begin + at) / w.block] += factor * static_cast<float>(total);
      }
    }
    int32_t starts[lanes] = {};
    for (int r = 0; r < registers; ++r)
      for (int p = 0; p < planes<bits>; ++p) {
        const int32_t* of_plane = numbers + r * chunk_of<bits> + p;
        for (int i = 0; i < register_bytes; ++i) *bytes++ = static_cast<int8_t>(of_plane[i * planes<bits>]);
      }
    if (zero)
      for (int r = 0; r < registers; ++r)
        for (int l = 0; l < lanes; ++l)
          for (int i = 0; i < 4 * planes<bits>; ++i) starts[l] += zero * numbers[r * chunk_of<bits> + l * 4 * planes<bits> + i];
    __builtin_memcpy(bytes, factors, sizeof factors);
    __builtin_memcpy(bytes + sizeof factors, starts, sizeof starts);
  }
}

void round_row(const BlockWeights& w, const float* a, float* to, float* sums) {
  with_bits(w.bits, [&]<int bits>() { round_as<bits>(w, a, to, sums); });
}

template <int bits, int p> SMELT_INLINE I32 plane(I32 words) {
  if constexpr (bits == 8) return words;
  constexpr uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  if constexpr (p == 0) return words & splat(static_cast<int32_t>(mask));
  return shift_right<p * bits>(words) & splat(static_cast<int32_t>(mask));
}

SMELT_INLINE I32 load_ints(const float* p) { return load_words(reinterpret_cast<const uint8_t*>(p)); }

/// What several products read is loaded once: g++ would make memory operands of it.
template <class T> SMELT_INLINE void keep(T& x) { asm("" : "+v"(x.v)); }

/// Columns of a tile of so many rows: a row's bytes are read once for all columns, and the sums stay in registers.
constexpr int columns_of(int rows) { return lanes == 16 ? (rows <= 2 ? 4 : 2) : 4 / rows; }

/// sums[m][j] += Σ of the weights of register r of each column.
template <int bits, int rows, int columns, int p = 0>
SMELT_DOT SMELT_INLINE void add_planes(const I32 (&words)[columns], const float* const (&a)[rows], int offset,
                                       I32 (&sums)[rows][columns]) {
  if constexpr (p < planes<bits>) {
    I32 w[columns];
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) w[j] = plane<bits, p>(words[j]);
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) {
      I32 x = load_ints(a[m] + offset + p * lanes);
      if (columns > 1) keep(x);
      SMELT_UNROLL
      for (int j = 0; j < columns; ++j) sums[m][j] = dot<bits>(sums[m][j], w[j], x);
    }
    add_planes<bits, rows, columns, p + 1>(words, a, offset, sums);
  }
}

/// totals[m][j] += Σ over a unit of each column, of which `q` is the first's.
template <int bits, int registers, int rows, int columns>
SMELT_DOT SMELT_INLINE void add_unit(const uint8_t* const (&q)[columns], I32 turned, const F32 (&scales)[columns],
                                     const float* const (&a)[rows], F32 (&totals)[rows][columns]) {
  constexpr int bytes = registers * planes<bits> * lanes;  // of the row's unit, as floats
  I32 sums[rows][columns];
  SMELT_UNROLL
  for (int m = 0; m < rows; ++m) {
    I32 start = load_ints(a[m] + bytes + lanes);
    if (columns > 1) keep(start);
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) sums[m][j] = start;
  }
  SMELT_UNROLL
  for (int r = 0; r < registers; ++r) {
    I32 words[columns];
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) words[j] = load_words(q[j] + r * register_bytes) ^ turned;
    add_planes<bits, rows, columns>(words, a, r * planes<bits> * lanes, sums);
  }
  SMELT_UNROLL
  for (int m = 0; m < rows; ++m) {
    F32 factor = load(a[m] + bytes);
    if (columns > 1) keep(factor);
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) totals[m][j] = fma(to_float(sums[m][j]) * factor, scales[j], totals[m][j]);
  }
}

/// The part of a row's weights that all columns have, and where their scales lie in memory.
struct Range {
  int64_t whole, rest;  // units, and bytes behind them
  int64_t count;        // blocks of a unit
  int shift;            // units of a block, as a power of two
  I32 turned, lane;     // what turns the numbers' signs; the block of each lane
  int64_t left;         // blocks that the rest meets
};

/// The scales of a unit's lanes, of which `count` differ.
SMELT_INLINE F32 scales_of_unit(const float* scales, int64_t unit, int64_t count, const Range& range) {
  return permuted(load_first(scales + (unit * range.count >> range.shift), count), range.lane);
}

template <int bits, int registers, int rows, int columns>
SMELT_DOT SMELT_INLINE void add_columns(const Range& range, const uint8_t* first, int64_t q_step,
                                        const float* const (&scales)[columns], const float* a, int64_t a_step, float* y,
                                        int64_t y_step) {
  constexpr int64_t bytes = registers * register_bytes;
  constexpr int floats = unit_floats<bits>(registers);
  F32 totals[rows][columns];
  const uint8_t* q[columns];
  const float* rows_of_a[rows];
  SMELT_UNROLL
  for (int m = 0; m < rows; ++m) rows_of_a[m] = a + m * a_step;
  SMELT_UNROLL
  for (int j = 0; j < columns; ++j) {
    q[j] = first + j * q_step;
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) totals[m][j] = splat(0.0f);
  }
  for (int64_t u = 0; u < range.whole; ++u) {
    F32 s[columns];
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) {
      s[j] = scales_of_unit(scales[j], u, range.count, range);
      // The next columns, which come from memory where there is one row: too far ahead for the processor's own prefetches.
      if (rows == 1)
        for (int64_t at = 0; at < bytes; at += 64)
          _mm_prefetch(reinterpret_cast<const char*>(q[j]) + columns * q_step + at, _MM_HINT_T0);
    }
    add_unit<bits, registers, rows, columns>(q, range.turned, s, rows_of_a, totals);
    SMELT_UNROLL
    for (int j = 0; j < columns; ++j) q[j] += bytes;
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) {
      rows_of_a[m] += floats;
      asm("" : "+r"(rows_of_a[m]));  // a pointer each: g++ would keep many sums of pointers and steps, and spill them
    }
  }
  if (range.rest > 0) {
    uint8_t words[columns][bytes] = {};
    F32 s[columns];
    for (int j = 0; j < columns; ++j) {
      __builtin_memcpy(words[j], q[j], static_cast<size_t>(range.rest));
      q[j] = words[j];
      s[j] = scales_of_unit(scales[j], range.whole, range.left, range);
    }
    add_unit<bits, registers, rows, columns>(q, range.turned, s, rows_of_a, totals);
  }
  SMELT_UNROLL
  for (int m = 0; m < rows; ++m) SMELT_UNROLL
  for (int j = 0; j < columns; ++j) y[m * y_step + j] += sum(totals[m][j]);
}

template <int bits, int registers, int rows> SMELT_DOT void add_as(const BlockWeights& w, int64_t columns, int64_t from,
                                                                   int64_t to, const float* a, int64_t a_step, float* y,
                                                                   int64_t y_step, float* memory) {
  constexpr int64_t elements = registers * chunk_of<bits>, bytes = registers * register_bytes;
  constexpr int together = columns_of(rows);
  Range range;
  // Signed numbers are read as unsigned ones; AVX2 reads those of 8 bits as signed ones again.
  range.turned = splat(sign_of_words<bits>(w.is_signed) ^ (taken_of(bits) ? sign_of_words<bits>(true) : 0));
  range.count = w.block < elements ? elements / w.block : 1;
  range.shift = 0;
  while ((elements << range.shift) < w.block) ++range.shift;
  int32_t block_of_lane[lanes];
  for (int i = 0; i < lanes; ++i) block_of_lane[i] = static_cast<int32_t>(i * range.count / lanes);
  __builtin_memcpy(&range.lane, block_of_lane, sizeof range.lane);
  const int64_t all = ((to - from) * bits + 7) / 8;
  range.whole = all / bytes;
  range.rest = all - range.whole * bytes;
  const int64_t first = from / w.block, last = (to + w.block - 1) / w.block, step = scales_step(last - first);
  range.left = last - first - (range.whole * range.count >> range.shift);
  if (range.left > range.count) range.left = range.count;
  a += from / elements * unit_floats<bits>(registers);
  const uint8_t* q = w.q + from * bits / 8;
  // Floats are read where they are; other scales are made floats.
  const auto scales_of = [&](int64_t column, float* to) {
    if (w.scale_kind == simd::FloatKind::f32) return static_cast<const float*>(w.scales) + column * w.blocks + first;
    scales_of_row(w, column, first, last, to);
    return static_cast<const float*>(to);
  };
  int64_t j = 0;
  for (; j + together <= columns; j += together) {
    const float* scales[together];
    for (int i = 0; i < together; ++i) scales[i] = scales_of(j + i, memory + i * step);
    add_columns<bits, registers, rows, together>(range, q + j * w.q_step, w.q_step, scales, a, a_step, y + j, y_step);
  }
  for (; j < columns; ++j) {
    const float* scales[1] = {scales_of(j, memory)};
    add_columns<bits, registers, rows, 1>(range, q + j * w.q_step, w.q_step, scales, a, a_step, y + j, y_step);
  }
}

template <int bits, int registers> void add_rows(const BlockWeights& w, int64_t columns, int64_t from, int64_t to, const float* a,
                                                 int64_t a_step, int rows, float* y, int64_t y_step, float* memory) {
  if (rows == 1) return add_as<bits, registers, 1>(w, columns, from, to, a, a_step, y, y_step, memory);
  if (rows == 2) return add_as<bits, registers, 2>(w, columns, from, to, a, a_step, y, y_step, memory);
  return add_as<bits, registers, 4>(w, columns, from, to, a, a_step, y, y_step, memory);
}

void add(const BlockWeights& w, int64_t columns, int64_t from, int64_t to, const float* a, int64_t a_step, int rows, float* y,
         int64_t y_step, float* memory) {
  with_bits(w.bits, [&]<int bits>() {
    if (registers_of<bits>(w.block) == 2) return add_rows<bits, 2>(w, columns, from, to, a, a_step, rows, y, y_step, memory);
    add_rows<bits, 1>(w, columns, from, to, a, a_step, rows, y, y_step, memory);
  });
}

}  // namespace

const BlockTable& block_bytes_table() {
  static constexpr BlockTable table = {rows_of, taken, true, unit, row_floats, round_row, start_blocks, add};
  return table;
}

}  // namespace smelt::SMELT_ISA
#endif
