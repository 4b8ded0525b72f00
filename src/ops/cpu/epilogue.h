// What follows a product on the processor: an ai.smelt node's program over in0 and its operands, applied to the product's sums
// while they are in the cache. Every CPU kernel of a product applies it here, over float sums or over exact 32-bit ones, in
// blocks that a kernel hands over (CpuEpilogue::Runner) or in memory where a library left them (sums_pass.h). One of three ways:
//
//   in registers   bias, residual, then relu, clip or hard swish, and a scale and a shift by numbers, over float sums: the
//                  kernel's tiles do it (`simple`)
//   in one pass    32-bit sums to 8 bits, with a table or a quantized residual behind (integer/requantize_pass.h), or to floats
//                  with a factor, a bias, a residual and what tiles do (integer/float_pass.h)
//   in general     any program, by the blocked evaluator, a row at a time; 32-bit sums become floats in place first
//
// The second way is no form of the first: 32-bit sums wrap and start from other numbers than 0, so that their tiles end with the
// sums. All ways give the program's result bit for bit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "expr/cpu.h"
#include "ops/core/tactic.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops {

namespace integer {
class FloatPass;
class RequantizePass;
}  // namespace integer

/// Why a kernel does not take a node of so many operands; nothing where it does.
std::optional<Refusal> rejects_operands(size_t count);

class CpuEpilogue {
 public:
  /// The output is seen as a matrix: its columns are axis `column_axis`, its rows all other axes in order. Operands are the
  /// node's inputs from `first_operand` on. Of float sums; `bias`: added to them per column before the program; not valid():
  /// none.
  CpuEpilogue(const BoundNode& node, size_t first_operand, size_t column_axis, const Tensor& bias);
  /// Of 32-bit sums: in0 = float(sum) · scales[column]; `scales`: one, or one for each column. The node has a program.
  CpuEpilogue(const BoundNode& node, size_t first_operand, size_t column_axis, std::span<const float> scales);

  /// "bias+add+relu", or the program's text; "none".
  const std::string& text() const { return text_; }

  struct Simple {
    int residual = -1;  // input added in full; -1: none
    igemm::Ending end;
  };
  /// Set when the program is one of those that tiles apply themselves.
  const std::optional<Simple>& simple() const { return simple_; }
  /// Of simple(); -1 where there is none.
  int residual() const { return simple_ ? simple_->residual : -1; }
  /// Added to the sums, with a panel's width of zeros behind them; empty: none.
  const std::vector<float>& bias() const { return bias_; }
  const igemm::RowMap& output_rows() const { return output_.rows; }
  /// Rows of the residual; only where there is a residual().
  const igemm::RowMap& residual_rows() const;

  /// True when the output may lie in the memory of the node's input i: the node reads it once, as the residual, each element
  /// just before the output's is written.
  bool in_place(size_t i) const { return in_place_ == static_cast<int>(i); }

  /// Scratch bytes that the evaluator needs for each thread; 0 where it is not needed.
  int64_t scratch() const { return scratch_; }

  /// Runs the program over sums in memory: for kernels without `simple`, or when it is not set.
  class Runner final : public igemm::Finish {
   public:
    /// `scratch`: scratch() bytes for each thread. Of 32-bit sums: `first_column`, of the output, where the sums' column 0 goes
    /// (a group's); `start`, added to the sums by their column (null: nothing).
    Runner(const CpuEpilogue& e, const Buffers& b, void* scratch, int64_t first_column = 0, const int32_t* start = nullptr)
        : e_(e), b_(b), scratch_(static_cast<char*>(scratch)), first_column_(first_column), start_(start) {}
    /// Lets a run of float sums into the output end with the program: in its tiles where that is `simple`, else with this.
    void end(igemm::Run& run) const;
    /// 32-bit sums must lie in memory that may be written: the general way makes floats of them there.
    void take(const igemm::Sums& sums) const override;

   private:
    void evaluate(const igemm::Sums& sums) const;

    const CpuEpilogue& e_;
    const Buffers& b_;
    char* scratch_;
    int64_t first_column_;
    const int32_t* start_;
  };

 private:
  struct Side {
    igemm::RowMap rows;
    int64_t column = 0;  // elements from one column to the next
    int bytes = 4;
  };
  struct Operand : Side {
    size_t input = 0;
  };
  class RowsAtOnce;
  int64_t general_scratch() const;
  void locate(const BoundNode& node, size_t first_operand, size_t column_axis);
  /// Takes the evaluator for all of the node's program.
  void match_general(const BoundNode& node);
  void match_simple(const BoundNode& node, size_t first_operand, size_t column_axis);

  std::string text_;
  std::optional<Simple> simple_;
  std::shared_ptr<const integer::RequantizePass> requantize_;
  std::shared_ptr<const integer::FloatPass> floats_;
  std::optional<expr::Evaluator> evaluator_;
  std::vector<float> bias_;
  std::vector<float> scales_;  // of 32-bit sums, by column; empty: the sums are floats
  std::vector<Operand> operands_;
  Side output_;
  int in_place_ = -1;
  int64_t scratch_ = 0;
};

}  // namespace smelt::ops
