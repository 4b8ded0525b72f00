// A convolution as the implicit product (src/kernels/conv/implicit.cuh) sees it: channels-last segments, or one image of few
// channels that is first copied with its padding in place, so that a window's row of taps is one run of "channels".
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv/implicit.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/phases.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::conv {

using ImageSegment = kernels::ImageSegment<void>;

/// The windows along one axis.
struct AlongAxis {
  int64_t out = 1, in = 1, stride = 1, pad = 0, dilation = 1, taps = 1;

  /// Where the last window begins, from behind the image's last pixel.
  int64_t last() const { return (out - 1) * stride - pad + 1 - in; }
  /// From a window's first pixel to that under its last tap.
  int64_t reach() const { return (taps - 1) * dilation; }
  /// Whether some window has pixels outside of the image.
  bool reaches_outside() const { return pad != 0 || last() + reach() > 0; }
  /// Whether every pixel is a window of its own.
  bool each_its_own() const { return taps == 1 && stride == 1 && pad == 0 && out == in; }
};

struct ImplicitProblem {
  static constexpr int64_t padded_channels = 4;
  static constexpr int most_segments = 8;

  DType type = DType::f16;
  std::vector<ImageSegment> segments;  // x and tiles are yet to be set
  int64_t n = 0, out_height = 0, out_width = 0, m = 0;
  int64_t in_height = 0, in_width = 0;  // upsampled, and padded where it is
  int64_t stride[2], pad[2], dilation[2], taps[2];
  std::optional<AlongAxis> depth;  // of a volume that is no image
  int64_t vec = 1;                 // elements of the widest copy of a pixel's channels
  bool padded = false;             // the image is copied first; taps along W are "channels"
  int64_t taps_w = 1;              // of the filter, where padded
  PhaseAxes
      phases;  // of a transposed one, a batch each: `out` is a phase's, `taps` the most that one has (kernels::implicit_first)
  int64_t groups = 1;  // a batch each: `m` and the segment's channels are a group's
  int64_t joined = 1;  // of the model's groups to each of those, side by side

  bool transposed() const { return !phases.empty(); }
  int64_t batches() const { return phase_count(phases) * groups; }

  int axes() const { return depth ? 3 : 2; }
  /// The outermost is 0: a volume's depth, an image's rows.
  AlongAxis along(int axis) const;
  int64_t tap_count() const { return (depth ? depth->taps : 1) * taps[0] * taps[1]; }
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
  if (!p.depth) return;
  args.depth = Divider(static_cast<uint32_t>(p.depth->out));
  args.in_depth = narrow(p.depth->in);
  args.stride_d = narrow(p.depth->stride);
  args.pad_d = narrow(p.depth->pad);
  args.dilation_d = narrow(p.depth->dilation);
}

/// The kernel's argument of any number of segments: of fewer only the beginning is given.
using ImplicitArguments = kernels::ImplicitArgs<void, void, ImplicitProblem::most_segments>;
/// All of it but the addresses.
ImplicitArguments implicit_arguments(const ImplicitProblem& p, const matmul::CudaConfig& c);

/// The product that a convolution is, for what chooses its tiles: K in whole tiles of `tile`.
matmul::CudaProblem implicit_product(const GpuRequest& r, const ImplicitProblem& p, int64_t tile);

/// Whether several groups are known, each of which is a batch.
enum class Groups { refused, taken };
/// The problem, or why the kernel does not take it; `joined`: so many groups side by side in each batch, with zeros between them. A volume's is an image's where its windows have one plane, each its own, or one pixel
/// of a plane.
Result<ImplicitProblem> implicit_problem(const GpuRequest& r, Groups groups = Groups::refused, int64_t joined = 1);

/// How many phases along an axis have as many taps as any.
int64_t phases_of_all_taps(const std::vector<PhaseAlong>& along);

/// What follows the sums, for the kernel's rows, columns and batches.
CudaEpilogue implicit_epilogue(const GpuRequest& r, const ImplicitProblem& p);

/// ONNX's weights [M, C / group, KH, KW] or [M, C / group, KD, KH, KW] (transposed: [C, M, …]) as [batches, M, K], for tiles of so many steps of K: within K the
/// segments, in each the taps, in each its channels and zeros up to a whole tile.
Tensor implicit_weights(const Tensor& w, const ImplicitProblem& p, int64_t tile);
/// The name of that form: the same where the bytes are.
Key implicit_packing(const ImplicitProblem& p, int64_t tile);
/// These weights in the GPU's memory, one copy for all kernels that want them so.
std::shared_ptr<device::cuda::Memory> implicit_weights_there(const GpuRequest& r, const ImplicitProblem& p, int64_t tile);

}  // namespace smelt::ops::conv
