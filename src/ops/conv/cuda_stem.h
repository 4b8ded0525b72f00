// First layers: images and volumes of up to 4 channels as they lie, their conversion, and what is pooled of the results (src/kernels/conv/stem.cuh).
#pragma once

#include <optional>
#include <vector>

#include "kernels/conv/stem.h"
#include "ops/conv/cuda_request.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {

/// What a kernel does before and behind the convolution.
struct StemAround {
  std::optional<expr::Program> image = std::nullopt;  // over the image's elements, which are of this type
  DType image_type = DType::undefined;
  std::optional<Window> pool = std::nullopt;  // two axes: the largest of these results is written, to y
  BoundTensor y = {};
};

/// A rectangle of windows, and the warps that have it, each so many times 16 windows.
struct StemTile {
  int64_t tile_h = 0, tile_w = 0, fragments = 0, warps = 0, columns = 0, width = 0;
  std::string print() const;  // "15x17 8x2 n64 w8": 8 warps of twice 16 windows
};

/// Why the kernel does not take it; nothing where it does. `r` of integers gets the program over sums from which zero points are yet to be
/// taken.
std::optional<Refusal> rejects_stem(GpuRequest& r, const StemAround& around);

/// What can run, the best guess first; at least one.
std::vector<StemTile> stem_tiles(const GpuRequest& r, const StemAround& around);
double stem_estimate_us(const GpuRequest& r, const StemAround& around, const StemTile& t);
std::unique_ptr<Kernel> stem_kernel(const GpuRequest& r, const StemAround& around, const StemTile& t, const std::string& name);

/// ONNX's weights [M, C, KD, KH, KW] as a lane multiplies them: (tile of columns, depth's tap, row of taps, step, 16 columns, lane) of four words.
Tensor stem_weights(const GpuRequest& r, const StemTile& t);

}  // namespace smelt::ops::conv
