// A matrix product by a line of text (tune/problem_text.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/problem_text.h"

namespace smelt::tune {

/// gemm:f16:48x4096x4096:rcr:bias+relu
///
///   type       f32, f16 or bf16; i8 or u8 (with weights of i8), whose result is f32: scaled sums
///   MxNxK      rows, columns, depth
///   layout     three of r and c: whether a, b and the result lie by rows or by columns; the result by rows. "rrr" if left out
///   epilogue   parts joined by "+": bias (a number a column), residual (added), gate (multiplied), and functions of the expression
///              language of one argument (relu, gelu, gelu_tanh, silu, …), leaky_relu and elu. "none" if left out
struct ProductText {
  DType type = DType::f32;
  int64_t m = 0, n = 0, k = 0;
  bool a_columns = false, b_columns = false;
  std::vector<std::string> epilogue;
};

/// Throws Error (usage) that says what was expected, where, and what was found.
ProductText parse_product(std::string_view text);
std::string print(const ProductText& p);

/// The product as a step that kernels are offered for. Its weights are random numbers.
ProblemNode product_node(const ProductText& p);

}  // namespace smelt::tune
