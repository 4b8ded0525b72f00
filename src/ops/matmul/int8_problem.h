// The products of 8-bit integers in one form: ONNX's QLinearMatMul and MatMulInteger, com.microsoft's QGemm, and ai.smelt's
// QLinearMatMul.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

/// sum = (a - a_zero) · (b - b_zeros) + bias; in0 = float(sum) · scales, by column; y = the node's program over in0, or the sum
/// itself (MatMulInteger).
struct Int8Problem {
  std::shared_ptr<const Node> node;  // with a program over in0 and the operands; without one for integer results
  BoundNode bound;
  Product product;                     // geometry only
  size_t a = 0, b = 1, operands = 0;   // inputs of `bound`; operands: the first
  std::optional<size_t> a_zero_input;  // where a's zero point is not known before the run
  int32_t a_zero = 0;
  std::vector<int32_t> b_zeros;  // one, or one for each column
  std::vector<float> scales;     // the same
  std::vector<int32_t> bias;     // empty: none

  /// Element [k, n] of b less its zero point.
  int16_t weight(int64_t k, int64_t n) const {
    const Tensor& t = bound.inputs[b].constant;
    const int64_t at = k * product.b_row + n * product.b_column;
    const int32_t v = t.type() == DType::u8 ? t.data<uint8_t>()[at] : t.data<int8_t>()[at];
    return static_cast<int16_t>(v - b_zeros[b_zeros.size() == 1 ? 0 : static_cast<size_t>(n)]);
  }
};

/// Nothing, with the reason in `why`, where b or a parameter is not constant.
std::optional<Int8Problem> int8_problem(const BoundNode& node, std::string& why);

void offer_int8_indirect(const Int8Problem& q, const Machine& machine, Offer& offer);  // "avx2": exact, 16-bit pairs
void offer_onednn(const Int8Problem& q, const Machine& machine, Offer& offer);  // "onednn": exact sums where the CPU has them

/// The reason why no 8-bit kernel takes it; nothing when they may.
std::optional<std::string> rejects_int8(const Int8Problem& q);

}  // namespace smelt::ops::matmul
