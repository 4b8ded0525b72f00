// The argument of gemm/hopper.cuh, and what its tiles are compiled for.
#pragma once

#include "kernels/common/divider.h"
#include "kernels/common/tensor_map.h"
#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// Whether a's rows are normalised before they are multiplied: divided by the root of their mean square, or by their deviation, where b's
/// columns sum to nothing, so that what is the same in all of a row falls out.
enum class HopperNorm { none, rms, layer };

struct HopperTileConfig {
  int m, n;                              // of y
  int groups;                            // of four warps that multiply
  int stages;
  bool a_k_major, b_k_major;             // how the operands' lines run
  bool swap;                             // b's columns fill the instruction's 64 rows
  bool alternate;                        // each group has tiles of its own, and multiplies while the others finish theirs
  int across, down;                      // a patch of blocks of a cluster: those side by side share a, those below each other b
  int registers;                         // of a multiplying thread by setmaxnreg; 0: as launched
  bool b_packed;                         // b is no map: stages as shared memory has them lie one behind the other
  HopperNorm norm = HopperNorm::none;
  int line = 128;                        // bytes of K of a stage; or 64, of integers
};

constexpr int hopper_store_lines = 16, hopper_store_columns = 64;   // of a box of y

/// How the sums of a tile become y (gemm/hopper_finish.cuh).
enum class HopperFinishing {
  by_fours,        // through shared memory as floats
  split_by_memory, // of a split K: parts through a workspace, the last block to arrive adds them
  split_by_cluster,// the same: the blocks of a cluster send each other their parts
  in_registers,    // programs over the sums where they lie, then 16-bit results through shared memory; of integers with swap bytes
  side_by_side,    // the same, of b's lines in such an order that a lane's sums are of neighbouring columns (walked_channel)
};

/// How an operand of a program in registers is read.
enum class HopperOperandKind {
  each,       // element by element
  by_column,  // one value a column, side by side: copied to shared memory before the products begin
  staged,     // elements as y has them, of up to 16 bits: copied to where y is staged, or side by side to what is held for a lane
  up,         // no memory: a second product's sums, 64 columns of b's behind every 64 of the first (a gate's)
};

/// Where a column's operands lie among those of a tile, where a lane has `width` neighbouring columns and reads `part` of them at a
/// time (side_by_side): the four lanes that have columns of a row read vectors that lie side by side, and so all banks but once.
SMELT_SHARED constexpr int lane_column_place(int column, int width, int part) {
  const int of_block = column % (4 * width), lane = of_block / width, at = of_block % width;
  return column - of_block + at / part * (4 * part) + lane * part + at % part;
}

/// The channel, in blocks of 16, that a line of b has where lanes' two lines in 16, eight apart, are to be of neighbouring channels.
SMELT_SHARED constexpr int paired_channel(int line) { return line / 16 * 16 + line % 8 * 2 + line / 8 % 2; }

struct HopperGemmArgs {
  TensorMap a;                           // [matrices, M, K], or [matrices, K, M] where its lines run along M
  TensorMap b;                           // [matrices, N, K], or [matrices, K, N]; b_packed: the address, tiles of columns
  TensorMap y[2];                        // where results are stored by maps: boxes of (16, 64), and of the columns left of a tile
  void* partial;                         // (tile, split, TileM, TileN) floats, where K is split by memory
  u32* arrived;                          // (tile), 0 between launches
  u32 m, n, k;
  u32 tiles_m;
  u32 tiles;                             // of all batches
  Divider tiles_of_batch;
  Divider tiles_of_raster;               // raster_rows rows of them (gemm/raster.cuh)
  u32 split_k;                           // steps of K of a split, whole tiles of them
  u32 b_ahead;                           // b is a constant, and its first stages come while the kernel before still runs
  float inverse_k, epsilon;              // where rows are normalised: 1 / K, and what is added to the variance
};
static_assert(sizeof(HopperGemmArgs) == 640);

/// `batches`: which of their maps' matrices a and b are.
template <int BatchRank> struct BatchedHopperArgs {
  HopperGemmArgs gemm;
  Walk<BatchRank, 2> batches;
};

}  // namespace smelt::kernels
