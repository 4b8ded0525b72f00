// What follows a product of 8-bit integers: scales by column, then an ai.smelt node's program over in0. Programs that end in 8
// bits after one quantization, with a table or a quantized residual behind it, take one vectorised pass over the sums; every
// other one goes through the blocked evaluator. Either way the result is that of the program, bit for bit.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

class Epilogue {
 public:
  /// The output is seen as a matrix whose columns are axis `column_axis`; operands are the node's inputs from `first_operand` on.
  /// in0 = float(sum) · scales[column]; `scales`: one, or one for each column. The node has a program.
  Epilogue(const BoundNode& node, size_t first_operand, size_t column_axis, std::span<const float> scales);

  /// True when one pass does it all.
  bool is_direct() const { return direct_; }
  /// Scratch bytes for each thread.
  int64_t scratch() const { return direct_ ? 0 : general_.scratch(); }
  /// True when the output may lie in the memory of the node's input i, which is read just before.
  bool in_place(size_t i) const { return direct_ && residual_ == static_cast<int>(i); }

  class Runner final : public igemm::Finish {
   public:
    /// `first_column`: of the output, where the sums' column 0 goes (a group's). `scratch`: scratch() bytes for each thread.
    Runner(const Epilogue& e, const Buffers& b, int64_t first_column, void* scratch)
        : e_(e), b_(b), first_column_(first_column), general_(e.general_, b, scratch) {}
    void take(const igemm::Sums& sums) const override { take(sums, nullptr); }
    /// The same of sums plus start[column of the sums], 32-bit numbers; null: plus nothing.
    void take(const igemm::Sums& sums, const int32_t* start) const;

   private:
    const Epilogue& e_;
    const Buffers& b_;
    int64_t first_column_;
    smelt::ops::Epilogue::Runner general_;
  };

 private:
  class Matcher;

  smelt::ops::Epilogue general_;
  std::vector<float> scales_, addends_, multipliers_;  // a whole number of panels
  std::array<uint8_t, 256> table_{};
  Requantization row_;
  int residual_ = -1;  // input; -1: none
  igemm::RowMap residual_rows_;
  bool direct_ = false;

 public:
  Epilogue(const Epilogue&) = delete;  // row_ points into it
  Epilogue& operator=(const Epilogue&) = delete;
};

}  // namespace smelt::ops::integer
