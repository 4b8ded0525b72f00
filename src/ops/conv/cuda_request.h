// The convolution's tactics on a GPU: what they are given, and the list of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/conv/offer.h"
#include "ops/core/key.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops::conv {

/// What a GPU tactic sees of a node.
struct GpuRequest : Request {  // the sums of 8-bit integers are exact, in i32
  std::shared_ptr<const Gpu> gpu;
  expr::Program program;  // over the sums, the bias where there is one, and the operands
  std::vector<EpilogueOperand> operands;

  /// Of the weights as multiply-adds read them: i16 where they are integers, less their zero points.
  DType weight_type() const { return problem.quantization ? DType::i16 : weight().type; }
  /// The constant weights in that type and ONNX's order.
  Tensor weights() const;
  /// What these depend on but the node's weights, for WeightStore.
  Key packing(std::string_view form) const;
  int32_t zero() const;  // of the image's integers; else 0
  /// For the compiler: integers are scaled as the reference does it.
  std::vector<std::string> compile_options() const;
  /// What of y's axes are its columns: the channels, or those of a block.
  EpilogueAxes axes() const;
  /// The program for kernels that make `width` channels of a pixel at a time.
  CudaEpilogue epilogue(int64_t width) const;
  /// Of the images, the weights and what the program reads and writes, each element once.
  double moved_bytes() const;
};
using SharedRequest = std::shared_ptr<const GpuRequest>;  // what candidates keep of it

/// The request, or why no kernel of the GPU's takes it.
Result<SharedRequest> gpu_request(const BoundNode& node, const Machine& machine);
Result<SharedRequest> int8_gpu_request(const Request& q, const std::shared_ptr<const Gpu>& gpu);
/// Of a convolution of integers, the program and its operands, for kernels whose sums are of x as it is,
/// `zero` still to be taken from each of its elements: 0 where it is taken already. `outside`: what the sums lack of pixels outside of the
/// image, where kernels read zeros there (cuda_outside.h).
void set_integer_program(GpuRequest& r, int32_t zero, std::optional<EpilogueOperand> outside = std::nullopt);

void offer_implicit_cuda(const SharedRequest& r, Offer& offer);  // "cuda" implicit: tensor cores, channels-last images
void offer_walked(const SharedRequest& r, Offer& offer);         // "walked": tensor cores, 8- and 16-bit images
void offer_hopper(const SharedRequest& r, Offer& offer);         // "hopper": its tensor maps and wgmma, 8- and 16-bit images
void offer_stem(const SharedRequest& r, Offer& offer);           // "stem": tensor cores, images of few channels as they lie
void offer_patches(const SharedRequest& r, Offer& offer);        // those of images that are laid out window by window first
void offer_lines(const SharedRequest& r, Offer& offer);          // those of images whose windows are each one run of memory
void offer_phases(const SharedRequest& r, Offer& offer);         // those of plain convolutions that a transposed one is made of
void offer_cute(const SharedRequest& r, Offer& offer);  // "cute": tensor cores, 16-bit images, by CuTe; asked for by name
void offer_depthwise_cuda(const SharedRequest& r, Offer& offer);       // "cuda" depthwise: channels-last images
void offer_depthwise_rows_cuda(const SharedRequest& r, Offer& offer);  // "cuda" depthwise_rows: plain images and sequences
void offer_grouped_cuda(const SharedRequest& r, Offer& offer);         // "cuda" grouped: groups of few channels, transposed ones
void offer_direct_cuda(const SharedRequest& r, Offer& offer);          // "cuda" direct: multiply-adds, every geometry

/// A kernel of smelt's own; `integers`: for convolutions of 8-bit integers too.
struct CudaTactic {
  void (*offer)(const SharedRequest& r, Offer& offer);
  bool integers;
};
/// All of them, in the order in which they are offered.
inline constexpr CudaTactic cuda_tactics[] = {
    {offer_hopper, true},         {offer_walked, true},
    {offer_stem, true},           {offer_implicit_cuda, false},
    {offer_patches, false},       {offer_lines, false},
    {offer_phases, false},        {offer_cute, false},
    {offer_depthwise_cuda, true}, {offer_depthwise_rows_cuda, true},
    {offer_grouped_cuda, true},   {offer_direct_cuda, true},
};

void offer_cudnn(const SharedRequest& r, Offer& offer);  // "cudnn"
/// "cudnn" of a convolution of 8-bit integers: exact sums.
void offer_int8_cudnn(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer);

/// The tactics of a convolution of 8-bit integers over a copy of its image that has its padding, and its channels side by side: one whose
/// image's zero point is computed has no others.
void offer_over_copy(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer);

/// The tactics for one group of a convolution of 8-bit integers in several, by weights [M, C, kernel…] with zeros between groups.
void offer_groups_joined(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer);
/// These weights, whose zeros are each output's zero point.
Tensor joined_weights(const Request& q);

/// (sum, column?, outside?, Σ w and the image's zero point where that is computed, scales?, operands…) of a convolution of integers: what
/// follows its exact sums, without fused multiply-adds.
expr::Program over_sums(const Request& q, bool column, bool outside = false);
/// The magnitude of sums of integers is at most so.
double most_of_sums(const Problem& p);
/// On the device, a number for each output channel: bias − zero · Σ (w − w_zero), which wraps as 32-bit integers do.
std::shared_ptr<device::cuda::Memory> kept_column(const Gpu& gpu, const Request& q, int32_t zero);
/// Likewise the scales.
std::shared_ptr<device::cuda::Memory> kept_scales(const Gpu& gpu, const Request& q);

/// Weights [M, C, kernel…] as [M, kernel…, C], which cuDNN reads, on the device; `less` is taken from each byte of 8-bit ones.
std::shared_ptr<device::cuda::Memory> channels_last_weights(const Gpu& gpu, const Tensor& w, uint8_t less = 0);

/// Why a depthwise kernel does not take it, whatever its layout: types, several images, computed weights, sizes; nothing when it may.
std::optional<Refusal> rejects_depthwise(const GpuRequest& r);
/// Elements of the widest access to a pixel's neighbouring channels, 16 bytes at most.
int64_t widest_channels(const BoundTensor& t);
/// Weights [taps, C / group, M] of ONNX's [M, C / group, taps…], transposed [C, M / group, taps…].
Tensor taps_by_channels(const Tensor& w, const Problem& p);
/// A shape's spatial part with entries of `fill` in front, so that there are three.
Shape three(const Shape& spatial, int64_t fill);
/// Strides along N, C and three spatial axes, those that the tensor lacks 0.
Shape five_strides(const BoundTensor& t);
template <class T> void copy(T* to, const Shape& from) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace smelt::ops::conv
