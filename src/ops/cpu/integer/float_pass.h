// 32-bit sums to floats in one vectorised pass: scales by column, a factor, an addend by column, a residual, and what tiles end
// with: dynamically quantised products. The result is that of the node's program, bit for bit.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::integer {

class FloatPass {
 public:
  /// The node's program over in0 = float(sum) · scales[column] as such a pass; null where it is none. Output and operands as
  /// CpuEpilogue sees them.
  static std::shared_ptr<const FloatPass> match(const BoundNode& node, size_t first_operand, size_t column_axis,
                                                std::span<const float> scales);

  /// The node's input that is added in full; -1: none.
  int residual() const { return residual_; }

  /// As RequantizePass::run.
  void run(const igemm::Sums& sums, const int32_t* start, int64_t first_column, const igemm::RowMap& output_rows,
           const Buffers& b) const;

 private:
  std::vector<float> scales_;                      // empty: 1 each
  int factor_ = -1, addend_ = -1, residual_ = -1;  // inputs; -1: none
  bool has_one_factor_ = false;
  std::vector<float> addends_;  // of a constant: for each column
  igemm::RowMap residual_rows_;
  igemm::Ending end_;
};

}  // namespace smelt::ops::integer
