// The end of a tile whose program takes Width columns at a time: a lane has neighbouring columns of a row, the same in all of its
// rows, so that what it reads of one value a column it reads once.
//
//   sums  → exchange, 16 rows of the warp's columns at a time → lanes (Width) of a row each → program → y, whole lines of a warp
//
// Epilogue::width is Width, which divides N. Rows beyond the output read the operands of its last one, and are not written.
#pragma once

#include "common/types.cuh"
#include "kernels/gemm/exchange.h"

/// Whether a warp's lanes share its rows evenly.
template <class Tile, int Width> __device__ constexpr bool finishes_wide() {
  return Tile::warp_n % Width == 0 && Tile::warp_n / Width <= 32 && 32 % (Tile::warp_n / Width) == 0;
}

/// ByColumn: a bit for each operand that has one value a column. shared: Tile::exchange_bytes, of which a warp uses its own alone.
/// row, column: the tile's first; m, n: the output's.
template <u32 ByColumn, class Tile, class Epilogue>
__device__ __forceinline__ void finish_wide(const Tile& sums, char* shared, const Epilogue& epilogue, u32 batch, u32 m, u32 n, u32 row,
                                            u32 column) {
  using Sum = typename Tile::Sum;
  using Operands = typename Epilogue::Operands;
  constexpr int width = Epilogue::width, of_row = Tile::warp_n / width, rows = 32 / of_row, passes = 16 / rows;   // rows: at once
  static_assert(finishes_wide<Tile, width>() && rows <= 16 && width % 4 == 0);
  Sum* const exchange = reinterpret_cast<Sum*>(shared) + threadIdx.x / 32 * (16 * Tile::exchange_row);           // (16, warp_n)
  const int lane = Tile::lane(), in_warp = lane % of_row * width;
  const u32 c = column + Tile::first_column() + in_warp;
  const bool inside = c < n;                                                // all of the columns: width divides n
  const auto start = epilogue.start(batch);
  Operands columns;                                                         // (width) of (N)
  if (inside) epilogue.template fetch_some<ByColumn>(columns, start, 0, c, width);
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    if (i > 0) __syncwarp();
    sums.put(exchange, i, [](int c) { return static_cast<int>(exchanged(static_cast<u32>(c))); });
    __syncwarp();
    if (!inside) continue;
    const u32 first = row + Tile::first_row() + i * 16 + lane / of_row;
    Operands all[passes];                                                   // (rows) of (width)
    Sum v[passes][width];
#pragma unroll
    for (int k = 0; k < passes; ++k) {
      const u32 r = first + k * rows;
      all[k] = columns;
      epilogue.template fetch_some<~ByColumn>(all[k], start, r < m ? r : m - 1, c, width);
#pragma unroll
      for (int e = 0; e < width; e += 4) {
        const Sum* from = exchange + (lane / of_row + k * rows) * Tile::exchange_row + exchanged(in_warp + e);
        const auto four = *reinterpret_cast<const Vector<Sum, 4>*>(from);
#pragma unroll
        for (int w = 0; w < 4; ++w) v[k][e + w] = four.at[w];
      }
    }
#pragma unroll
    for (int k = 0; k < passes; ++k)
      if (first + k * rows < m) epilogue.write(all[k], width, v[k]);
  }
}
