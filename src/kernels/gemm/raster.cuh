// The order in which blocks take the tiles of products: so many rows of tiles column by column, so that the parts of a and b that
// blocks share stay in the L2 cache.
#pragma once

#include "common/integers.cuh"
#include "kernels/common/divider.h"
#include "kernels/gemm/raster.h"

/// Where tile `at` of all batches lies: its batch, and its row and column of tiles.
struct TilePlace {
  u32 batch, row, column;
  __device__ __forceinline__ TilePlace(u32 at, u32 tiles_m, u32 tiles_n) {
    const u32 tiles = tiles_m * tiles_n, tile = at % tiles;
    const u32 group = tile / (raster_rows * tiles_n), first = group * raster_rows;                // first: row of tiles
    const u32 high = tiles_m - first < raster_rows ? tiles_m - first : raster_rows, rest = tile % (raster_rows * tiles_n);
    batch = at / tiles;
    row = first + rest % high;
    column = rest / high;
  }
  /// The same without a division but in the last rows: `tiles`: of a batch, `group`: of raster_rows rows.
  __device__ __forceinline__ TilePlace(u32 at, u32 tiles_m, const Divider& tiles, const Divider& group) {
    batch = tiles.quotient(at);
    const u32 tile = at - batch * tiles.divisor, above = group.quotient(tile), first = above * raster_rows;
    const u32 high = tiles_m - first < raster_rows ? tiles_m - first : raster_rows, rest = tile - above * group.divisor;
    column = high == raster_rows ? rest / raster_rows : rest / high;
    row = first + rest - column * high;
  }
};
