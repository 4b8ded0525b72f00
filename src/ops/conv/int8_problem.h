// Convolutions of 8-bit integers: ONNX's QLinearConv and ai.smelt's, and ConvInteger, as requests, what kernels read of them, and their tactics.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/conv/offer.h"
#include "ops/core/key.h"

namespace smelt::ops::conv {

/// Refused where a parameter is not constant.
Result<Request> int8_request(const BoundNode& node, int threads);
/// Of a ConvInteger by constant weights, whose results are the sums: no program, no scales.
Result<Request> integer_request(const BoundNode& node, int threads);

/// The image's zero point, which may be known to the run only: DynamicQuantizeLinear computes it.
class ImageZero {
 public:
  explicit ImageZero(const Request& r);
  int32_t of(const Buffers& b) const;
  bool is_computed() const { return input_.has_value(); }

 private:
  int32_t value_;
  std::optional<size_t> input_;
  bool is_signed_;
};

int64_t depth(const Problem& p);  // products to a sum
/// Element [m, c, tap] of the weights less its zero point; taps row-major.
int16_t int8_weight(const Request& r, int64_t m, int64_t c, int64_t tap);
/// All of them, [M, C / group, taps].
std::vector<float> int8_weights_as_floats(const Request& r);
/// Whether weights less their zero points have 8 bits, whatever they are.
bool has_narrow_weights(const Request& r);
/// Whether weights less their zero points have 8 bits: as they are, or less 128.
bool fit_8_bits(const Request& r);
/// The sums' start for each output channel, as long as packed panels need.
std::vector<int32_t> start_of_sums(const Request& r);
/// Σ w less its zero point of each output channel, as long as start_of_sums: Σ (x - zero) · w = Σ x · w - zero · Σ w.
std::vector<int32_t> sums_of_weights(const Request& r);
/// What weights packed in this form depend on but the weights themselves, for WeightStore.
Key int8_packing(const Request& r, std::string_view form);

/// Why floats do not hold all sums exactly, with the bias or without it, or would take much memory for weights; nothing where they do.
std::optional<Refusal> rejects_float_sums(const Request& r, bool with_bias);

/// Why no 8-bit kernel of the processor's takes it; nothing when they may. `wraps`: the kernel's sums wrap at 32 bits, as the operator's do, so
/// that it takes any depth.
std::optional<Refusal> rejects_int8(const Request& r, bool wraps = false);

void offer_int8_depthwise(const Request& r, Offer& offer);  // "avx2": one channel a group
void offer_int8_indirect(const Request& r, Offer& offer);   // "avx2": exact, 16-bit pairs
void offer_int8_winograd(const Request& r, Offer& offer);   // "winograd": exact, 3 × 3 windows
void offer_int8_onednn(const Request& r, Offer& offer);     // "onednn": exact sums where the CPU has them
void offer_int8_taps(const Request& r, Offer& offer);       // "cpu": few channels and outputs of plain images, tap by tap

/// The candidates of a convolution of floats, where floats hold all sums exactly: cpu_int8_floats.cpp.
void offer_int8_floats(const Request& r, Offer& offer);

/// "cpu": ConvInteger's kernels and a sweep, for what all of those refuse: cpu_int8_sums.cpp.
void offer_int8_sums(const Request& r, Offer& offer);

/// Of 8-bit integers: all of them, in the order in which they are offered.
inline constexpr void (*int8_cpu_tactics[])(const Request& r, Offer& offer) = {
    offer_int8_depthwise, offer_int8_indirect, offer_int8_winograd, offer_int8_onednn, offer_int8_taps};

}  // namespace smelt::ops::conv
