// What convolutions in Winograd's form F(2 × 2, 3 × 3) share: how tiles of 2 × 2 outputs are dealt out, and the products of the
// 16 positions.
#pragma once

#include <span>

#include "ops/conv/problem.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/igemm/tiles.h"

namespace smelt::ops::conv {

inline constexpr int64_t winograd_positions = 16;

struct WinogradPlan {
  int64_t tiles_y, tiles_x, tiles;  // of an image; of all
  int64_t block;                    // tiles of a task
  int64_t columns;                  // output channels of a task
  int64_t slice;                    // output channels between the transforms

  /// A tile's first output.
  struct Origin {
    int64_t n, y, x;
  };
  Origin origin(int64_t tile) const {
    const int64_t x = tile % tiles_x, y = tile / tiles_x % tiles_y;
    return {tile / tiles_x / tiles_y, 2 * y, 2 * x};
  }
  int64_t blocks() const { return (tiles + block - 1) / block; }
  int64_t splits(int64_t outputs) const { return (outputs + columns - 1) / columns; }
};

/// `depth`: elements of 4 bytes that a transformed pixel has, floats or pairs of 16-bit integers.
WinogradPlan winograd_plan(const Problem& p, int64_t depth, int threads);

/// Elements of 4 bytes from one position to the next: not a multiple of 4 KiB, which would put all 16 into the same cache sets.
int64_t winograd_position_step(int64_t elements);

/// One position: sums [tiles, slice] = input [tiles, depth] · weights [depth, outputs], packed.
struct WinogradProduct {
  const float* input;
  const float* weights;
  float* sums;
  int64_t tiles, depth, outputs, slice;
};
/// For output channels [column, column + columns), `parts` of the depth at a time.
void winograd_multiply(const igemm::Tiles& tiles, const WinogradProduct& p, std::span<const int32_t> parts, int64_t column,
                       int64_t columns);

}  // namespace smelt::ops::conv
