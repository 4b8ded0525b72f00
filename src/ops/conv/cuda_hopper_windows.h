// A convolution as Hopper's tensor maps read it in im2col mode (src/kernels/conv/hopper.cuh).
#pragma once

#include <optional>

#include "device/cuda/abi/driver.h"
#include "kernels/conv/hopper.h"
#include "ops/conv/cuda_implicit_problem.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::conv {

struct WindowsProblem : ImplicitProblem {
  bool matrix = false;  // 1 x 1 windows side by side: the image is the left operand
  bool integers = false;
  int64_t line_bytes = matmul::HopperConfig::line_bytes;  // of a stage

  int64_t element() const { return bytes(type, 1); }
  /// Channels that a line of a stage has.
  int64_t line() const { return line_bytes / element(); }
};

/// The problem, or why tensor maps do not take it; `r` of integers gets the program over sums from which zero points are yet to be
/// taken.
Result<WindowsProblem> windows_problem(GpuRequest& r);

/// The weights as lines along K. Of integers less their zero points, and with `width` in the order in which lanes have as many
/// neighbouring channels (kernels::walked_channel), up to whole parts of a tile; `paired`: as kernels::paired_channel has them.
Tensor windows_weights(const GpuRequest& r, const WindowsProblem& p, int64_t width, bool paired = false);
/// Lines of these.
int64_t windows_lines(const WindowsProblem& p, int64_t width);

/// The product that it is: its rows are the output's pixels, its columns the output's channels.
matmul::CudaProblem windows_product(const GpuRequest& r, const WindowsProblem& p);

/// The windows that begin all over the images with their padding in place (kernels::SlidingWindows), if the problem's lie up to two
/// pixels apart and few of these are none of its own.
std::optional<WindowsProblem> sliding_windows(const WindowsProblem& p);
kernels::SlidingWindows sliding_argument(const WindowsProblem& p, const WindowsProblem& sliding);
/// Windows that the last tap reaches beyond the first's.
int64_t sliding_reach(const kernels::SlidingWindows& w);

/// What can run here, the best guess first; at least one, or why nothing can.
Result<std::vector<matmul::HopperConfig>> windows_configs(const WindowsProblem& p, const matmul::CudaProblem& product,
                                                          const Gpu& gpu);

/// The kernel of one configuration.
std::unique_ptr<Kernel> hopper_conv(const GpuRequest& r, const WindowsProblem& p, const matmul::CudaProblem& product,
                                    const matmul::HopperConfig& c);

/// Of the kernel's argument what is behind HopperGemmArgs, all but the maps: of an image (2) or a volume (3).
template <int Axes> kernels::HopperWindows<Axes> hopper_windows(const WindowsProblem& p);
/// Stages of a pixel's channels.
uint32_t hopper_chunks(const WindowsProblem& p, const ImageSegment& s);

/// All of an image's tensor map but the address: a box has the pixels under one tap of so many windows that follow each other, and
/// a line of their channels.
struct WindowMap {
  device::cuda::abi::TensorMapType type = device::cuda::abi::tensor_map_f16;
  uint32_t rank = 0;
  uint64_t extents[5] = {}, steps[4] = {};  // channels, columns, rows, planes of a volume, images; bytes from one to the next
  int32_t first[3] = {},
          last[3] = {};  // columns, rows, planes: where windows begin, from the image's first pixel and from behind its last
  uint32_t strides[5] = {1, 1, 1, 1, 1};
  uint32_t channels = 0, pixels = 0;
  device::cuda::abi::TensorMapSwizzle swizzle = device::cuda::abi::tensor_map_swizzle_128;

  WindowMap(const WindowsProblem& p, const ImageSegment& s, int64_t windows);
  void encode(kernels::TensorMap& map, const void* address) const;
};

}  // namespace smelt::ops::conv
