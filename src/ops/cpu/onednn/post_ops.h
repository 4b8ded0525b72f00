// The expression language's chains (expr/post_ops.h) as oneDNN's post-operations: a program that follows a product, applied to it
// in registers. Includes dnnl.hpp: for the sources of "onednn" tactics only.
#pragma once

#include <string>

#include "expr/post_ops.h"
#include "ops/cpu/onednn/primitive.h"

namespace smelt::ops::onednn {

class PostOps {
 public:
  /// The chain of a node's program over a result of `rank` axes whose operands are the inputs from `first_operand` on, or why it
  /// is none that oneDNN knows. `before`: post-operations that the primitive has already.
  static Result<PostOps> of(const BoundNode& node, size_t first_operand, size_t rank, int before);

  void append(dnnl::post_ops& ops) const;
  /// Adds the operands as arguments, and gives them their memory before each run.
  void bind(Primitive& primitive) const;
  void set(Primitive& primitive, const Buffers& b) const;

 private:
  struct Operand {
    int argument;
    size_t input;
    dnnl::memory::desc desc;
  };
  struct Step {
    dnnl::algorithm algorithm;
    float alpha = 0, beta = 0;                       // of an eltwise one
    std::optional<dnnl::memory::desc> operand = {};  // of a binary one
  };
  std::vector<Step> steps_;
  std::vector<Operand> operands_;
};

}  // namespace smelt::ops::onednn
