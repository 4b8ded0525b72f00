// The kernels of tiles on this CPU, and the loop over the rows of a panel.
#pragma once

#include <algorithm>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::igemm {

struct Tiles {
  const TileTable& one;
  const WideTable* two;  // tiles two at a time; null: the CPU takes one
};
inline Tiles float_tiles() { return {avx2::tile_table(), avx2::wide_tile_table()}; }
inline Tiles quad_tiles() { return {avx2::quad_table(), nullptr}; }
inline Tiles pair_tiles() { return {avx2::pair_table(), avx2::wide_pair_table()}; }

/// Where the rows of a tile lie.
struct TileRows {
  const float* a[tile_rows];
  float* c[tile_rows];
  const float* residual[tile_rows];
};

/// Runs the tiles of `rows` rows and one panel, 16 columns wide where `is_whole`, else 8. `common`: what they share;
/// place(i, count, rows, tile) sets the rest for rows [i, i + count), and may point the tile at `rows`.
template <class Place> void for_tiles(const Tiles& tiles, const Tile& common, bool is_whole, int64_t rows, Place&& place) {
  Tile tile[2] = {common, common};
  TileRows at[2];
  const auto count_from = [&](int64_t i) { return static_cast<int>(std::min<int64_t>(tile_rows, rows - i)); };
  for (int64_t i = 0; i < rows; i += tile_rows) {
    const int count = count_from(i);
    place(i, count, at[0], tile[0]);
    if (tiles.two && is_whole && i + tile_rows < rows) {
      i += tile_rows;
      const int second = count_from(i);
      place(i, second, at[1], tile[1]);
      tiles.two->run[second - 1](tile[0], tile[1]);
    } else {
      tiles.one.run[count - 1][is_whole](tile[0]);
    }
  }
}

}  // namespace smelt::ops::igemm
