// The kernels of tiles on this CPU, and the loop over the rows of a panel.
#pragma once

#include <algorithm>

#include "expr/simd/isa.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::igemm {

struct Tiles {
  const TileTable& one;
  const WideTable* wide;  // used instead where there are any

  /// Of a tile.
  int most_panels() const { return wide ? 2 : 1; }
};
inline bool has_wide_tiles() { return simd::widest() == simd::Isa::avx512; }
inline Tiles float_tiles() { return {avx2::tile_table(), has_wide_tiles() ? &avx512::wide_tile_table() : nullptr}; }
inline Tiles quad_tiles() { return {avx2::quad_table(), nullptr}; }
inline Tiles byte_quad_tiles() { return {avx2::byte_quad_table(), nullptr}; }
inline Tiles byte_pair_tiles() { return {avx2::byte_pair_table(), nullptr}; }
inline Tiles pair_tiles() { return {avx2::pair_table(), has_wide_tiles() ? &avx512::wide_pair_table() : nullptr}; }

/// How many times AVX2's rate the tiles of floats have here, of a whole product; for estimates.
inline double rate() { return has_wide_tiles() ? 1.6 : 1; }
/// How many times the work of n columns its panels take.
inline double padding(int64_t n) { return n == 0 ? 1 : static_cast<double>(packed_columns(n)) / static_cast<double>(n); }
/// Bytes of a product's two operands and its result, in f32.
inline double moved(int64_t m, int64_t n, int64_t k) { return 4.0 * static_cast<double>(m * k + n * k + m * n); }
/// Microseconds that a core takes to begin and end tiles, whatever K is: 5 ns for a row of a panel, of what 1001 x 1001 by K = 3, 20001 x 7 by
/// 5 and 2001 x 2 by 33 took beyond their bytes.
inline double tiles_us(int64_t m, int64_t n) {
  const int64_t panels = (n + tile_columns - 1) / tile_columns;
  return 5e-3 * static_cast<double>(m) * static_cast<double>(panels);
}

/// Where the rows of a tile lie.
struct TileRows {
  const float* a[tile_rows];
  float* c[tile_rows];
  const float* residual[tile_rows];
};

/// Rows of the next wide tile. 13 to 15 are not left as 12 and a few: sums of 1 to 3 rows wait for each other.
inline int64_t rows_at_once(int64_t left) {
  constexpr int64_t most = 2 * tile_rows, few = 3;
  return left > most && left <= most + few ? tile_rows : std::min(most, left);
}

/// Runs the tiles of `rows` rows and of `common`'s panels; of one, 16 columns wide where `is_whole`, else 8. `common`: what they share;
/// place(i, count, rows, tile) sets the rest for rows [i, i + count), and may point the tile at `rows`.
template <class Place> void for_tiles(const Tiles& tiles, const Tile& common, bool is_whole, int64_t rows, Place&& place) {
  Tile tile[2] = {common, common};
  TileRows at[2];
  const auto place_at = [&](int64_t i, int64_t count, int which) { place(i, static_cast<int>(count), at[which], tile[which]); };
  for (int64_t i = 0, count = 0; i < rows; i += count) {
    count = tiles.wide ? rows_at_once(rows - i) : std::min<int64_t>(tile_rows, rows - i);
    place_at(i, std::min<int64_t>(tile_rows, count), 0);
    if (count > tile_rows) place_at(i + tile_rows, count - tile_rows, 1);
    if (tiles.wide)
      tiles.wide->run[count - 1][common.beside != nullptr](tile[0], tile[1]);
    else
      tiles.one.run[count - 1][is_whole](tile[0]);
  }
}

}  // namespace smelt::ops::igemm
