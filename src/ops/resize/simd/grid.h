// GridSample's taps of some places at once, nearest and linear; for *.simd.cpp sources and the driver (ops/resize/cpu_grid.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int64_t grid_block = 128;  // places at a time
inline constexpr int grid_axes = 3;         // at most
inline constexpr int grid_most_taps = 8;    // of a place: two along each axis

enum class GridPadding : uint8_t { zeros, border, reflection };

/// The image's geometry. Offsets within a plane fit 31 bits.
struct GridGeometry {
  int axes;
  int64_t extents[grid_axes], steps[grid_axes];
  GridPadding padding;
  bool align, nearest;
  int taps() const { return nearest ? 1 : 1 << axes; }
};

/// [tap][place]; a tap that is not there, or has no weight, has the weight 0 and the offset -1.
struct GridBlock {
  alignas(64) int32_t offsets[grid_most_taps][grid_block];
  alignas(64) float weights[grid_most_taps][grid_block];
};

struct GridTable {
  /// Of `count` places, whose coordinates lie behind each other, the innermost axis first.
  void (*find)(const GridGeometry& g, const float* grid, int64_t count, GridBlock* to);
  /// y[o] = Σ over taps of weight · x[offset].
  void (*sum)(const GridBlock& b, int taps, const float* x, int64_t count, float* y);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::GridTable& grid_table();
}
namespace smelt::avx2 {
const ops::GridTable& grid_table();
}
