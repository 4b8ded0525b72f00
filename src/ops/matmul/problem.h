// What a matrix product computes: the contract between the graph and the tactics.
//
//   gemm:f32>f32:48x4096x4096:rcr:bias+relu
//
// Fields: element types; M x N x K, after "BATCH*" where there is a batch ("8x12*", and "8x12,1x12*" where the operands' batches
// differ); whether a, b and the result are stored by rows or columns, ",computed" where b is no constant; the epilogue. A batch
// that only a has is part of M.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/value_of.h"
#include "ops/core/quantization.h"
#include "ops/core/tactic.h"

namespace smelt::ops::matmul {

struct Problem {
  DType input = DType::f32, output = DType::f32;
  Shape a_batch, b_batch;  // of equal rank, 1s in front; empty: none
  int64_t m = 0, n = 0, k = 0;
  bool a_columns = false, b_columns = false;  // stored transposed
  bool b_computed = false;                    // b is no constant: it cannot be packed before the run
  std::string epilogue = "none";
  std::optional<Quantization> quantization;  // of a product of 8-bit integers; not printed

  int64_t batch() const;  // matrices in the result
  double flops() const {
    return 2.0 * static_cast<double>(batch()) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

std::string print(const Problem& p);

/// The products in one form: MatMul, Gemm, com.microsoft FusedMatMul and ai.smelt MatMul, whose program is over alpha · a · b;
/// of 8-bit integers QLinearMatMul, MatMulInteger, com.microsoft QGemm and ai.smelt QLinearMatMul, whose problem has a
/// quantization and whose node a program over in0, or none where the result is the sums.
struct Product {
  std::shared_ptr<const Node> node;
  BoundNode bound;                    // its tensors
  size_t a = 0, b = 1, operands = 2;  // inputs of `bound`; operands: the first
  double alpha = 1;
  Problem problem;  // without its epilogue
  // Elements from one to the next: a's and b's batch axes (0 where they repeat), rows and columns.
  Shape batch, a_steps, b_steps;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;

  /// Throws Error where there is none.
  const Quantization& quantization() const { return value_of(problem.quantization, "the quantization of a product"); }
};
/// Throws Error for shapes that do not multiply.
Product product(const BoundNode& node);

}  // namespace smelt::ops::matmul
