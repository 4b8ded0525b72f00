#include "ops/conv/cpu_winograd_plan.h"

#include <algorithm>

#include "base/number.h"

namespace smelt::ops::conv {
namespace {

using igemm::tile_columns;
using igemm::tile_rows;

}  // namespace

int64_t winograd_position_step(int64_t elements) { return round_up(elements, 16) + 16; }

WinogradPlan winograd_plan(const Problem& p, int64_t depth, int threads) {
  WinogradPlan s{};
  s.tiles_y = divide_up(p.y[2], 2);
  s.tiles_x = divide_up(p.y[3], 2);
  s.tiles = p.y[0] * s.tiles_y * s.tiles_x;
  const int64_t outputs = p.outputs();
  constexpr int64_t most_elements = 320 * 1024, fewest_tiles = 24;
  const int64_t most =
      std::clamp<int64_t>(most_elements / (winograd_positions * depth) / tile_rows * tile_rows, 2 * tile_rows, 16 * tile_rows);
  const int64_t blocks = s.tiles <= most ? 1 : round_up(divide_up(s.tiles, most), threads);
  s.columns = outputs;
  if (s.tiles < fewest_tiles * threads) {
    // Few tiles: each thread takes all of them, for output channels of its own.
    s.block = std::min(s.tiles, most);
    s.columns = round_up(divide_up(outputs, threads), tile_columns);
  } else {
    s.block = round_up(divide_up(s.tiles, std::max<int64_t>(blocks, threads)), tile_rows);
  }
  s.slice = std::min<int64_t>(round_up(s.columns, tile_columns), 64);
  return s;
}

void winograd_multiply(const igemm::Tiles& tiles, const WinogradProduct& p, std::span<const int32_t> parts, int64_t column,
                       int64_t columns) {
  int64_t k = 0;
  for (const int32_t& length : parts) {
    const auto width_at = [&](int64_t j) { return p.outputs - column - j <= 8 ? 8 : tile_columns; };
    const auto panel_at = [&](int64_t j) { return p.weights + (column + j) * p.depth + k * width_at(j); };
    int64_t panels = 0;
    for (int64_t j = 0; j < columns; j += panels * tile_columns) {
      panels = std::min<int64_t>(tiles.most_panels(), divide_up(columns - j, tile_columns));
      igemm::Tile tile{};
      tile.lengths = &length;
      tile.parts = 1;
      tile.columns = static_cast<int32_t>(std::min(panels * tile_columns, p.outputs - column - j));
      tile.b = panel_at(j);
      if (panels == 2) tile.beside = panel_at(j + tile_columns);
      tile.resume = k > 0;
      tile.sums_stride = p.slice;
      igemm::for_tiles(tiles, tile, width_at(j) == tile_columns, p.tiles,
                       [&](int64_t first, int rows, igemm::TileRows& at, igemm::Tile& own) {
                         for (int r = 0; r < rows; ++r) at.a[r] = p.input + (first + r) * p.depth + k;
                         own.rows = at.a;
                         own.sums = p.sums + first * p.slice + j;
                       });
    }
    k += length;
  }
}

}  // namespace smelt::ops::conv
