// Matrix products by Hopper's own instructions (src/kernels/gemm/hopper.cuh): the tiles, and which of them suit a problem.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/gemm/hopper.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/cuda_problem.h"

namespace smelt::ops::matmul {

struct HopperConfig {
  int64_t tile_m = 0, tile_n = 0;
  int64_t groups = 1;            // of four warps that multiply
  int64_t blocks = 1;            // that a multiprocessor holds at once
  bool swap = false;             // b's columns fill the instruction's 64 rows
  bool alternate = false;        // each group has tiles of its own; persistent
  int64_t across = 1, down = 1;  // a patch of blocks: side by side they share a, below each other b
  int64_t registers = 0;         // of a multiplying thread by setmaxnreg; 0: as launched
  bool persistent = false;       // as many blocks as run at once, each of them over several tiles
  int64_t splits = 1;            // of k
  bool shares = false;           // blocks of the cluster of splits finish shares of a tile's columns as if these were tiles
  int64_t stages = 0;
  kernels::HopperFinishing finishing = kernels::HopperFinishing::by_fours;
  int64_t buffers = 1;        // in registers: of results that a warp, or with swap a group, stages
  bool mapped = false;        // likewise: they are stored by tensor maps
  int64_t columns_bytes = 0;  // likewise: of operands of one value a column, for each group
  int64_t held_bytes = 0;     // side by side: of what lies as y does, for each group
  bool transposed = false;    // b, a constant, is kept with its lines along K
  bool packed = false;        // b, a constant, is kept as shared memory has its stages
  bool gated = false;         // of two products, half of the columns each
  int64_t width = 0;          // side by side: neighbouring columns of y that a lane has
  bool paired = false;        // with swap, of integers: lanes have pairs of neighbouring columns (kernels/gemm/hopper_bytes.cuh)
  int64_t line = line_bytes;  // of a stage along K: bytes
  int64_t steps = tile_k;     // of K that it has
  int64_t lines = 0;          // of windows that slide (kernels/conv/sliding.cuh): windows that a buffer has; 0: of others
  double taps = 1;            // these's, that a buffer is read under

  static constexpr int64_t tile_k = 64, line_bytes = 128;  // tile_k: of 16 bits
  int64_t threads() const { return 128 * groups + (registers > 0 ? 128 : lines > 0 ? 64 : 32); }
  bool b_k_major(const CudaProblem& p) const { return transposed || p.b.k_major; }
  /// Groups of one tile; lines of 64 of the instruction's rows that each has, and its columns.
  int64_t sharing() const { return alternate ? 1 : groups; }
  int64_t rows() const { return (swap ? tile_n : tile_m) / (64 * sharing()); }
  int64_t columns() const { return swap ? tile_m : tile_n; }
  /// Whether the splits are a cluster; else their parts go through a workspace.
  bool cluster() const { return shares || finishing == kernels::HopperFinishing::split_by_cluster; }
  /// As a tile what a block finishes: all of it, or its share.
  HopperConfig finished() const;
  int64_t patch() const { return across * down; }
  /// Blocks of a cluster.
  int64_t cluster_blocks() const { return (cluster() ? splits : 1) * patch(); }
  /// Blocks that run at once on so many multiprocessors. A cluster lies within one of the groups that these come in, whose sizes
  /// differ: of 132 an H100 has room for fewer than 44 clusters of three or 32 of four.
  int64_t resident(int64_t multiprocessors) const {
    const int64_t cluster = cluster_blocks(), usable = cluster < 3 ? multiprocessors : multiprocessors * 9 / 10;
    return blocks * std::max<int64_t>(1, usable / cluster) * cluster;
  }
  /// b's lines along K where they lie side by side for lanes of `width` columns, and the column that one is, or beyond all of them.
  int64_t b_lines(int64_t columns) const;
  int64_t column_of(int64_t line) const;
  /// Of y, of all batches.
  int64_t tiles(const CudaProblem& p) const;
  /// With those of patches that lie beyond y: blocks have them, and do nothing.
  int64_t launched(const CudaProblem& p) const { return tiles_m(p) * down * tiles_n(p) * across * p.batches(); }
  /// Of y along an axis, or of patches of tiles where blocks have those.
  int64_t tiles_m(const CudaProblem& p) const;
  int64_t tiles_n(const CudaProblem& p) const;
  /// Where windows slide, with a tap's share of the pixels.
  int64_t stage_bytes(const CudaProblem& p) const;
  /// Of a stage, what a block's own copies bring of it to it and its neighbours.
  int64_t brought_bytes(const CudaProblem& p) const;
  int64_t shared_bytes(const CudaProblem& p) const;
  /// "128x256x64 g2 s4 b1 k1": the tile and steps of K, its groups, stages, blocks ("p": persistent) and splits; "swap", "w" (b packed) or "t" (b
  /// transposed) behind the tile, "a" behind groups that alternate, "r240" behind them registers, "+a" or "+b" what two blocks share
  /// ("+b4": four), "c4" instead of "k4" where the splits are a cluster, "e4" where its blocks finish shares, "l256" at the end where windows slide, "y" where results
  /// are stored by tensor maps.
  std::string print() const;
};

/// How operands are read where sums are finished in registers; `e`: over `width` columns at a time, as then.
std::vector<kernels::HopperOperandKind> hopper_operand_kinds(const CudaEpilogue& e, int64_t width);

/// The C++ type of the kernel's tile.
std::string hopper_tile_type(const CudaProblem& p, const HopperConfig& c);
/// Microseconds, guessed.
double hopper_estimate_us(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu);
/// Why a tensor map cannot describe an operand, of `extent` rows or columns and elements of so many bytes; empty where one can.
std::optional<Refusal> rejects_map(const CudaOperand& o, std::string_view name, int64_t extent, int64_t k, const Shape& batch,
                                   int64_t element);
/// What can run here, the best guess first; at least one, or why nothing can.
Result<std::vector<HopperConfig>> hopper_configs(const CudaProblem& p, const Gpu& gpu);
/// The same for a convolution of p.m windows that slide: a buffer is brought for every `taps_of_a_buffer` taps, and reaches so many
/// windows beyond the tile.
std::vector<HopperConfig> sliding_configs(const CudaProblem& p, const Gpu& gpu, double taps_of_a_buffer, int64_t reach);
/// The first `most` that are offered of these: few ways of one tile, so that several tiles are tried.
std::vector<HopperConfig> hopper_offered(const std::vector<HopperConfig>& configs, size_t most);
/// One kernel; inputs as cuda_product has them.
std::unique_ptr<Kernel> hopper_product(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu);

}  // namespace smelt::ops::matmul
