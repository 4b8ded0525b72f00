// A convolution as the implicit product (src/kernels/conv/implicit.cuh) sees it: channels-last segments, or one image of few
// channels that is first copied with its padding in place, so that a window's row of taps is one run of "channels".
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv/implicit.h"
#include "ops/conv/cuda_request.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::conv {

using ImageSegment = kernels::ImageSegment<void>;

/// What a volume has before H and W.
struct Depth {
  int64_t out = 1, in = 1, stride = 1, pad = 0, dilation = 1, taps = 1;
  std::vector<int64_t> planes = {};  // elements from one to the next, of each segment
};

struct ImplicitProblem {
  static constexpr int64_t padded_channels = 4;
  static constexpr int most_segments = 8;

  DType type = DType::f16;
  std::vector<ImageSegment> segments;  // x and tiles are yet to be set
  int64_t n = 0, out_height = 0, out_width = 0, m = 0;
  int64_t in_height = 0, in_width = 0;  // upsampled, and padded where it is
  int64_t stride[2], pad[2], dilation[2], taps[2];
  std::optional<Depth> depth;  // of a volume
  int64_t vec = 1;             // elements of the widest copy of a pixel's channels
  bool padded = false;         // the image is copied first; taps along W are "channels"
  int64_t taps_w = 1;          // of the filter, where padded
  bool transposed = false;     // with windows side by side: a batch a tap
  int64_t batches = 1;

  int64_t pixels() const { return n * (depth ? depth->out : 1) * out_height * out_width; }
  /// Steps of K in tiles of so many.
  int64_t k(int64_t tile) const;
  /// The padded image's bytes; 0 where it is not.
  int64_t padded_bytes() const { return padded ? bytes(type, n * in_height * in_width * padded_channels) : 0; }
};

/// Of a kernel's argument the output's extents, the image's, and the window's steps.
template <class Args> void set_geometry(Args& args, const ImplicitProblem& p) {
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  args.width = Divider(static_cast<uint32_t>(p.out_width));
  args.height = Divider(static_cast<uint32_t>(p.out_height));
  args.in_height = narrow(p.in_height);
  args.in_width = narrow(p.in_width);
  std::ranges::transform(p.stride, args.stride, narrow);
  std::ranges::transform(p.pad, args.pad, narrow);
  std::ranges::transform(p.dilation, args.dilation, narrow);
}

/// The kernel's argument of any number of segments: of fewer only the beginning is given.
using ImplicitArguments = kernels::ImplicitArgs<void, void, ImplicitProblem::most_segments>;
/// All of it but the addresses.
ImplicitArguments implicit_arguments(const ImplicitProblem& p, const matmul::CudaConfig& c);

/// The product that a convolution is, for what chooses its tiles: K in whole tiles of `tile`.
matmul::CudaProblem implicit_product(const GpuRequest& r, const ImplicitProblem& p, int64_t tile);

/// Images, or volumes too.
enum class Axes { two, three };
/// The problem, or why the kernel does not take it.
Result<ImplicitProblem> implicit_problem(const GpuRequest& r, Axes most = Axes::two);

/// What follows the sums, for the kernel's rows, columns and batches.
CudaEpilogue implicit_epilogue(const GpuRequest& r, const ImplicitProblem& p);

/// ONNX's weights [M, C, KH, KW] (transposed: [C, M, KH, KW]) as [batches, M, K], for tiles of so many steps of K: within K the
/// segments, in each the taps, in each its channels and zeros up to a whole tile.
Tensor implicit_weights(const Tensor& w, const ImplicitProblem& p, int64_t tile);
/// The name of that form: the same where the bytes are.
Key implicit_packing(const ImplicitProblem& p, int64_t tile);
/// These weights in the GPU's memory, one copy for all kernels that want them so.
std::shared_ptr<device::cuda::Memory> implicit_weights_there(const GpuRequest& r, const ImplicitProblem& p, int64_t tile);

}  // namespace smelt::ops::conv
