// What follows a product: an ai.smelt node's program over in0, the sums, and the operands, for kernels that make their
// output a block of rows and columns at a time. Common programs (bias, residual, relu, clip, hard swish) are applied to the
// sums in registers (`simple`); every other one by the blocked evaluator, a row at a time.
#pragma once

#include <optional>
#include <vector>

#include "expr/cpu.h"
#include "ops/core/tactic.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops {

class Epilogue {
 public:
  /// The output is seen as a matrix: its columns are axis `column_axis`, its rows all other axes in order. Operands are the
  /// node's inputs from `first_operand` on. `bias`: added to the sums per column before the program; not valid(): none.
  /// `in_registers` false: nothing is `simple`, the evaluator runs all of the program.
  Epilogue(const BoundNode& node, size_t first_operand, size_t column_axis, const Tensor& bias, bool in_registers = true);

  /// "bias+add+relu", or the program's text; "none".
  const std::string& text() const { return text_; }

  struct Simple {
    int residual = -1;  // input added in full; -1: none
    igemm::Activation activation = igemm::Activation::none;
    float low = 0, high = 0;
  };
  /// Set when the program is one of those that tiles apply themselves.
  const std::optional<Simple>& simple() const { return simple_; }
  /// Added to the sums, as wide as packed panels need; empty: none.
  const std::vector<float>& bias() const { return bias_; }
  const igemm::RowMap& output_rows() const { return output_.rows; }
  /// Rows of the residual; only with simple()->residual.
  const igemm::RowMap& residual_rows() const;

  /// Scratch bytes that the evaluator needs for each thread; 0 with simple().
  int64_t scratch() const { return evaluator_ ? (evaluator_->scratch() + 63) / 64 * 64 : 0; }

  /// Runs the program over sums in memory: for kernels without `simple`, or when it is not set.
  class Runner final : public igemm::Finish {
   public:
    /// `first_row`: of this run's rows, in the output's (a batch's matrix, for products that go one by one).
    Runner(const Epilogue& e, const Buffers& b, void* scratch) : e_(e), b_(b), scratch_(static_cast<char*>(scratch)) {}
    void take(const igemm::Sums& sums) const override;

   private:
    const Epilogue& e_;
    const Buffers& b_;
    char* scratch_;
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
  void match(const BoundNode& node, size_t first_operand, size_t column_axis, bool in_registers);

  std::string text_;
  std::optional<Simple> simple_;
  std::optional<expr::Evaluator> evaluator_;
  std::vector<float> bias_;
  std::vector<Operand> operands_;
  Side output_;
};

}  // namespace smelt::ops
