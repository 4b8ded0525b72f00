// The oneDNN printer: a program as a chain of post-operations, in this module's own terms (no oneDNN header).
#pragma once

#include <vector>

#include "base/refusal.h"
#include "expr/program.h"

namespace smelt::expr {

/// One step over the running value v, which starts as the program's in0.
struct PostOp {
  enum class Kind : uint8_t { eltwise, binary } kind;
  Fn fn;  // eltwise: a unary function, or clip, leaky_relu, elu, swish, hard_sigmoid with numbers; binary: add, sub, mul, div,
          // min, max
  float alpha = 0, beta = 0;  // eltwise's numbers, as the function's second and third argument
  int input = -1;             // binary: v = fn(v, in<input>), the input in its own type
  bool operator==(const PostOp&) const = default;
};

/// The chain, or the reason why the program is none ("%4 reads %2, which is not the step before it").
/// Matched are programs of one output in which every step takes the step before it as its first argument (add, mul, min and max:
/// either), casts widen an operand to the step's type or round the last step, and other arguments are operands or numbers. An
/// addition or multiplication by a number becomes eltwise add or mul with alpha that number.
Result<std::vector<PostOp>> to_post_ops(const Program& p);

}  // namespace smelt::expr
