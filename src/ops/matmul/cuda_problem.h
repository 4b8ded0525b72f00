// A matrix product as a GPU's kernels take it: any strides, batches that only a has folded into its rows where memory allows.
#pragma once

#include <string>
#include <utility>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/hopper.h"
#include "ops/core/key.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/walk.h"
#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

/// One operand's matrices: the axis that it shares with the result (a's rows, b's columns), and k.
struct CudaOperand {
  int64_t outer = 0, k = 0;  // elements from one to the next
  Shape batch;               // the same along the batch axes
  int64_t alignment = 1;     // bytes, of its first element
  bool k_major = true;       // elements along k lie side by side (or those of neither axis do)
  int64_t vec = 1;           // elements of the widest copy, 16 bytes at most, that begins in every line's every vec-th
  bool anywhere = false;     // of bytes: copies of 16, which begin at any address, by way of registers
};

/// A product but for its types and what follows.
struct CudaGeometry {
  int64_t m = 0, n = 0, k = 0;  // m: of all the rows of one batch
  Shape batch;
  CudaOperand a, b;
  int64_t batches() const { return elements(batch); }
};

/// The result seen as [batch…, rows, columns] where an operand is a vector.
struct MatrixResult {
  bool vector_a = false, vector_b = false;
  BoundTensor y;
  EpilogueAxes axes;
  /// The same of a tensor that broadcasts to the result.
  BoundTensor view(const BoundTensor& t) const;
};

/// `a` and `b` as the product's node has them, transposed or not.
std::pair<CudaGeometry, MatrixResult> cuda_geometry(const Product& product, const BoundTensor& a, const BoundTensor& b,
                                                    const BoundTensor& y);

/// Doubles and integers of 32 and 64 bits, whose sums are of their own type.
constexpr bool is_wide(DType t) {
  return t == DType::f64 || t == DType::i32 || t == DType::u32 || t == DType::i64 || t == DType::u64;
}

/// Why its extents cannot be counted; empty where they can.
std::optional<Refusal> uncountable(const CudaGeometry& g);

struct CudaProblem : CudaGeometry {
  DType type = DType::f16, type_b = DType::f16;
  CudaEpilogue epilogue;
  Problem problem;  // the cache's key
  // Of 8-bit products: whose zero points are taken from the sums (kernels::zeros_of_a, zeros_of_b). b's are input 2, one for each column,
  // or where a run computes it the one in input 4; a's is a_zero, or in input 3. And programs round at every operation.
  uint32_t zeros = 0;
  int32_t a_zero = 0;
  bool computed_a_zero = false, computed_b_zero = false, fused_multiply_add = true;
  bool constant_b = false;  // no kernel writes it
  Tensor weights;           // b where it is a constant whose matrix lies dense as [K, N], and batches repeat it; else not valid()
  double image_bytes = 0;   // of a, where it is an image whose windows a convolution reads; 0: a matrix
  int64_t line_bytes = 128;  // of K, in a stage of Hopper's kernel; 64 where pixels of an image of integers have as many channels
  kernels::HopperNorm norm = kernels::HopperNorm::none;  // of a's rows, before they are multiplied (normed_product.h)
  float epsilon = 0;                                     // that it adds
  bool gated = false;  // n: of two products, 64 columns of the second behind every 64 of the first (gated_product.h)
  double flops() const {
    return 2.0 * static_cast<double>(batches()) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// a, b, operands and the result, each element once.
  double moved_bytes() const;
  /// How a's and b's batches lie.
  Views batch_views() const;
  /// All but the addresses, for tiles of so many rows and columns that take all of K.
  kernels::GemmArgs<void, void, void> gemm_args(int64_t tile_m, int64_t tile_n) const;
};

/// The problem, or why no kernel of the GPU's takes it.
Result<CudaProblem> cuda_problem(const BoundNode& node);

/// ";a=f16[2,3]:strides=…@4": an operand that is not dense, or does not begin at a multiple of 16 bytes.
void add_operand(Key& key, char name, const BoundTensor& t);

}  // namespace smelt::ops::matmul
