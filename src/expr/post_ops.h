// The oneDNN printer writes a Program as a chain of post-operations (dnnl::post_ops), in types of its own (no oneDNN header).
#pragma once

#include <vector>

#include "base/refusal.h"
#include "expr/program.h"

namespace smelt::expr {

/// One post-operation on the running value v. Before the first one, v is the program's in0.
struct PostOp {
  enum class Kind : uint8_t { eltwise, binary } kind;
  Fn fn;                      // eltwise: a unary function, or clip, leaky_relu, elu, swish or hard_sigmoid with constants;
                              // binary: add, sub, mul, div, min or max
  float alpha = 0, beta = 0;  // eltwise: the function's second and third argument
  int input = -1;             // binary: v = fn(v, in<input>); the input keeps its own type
  bool operator==(const PostOp&) const = default;
};

/// The chain, or the reason why the program is not one ("%4 reads %2, which is neither the step before it, an operand nor a
/// number"). A program is a chain when
///   - it has one output, and its in0 is f32,
///   - every step takes the step before it as its first argument (add, mul, min and max: as either argument),
///   - every other argument is an input or a constant,
///   - casts only widen an input to f32, or round the last step.
/// A binary function of v and a constant becomes eltwise, with the constant as alpha.
Result<std::vector<PostOp>> to_post_ops(const Program& p);

}  // namespace smelt::expr
