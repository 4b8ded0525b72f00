// The convolution's tactics on the processor and the list of them; the room's operators and what offers their kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/value_of.h"
#include "ops/conv/problem.h"
#include "ops/core/family.h"
#include "ops/cpu/epilogue.h"

namespace smelt::ops::conv {

/// What a tactic sees of a node: Conv, ConvTranspose, ai.smelt's; ONNX's QLinearConv and ai.smelt's, whose problem has a
/// quantization and whose node a program over in0.
struct Request {
  BoundNode node;
  Problem problem;
  Arguments at;
  int threads = 1;
  std::shared_ptr<const Node> own = nullptr;  // what `node` points to where it is not the plan's

  const BoundTensor& weight() const { return node.inputs[at.w]; }
  /// Throws Error where there is none.
  const Quantization& quantization() const { return value_of(problem.quantization, "the quantization of a convolution"); }
};

/// The constant bias; not valid() when there is none.
Tensor bias(const BoundNode& node, const Arguments& at);

/// A transposed one whose stride divides its window along an axis, so that a result has not all of the taps. oneDNN 3.2's products for it
/// ("brgconv_strided") give wrong sums where these are made in several parts and something is done to them, a bias added or a
/// post-operation: it is done to a part. How many parts there are depends on channels, taps and caches: 4 x 4 by 4 of 256 channels, 3 x 3
/// by 3 of 512, 8 x 8 x 8 by 8 of 16. Without either they are right (tests/ops/conv/transposed_conv_test.cpp).
bool leaves_taps_out(const Problem& p);

void offer_indirect(const Request& r, Offer& offer);          // "avx2": src/ops/cpu/igemm
void offer_winograd(const Request& r, Offer& offer);          // "winograd": 3 x 3 windows in fewer multiplications
void offer_depthwise(const Request& r, Offer& offer);         // "avx2": a channel a group
void offer_onednn(const Request& r, Offer& offer);            // "onednn"
void offer_columns(const Request& r, Offer& offer);           // "cpu": f64, by products of matrices
void offer_float_taps(const Request& r, Offer& offer);        // "cpu": few channels and outputs of plain images, tap by tap
void offer_transposed_lines(const Request& r, Offer& offer);  // "cpu": transposed ones to few channels
void offer_transposed_rows(const Request& r, Offer& offer);   // "cpu": the same over channels-last images

/// Of floats: all of them, in the order in which they are offered.
inline constexpr void (*cpu_tactics[])(const Request& r, Offer& offer) = {
    offer_indirect, offer_depthwise,  offer_winograd,         offer_onednn,
    offer_columns,  offer_float_taps, offer_transposed_lines, offer_transposed_rows};

bool is_conv(const Node& node);  // Conv, ConvTranspose, ai.smelt's
void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer);
void offer_cuda(const BoundNode& node, const Machine& machine, Offer& offer);
bool is_int8_conv(const Node& node);  // QLinearConv, ai.smelt's
void offer_int8_cpu(const BoundNode& node, const Machine& machine, Offer& offer);
void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer);

void offer_conv_integer_cuda(const BoundNode& node, const Machine& machine, Offer& offer);
/// "cuda" and "hopper" of ConvInteger whose weights or their zero point are computed: cuda_integer_rows.cpp.
void offer_integer_rows_cuda(const BoundNode& node, const Machine& machine, Offer& offer);

/// "cpu": ConvInteger of any bytes, by columns; DeformConv of f64 likewise.
void offer_integer_columns(const BoundNode& node, const Machine& machine, Offer& offer);
void offer_deform_columns(const BoundNode& node, const Machine& machine, Offer& offer);
/// "avx2" and "onednn" by MatMulInteger's kernels, "cpu" for small groups: cpu_integer.cpp.
void offer_conv_integer_cpu(const BoundNode& node, const Machine& machine, Offer& offer);
void offer_deform_cpu(const BoundNode& node, const Machine& machine, Offer& offer);   // "avx2": cpu_deform.cpp
void offer_deform_cuda(const BoundNode& node, const Machine& machine, Offer& offer);  // "cuda": cuda_deform.cpp

inline constexpr OperatorTactics operators[] = {
    {is_conv, offer_cpu, offer_cuda},
    {is_int8_conv, offer_int8_cpu, offer_int8_cuda},
    {.handles = [](const Node& node) { return node.is("ConvInteger"); },
     .cpu = offer_conv_integer_cpu,
     .cuda = offer_conv_integer_cuda,
     .by_constants = true},
    {.handles = [](const Node& node) { return node.is("DeformConv"); },
     .cpu = offer_deform_cpu,
     .cuda = offer_deform_cuda,
     .by_constants = true},
};

}  // namespace smelt::ops::conv
