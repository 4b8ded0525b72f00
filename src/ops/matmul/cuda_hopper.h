// Matrix products by Hopper's own instructions (src/kernels/gemm/hopper.cuh): the tiles, and which of them suit a problem.
#pragma once

#include <string>
#include <vector>

#include "ops/cuda/gpu.h"
#include "ops/matmul/cuda_problem.h"

namespace smelt::ops::matmul {

struct HopperConfig {
  int64_t tile_m = 0, tile_n = 0;
  int64_t groups = 1;       // of four warps that multiply
  int64_t blocks = 1;       // that a multiprocessor holds at once
  bool swap = false;        // b's columns fill the instruction's 64 rows
  bool persistent = false;  // as many blocks as run at once, each of them over several tiles
  int64_t splits = 1;       // of k
  int64_t stages = 0;

  static constexpr int64_t tile_k = 64;
  int64_t threads() const { return 128 * groups + 32; }
  int64_t stage_bytes(const CudaProblem& p) const;
  int64_t shared_bytes(const CudaProblem& p) const;
  /// "128x256x64 g2 s4 b1 k1": the tile, its groups, stages, blocks ("p": persistent) and splits; "swap" behind the tile.
  std::string print() const;
};

/// The C++ type of the kernel's tile.
std::string hopper_tile_type(const CudaProblem& p, const HopperConfig& c);
/// Microseconds, guessed.
double hopper_estimate_us(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu);
/// What can run here, the best guess first; at least one, or why nothing can.
Result<std::vector<HopperConfig>> hopper_configs(const CudaProblem& p, const Gpu& gpu);
/// One kernel; inputs as cuda_product has them.
std::unique_ptr<Kernel> hopper_product(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu);

}  // namespace smelt::ops::matmul
