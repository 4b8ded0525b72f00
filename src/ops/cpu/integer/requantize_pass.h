// 32-bit sums to 8 bits in one vectorised pass: scales by column, a constant addend by column, one quantization, and behind it a
// table of 256 entries or a quantized residual. The result is that of the node's program, bit for bit.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

class RequantizePass {
 public:
  /// The node's program over in0 = float(sum) · scales[column] as such a pass; null where it is none. Output and operands as
  /// CpuEpilogue sees them.
  static std::shared_ptr<const RequantizePass> match(const BoundNode& node, size_t first_operand, size_t column_axis,
                                                     std::span<const float> scales);
  /// The same over a plain result, whose columns are axis 1: run_channel() runs it.
  static std::shared_ptr<const RequantizePass> match_channels(const BoundNode& node, size_t first_operand,
                                                              std::span<const float> scales);
  RequantizePass(const RequantizePass&) = delete;  // row_ points into it
  RequantizePass& operator=(const RequantizePass&) = delete;

  /// The node's input that is added behind the quantization; -1: none.
  int residual() const { return residual_; }

  /// Writes the output's rows `output_rows` of these sums, plus start[column of the sums] (null: plus nothing). Their column 0
  /// is the output's `first_column`.
  void run(const igemm::Sums& sums, const int32_t* start, int64_t first_column, const igemm::RowMap& output_rows,
           const Buffers& b) const;
  /// Writes `count` results of one channel that lie side by side, from element `at` of the output on. Up to 8 sums more are read.
  void run_channel(const int32_t* sums, int64_t count, int64_t channel, int64_t at, const Buffers& b) const;

 private:
  class Matcher;
  RequantizePass() = default;
  static std::shared_ptr<RequantizePass> match_any(const BoundNode& node, size_t first_operand, size_t column_axis, bool is_plain,
                                                   std::span<const float> scales);
  void repeat_for_few_columns(int64_t columns);
  void run_few_columns(const igemm::Sums& sums, const int32_t* start, uint8_t* y, const uint8_t* residual) const;

  /// Rows of fewer columns than this are taken as one, so many of them: a row costs more than its elements.
  static constexpr int64_t few_columns = 24, rows_as_one = 32;

  std::vector<float> scales_, addends_, multipliers_;  // a whole number of panels; of few columns, of so many rows
  int64_t columns_ = 0;                                // of the output
  std::array<uint8_t, 256> table_{};
  Requantization row_;
  int residual_ = -1;  // input; -1: none
  igemm::RowMap residual_rows_;
};

}  // namespace smelt::ops::integer
