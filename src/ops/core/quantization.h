// What makes a product one of 8-bit integers: the parameters that MatMul's and Conv's quantized forms have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::ops {

/// Of one of several images that are concatenated, each of its own scale: a convolution's segment behind the first.
struct SegmentQuantization {
  int32_t zero = 0;
  std::vector<float> scales;  // as Quantization's
};

/// sum = Σ (a - a_zero) · (b - b_zeros) + bias; in0 = float(sum) · scales, by the result's column (a convolution's output
/// channel); y = the node's program over in0, or the sum itself where the node has none.
struct Quantization {
  int32_t a_zero = 0;
  std::optional<size_t> a_zero_input;  // the node's input that a_zero is, where it is not known before the run
  std::vector<int32_t> b_zeros;        // one, or one for each column
  std::optional<size_t> b_zero_input;  // the node's input that b's one zero point is, where it is not known before the run
  std::vector<float> scales;           // the same; empty: the result is the sum
  std::vector<int32_t> bias;           // empty: none
  std::vector<SegmentQuantization>
      more;  // of the segments behind the first: in0 = float(sum) · scales of each, added from the first on

  /// b's zero points are 0.
  bool is_symmetric() const {
    return std::ranges::all_of(b_zeros, [](int32_t z) { return z == 0; });
  }
  /// Element `at` of b, which stands in this column, less its zero point.
  int16_t less_zero(const Tensor& b, int64_t at, int64_t column) const {
    const int32_t v = b.type() == DType::u8 ? b.data<uint8_t>()[at] : b.data<int8_t>()[at];
    return static_cast<int16_t>(v - b_zeros[b_zeros.size() == 1 ? 0 : static_cast<size_t>(column)]);
  }
};

}  // namespace smelt::ops
