// A convolution as the kernel takes it whose taps the host lays out (src/kernels/conv/walked.cuh).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv/walked.h"
#include "ops/conv/cuda_implicit_problem.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::conv {

using WalkedHead = kernels::WalkedArgs<void, void, 1, 1>;  // one of more segments and taps begins likewise
using WalkedSegment = kernels::WalkedSegment<void>;

struct WalkedProblem : ImplicitProblem {
  DType weight = DType::f16;   // of the packed weights
  std::vector<int32_t> zeros;  // of the images' integers
  bool filled = false;         // pixels outside of an image are not zeros
  bool scaled = false;         // segments of integers, each with its scales
  bool blocked = false;        // images lie in blocks of channels
  int64_t element = 2;         // bytes of one
  int64_t up = 1;              // the largest factor that an image is upsampled by

  /// Of a segment: the taps of windows that begin at each place among the copies of a pixel.
  int64_t steps() const { return tap_count() * up * up * (depth ? up : 1); }
};

/// The tile, and how K lies in it.
struct WalkedTile {
  matmul::CudaConfig config;
  int64_t chunk = 0;  // bytes
  int64_t width = 0;  // neighbouring channels of a lane
  int64_t line = 0;   // bytes of K
  int64_t in_line() const { return line / chunk; }
  /// "128x64x64 2x2 s4 k1 c64 w8": the configuration, the bytes of a chunk, the width.
  std::string print() const;
};

/// The problem, or why the kernel does not take it; `r` gets the program over sums from which zero points are yet to be taken.
Result<WalkedProblem> walked_problem(GpuRequest& r);

/// The chunk of the fewest tiles for this configuration, the largest of those; or nothing, where it does not suit.
std::optional<WalkedTile> walked_tile(const WalkedProblem& p, const matmul::CudaConfig& c, const CudaEpilogue& epilogue);

/// Tiles of K of a segment, and of all.
int64_t walked_tiles(const WalkedProblem& p, const ImageSegment& s, int64_t line, int64_t chunk);
int64_t walked_tiles(const WalkedProblem& p, const WalkedTile& t);

/// Microseconds that it takes by this tile, guessed; `moved`: bytes of the images, the weights, what the program reads and writes.
/// Of 88 problems on an H100 (bench/results/gpu-conv-2026-11-25.txt) the first guess took 1.04 times as long as the fastest of 8
/// or 12, and a guess was 16 % from the time.
double walked_estimate_us(const WalkedProblem& p, const WalkedTile& t, const Gpu& gpu, double moved);

/// WalkedArgs as it lies in memory, all but the addresses.
std::vector<std::byte> walked_arguments(const WalkedProblem& p, const WalkedTile& t);

/// Where segments are scaled: kernels::WalkedScale of (segment, M), what zero points add to a sum and its scale.
Tensor walked_scales(const Request& q, const WalkedProblem& p);

/// ONNX's weights [M, C, KH, KW] or [M, C, KD, KH, KW] as (tile of N, tile of K, TileN, line) bytes, permuted as stages have them.
Tensor walked_weights(const Tensor& w, const WalkedProblem& p, const WalkedTile& t);
/// The name of that form: the same where the bytes are.
Key walked_packing(const WalkedProblem& p, const WalkedTile& t);

}  // namespace smelt::ops::conv
