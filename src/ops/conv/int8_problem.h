// ONNX's QLinearConv and ai.smelt's in one form.
#pragma once

#include <memory>
#include <optional>

#include "ops/conv/offer.h"

namespace smelt::ops::conv {

/// in0 = float(conv(x - x_zero, w - w_zeros) + bias) · scales, by output channel; y = the node's program over in0.
struct Int8Problem {
  std::shared_ptr<const Node> node;  // with a program over in0 and the operands
  BoundNode bound;
  Problem problem;
  size_t x = 0, w = 0, operands = 0;  // inputs of `bound`; operands: the first
  int32_t x_zero = 0;
  std::vector<int32_t> w_zeros;  // one, or one for each output channel
  std::vector<float> scales;     // the same
  std::vector<int32_t> bias;     // empty: none

  int64_t depth() const;  // products to a sum
  /// Element [m, c, tap] of the weights less its zero point; taps row-major.
  int16_t weight(int64_t m, int64_t c, int64_t tap) const;
  /// Whether weights less their zero points have 8 bits, whatever they are.
  bool has_narrow_weights() const;
  /// The sums' start for each output channel, as long as packed panels need.
  std::vector<int32_t> start() const;
  /// What packed weights depend on but the weights themselves, for WeightStore.
  std::string packing(std::string_view form) const;
};

/// Nothing, with the reason in `why`, where a parameter is not constant.
std::optional<Int8Problem> int8_problem(const BoundNode& node, std::string& why);

/// The reason why no 8-bit kernel takes it; nothing when they may.
std::optional<std::string> rejects_int8(const Int8Problem& q);

void offer_int8_indirect(const Int8Problem& q, const Machine& machine, Offer& offer);  // "avx2": exact, 16-bit pairs
void offer_winograd(const Int8Problem& q, const Machine& machine, Offer& offer);       // "winograd": exact, 3 × 3 windows
void offer_depthwise(const Int8Problem& q, const Machine& machine, Offer& offer);      // "avx2": one channel a group
void offer_onednn(const Int8Problem& q, const Machine& machine, Offer& offer);  // "onednn": exact sums where the CPU has them
void offer_cudnn(const Int8Problem& q, const Machine& machine, Offer& offer);   // "cudnn": exact sums on a GPU

}  // namespace smelt::ops::conv
