// A contraction of any number of operands as steps of one or two, each of which is a product or sums row by row.
#pragma once

#include <memory>
#include <vector>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// One operand: elements along each loop of the contraction, 0 where it repeats.
struct LoopOperand {
  Shape steps;
  bool has(size_t loop) const { return steps[loop] != 0; }
};

/// All loops of a contraction, the output's first.
struct Loops {
  Shape extents;
  size_t outer = 0;
  std::vector<LoopOperand> operands;
};

/// A contraction of one or two operands. What it reads: the whole's operands by their index, behind them the results of earlier steps.
struct ContractionStep {
  Loops loops;
  std::vector<size_t> reads;
};

/// What one operand alone is summed over goes first, then the pair whose loops are the fewest, and so on; the last makes the result.
std::vector<ContractionStep> contraction_steps(const Loops& l);

/// Sums of products of one or two operands, a row of the result at a time. Those of floats are taken in double, and integers wrap, as
/// unsigned ones do. f32, f64, integers of 32 and 64 bits.
std::unique_ptr<Kernel> contraction_rows(const Loops& l, DType type, int threads);
double contraction_rows_us(const Loops& l, int threads);

/// The steps one after the other by their kernels.
std::unique_ptr<Kernel> contraction_chain(const std::vector<ContractionStep>& steps, std::vector<std::unique_ptr<Kernel>> kernels,
                                          size_t operands, DType type);

}  // namespace smelt::ops
