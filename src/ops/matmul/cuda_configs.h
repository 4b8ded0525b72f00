// The tiles that a GPU's matrix products are cut into, and which of them suit a problem.
#pragma once

#include <string>
#include <vector>

#include "ops/cuda/gpu.h"
#include "ops/matmul/cuda_problem.h"

namespace smelt::ops::matmul {

struct CudaConfig {
  enum class Unit {
    tensor,
    tf32,
    fma
  };  // tensor cores in the operands' type, with f32 rounded to tf32, or multiply-adds in float
  Unit unit = Unit::tensor;
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  int64_t warps_m = 0, warps_n = 0;  // fma: threads
  int64_t stages = 0;
  bool ahead = false;  // tensor, tf32: fragments load across the barrier between stages
  int64_t splits = 1;  // of k
  // Stream-K: the last `streamed` tiles are dealt out by steps of K to `streams` blocks, at least as many; 0: each tile has a block.
  int64_t streamed = 0, streams = 0;
  int64_t ring = 0;         // tensor: fragments of a that a WovenTile holds; 0: a TensorTile
  bool persistent = false;  // woven: as many blocks as run at once
  bool fed = false;         // woven: tensor maps bring the stages (src/kernels/gemm/fed.cuh)

  int64_t threads() const { return warps_m * warps_n * (unit == Unit::fma ? 1 : 32); }
  int64_t shared_bytes(int64_t element) const;
  /// Blocks that a multiprocessor holds at once, registers guessed by the sums.
  int64_t blocks_at_once(int64_t element, const device::cuda::DeviceInfo& info) const;
  /// Of all batches.
  int64_t tiles(const CudaProblem& p) const;
  /// "128x64x32 2x2 s4a k2": the tile, its warps, stages ("a": ahead, "w4": a WovenTile with a ring of 4, "p": persistent, "t": fed), splits, or "stream 9:132", 9 tiles that 132 blocks share; "fma"
  /// or "tf32" before it.
  std::string print() const;
  bool operator==(const CudaConfig&) const = default;
};

/// The C++ type of the kernel's tile (src/kernels/gemm/tensor_tile.cuh, float_tile.cuh).
std::string tile_type(const CudaProblem& p, const CudaConfig& c);

/// The program, by 8 columns at a time where the tile's end and all of its tensors take so many.
CudaEpilogue tile_epilogue(const CudaProblem& p, const CudaConfig& c);

/// Microseconds that the problem takes by this config, guessed: waves of blocks, each as long as its operations or its bytes
/// take.
double cuda_estimate_us(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu);

/// What can run here, the best guess first; at least one, or why nothing can. Convolutions have these tiles too.
Result<std::vector<CudaConfig>> cuda_configs(const CudaProblem& p, const Gpu& gpu);
/// The same with woven tiles, which products alone have.
Result<std::vector<CudaConfig>> product_configs(const CudaProblem& p, const Gpu& gpu);
/// Those of cuda_configs() with streams, where the last round of blocks leaves some idle.
std::vector<CudaConfig> streamed_configs(const CudaProblem& p, const Gpu& gpu);

}  // namespace smelt::ops::matmul
