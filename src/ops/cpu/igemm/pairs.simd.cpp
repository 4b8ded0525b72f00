// The integer tiles: A's and B's elements are pairs of 16-bit integers, whose products vpmaddwd adds exactly in 32 bits; or quads of
// bytes, where what vpmaddubsw adds is known to fit its 16 bits. Both take two multiplications for 32 products; pairs take two more
// additions for them, and twice the memory.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "ops/cpu/igemm/simd/sums.h"

namespace smelt::avx2 {
namespace {

using ops::igemm::Tile;
using ops::igemm::tile_rows;
using ops::igemm::TileTable;

/// 8 columns of a pair, of 16 bits.
struct Words {
  const int16_t* at;
  explicit Words(const Tile& t) : at(reinterpret_cast<const int16_t*>(t.b)) {}
  template <int vectors> __attribute__((always_inline)) void next(__m256i* column) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j, at += 16) column[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }
};

/// The same of 8 bits. Few rows share them, so that they come from memory.
struct Bytes {
  const int8_t* at;
  explicit Bytes(const Tile& t) : at(reinterpret_cast<const int8_t*>(t.b)) {}
  template <int vectors> __attribute__((always_inline)) void next(__m256i* column) {
    _mm_prefetch(at + 16 * vectors * ops::igemm::prefetched_ahead, _MM_HINT_T0);
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j, at += 16)
      column[j] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
};

template <class Panel, int rows, int vectors> void run(const Tile& t) {
  Sums<I32Lanes, rows, vectors> s;
  s.start(t);
  Panel b(t);
  const float* const* a = t.rows;
  for (int part = 0; part < t.parts; ++part, a += tile_rows) {
    const float* row[rows];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) row[r] = a[r];
    const int64_t length = t.lengths[part];
#pragma GCC unroll 2
    for (int64_t k = 0; k < length; ++k) {
      __m256i column[vectors];
      b.template next<vectors>(column);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        int32_t pair;
        std::memcpy(&pair, row[r] + k, sizeof pair);
        const __m256i x = _mm256_set1_epi32(pair);
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) s.v[r][j] = _mm256_add_epi32(s.v[r][j], _mm256_madd_epi16(x, column[j]));
      }
    }
  }
  s.leave(t);
}

/// Quads of bytes. A's are read anew for each column: sums, ones, a product, a column and they fill the registers.
template <int rows, int vectors> void run_quads(const Tile& t) {
  Sums<I32Lanes, rows, vectors> s;
  s.start(t);
  const __m256i ones = _mm256_set1_epi16(1);
  const int8_t* b = reinterpret_cast<const int8_t*>(t.b);
  const float* const* a = t.rows;
  for (int part = 0; part < t.parts; ++part, a += tile_rows) {
    const float* row[rows];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) row[r] = a[r];
    const int64_t length = t.lengths[part];
    for (int64_t k = 0; k < length; ++k, b += 32 * vectors) {
      _mm_prefetch(b + 32 * vectors * ops::igemm::prefetched_ahead, _MM_HINT_T0);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        const __m256i column = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 32 * j));
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          __m256i quad;
          asm("vpbroadcastd %1, %0" : "=x"(quad) : "m"(row[r][k]));
          const __m256i pairs = _mm256_maddubs_epi16(quad, column);
          s.v[r][j] = _mm256_add_epi32(s.v[r][j], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
  }
  s.leave(t);
}

constexpr TileTable quads = {{{run_quads<1, 1>, run_quads<1, 2>},
                              {run_quads<2, 1>, run_quads<2, 2>},
                              {run_quads<3, 1>, run_quads<3, 2>},
                              {run_quads<4, 1>, run_quads<4, 2>},
                              {run_quads<5, 1>, run_quads<5, 2>},
                              {run_quads<6, 1>, run_quads<6, 2>}}};

template <class Panel> constexpr TileTable table = {{{run<Panel, 1, 1>, run<Panel, 1, 2>},
                                                     {run<Panel, 2, 1>, run<Panel, 2, 2>},
                                                     {run<Panel, 3, 1>, run<Panel, 3, 2>},
                                                     {run<Panel, 4, 1>, run<Panel, 4, 2>},
                                                     {run<Panel, 5, 1>, run<Panel, 5, 2>},
                                                     {run<Panel, 6, 1>, run<Panel, 6, 2>}}};

}  // namespace

void widen_pairs(int16_t* to, const int8_t* from, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepi8_epi16(bytes));
  }
}

const TileTable& pair_table() { return table<Words>; }
const TileTable& byte_pair_table() { return table<Bytes>; }
const TileTable& byte_quad_table() { return quads; }

}  // namespace smelt::avx2
#endif
