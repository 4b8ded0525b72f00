// Floating-point references are written once, for float and double: narrower inputs are widened before, and results
// rounded once after.
#pragma once

#include <utility>

#include "ops/core/operator.h"

namespace smelt::ops {

/// A node's tensors with every floating-point one in `type` (f32 or f64); the others are passed through.
class Widened {
 public:
  Widened(ComputeContext& c, DType type);
  ComputeContext& context() { return context_; }
  /// Rounds the outputs into the node's own tensors.
  void store();

 private:
  ComputeContext& original_;
  std::vector<Tensor> inputs_, outputs_;
  ComputeContext context_;
};

/// The type a node's floating-point reference computes in: f64 when an input or an output is f64, else f32.
DType reference_float_type(const ComputeContext& c);

/// Calls body(context, T{}) with T float or double and all floating-point tensors of the context in T.
template <class F> void in_float(ComputeContext& c, F&& body) {
  const DType type = reference_float_type(c);
  Widened w(c, type);
  if (type == DType::f64)
    body(w.context(), double{});
  else
    body(w.context(), float{});
  w.store();
}

/// The elements of an optional input, null when it is left out.
template <class T> const T* optional_data(const ComputeContext& c, size_t i) {
  return c.has(i) ? c.in(i).template data<T>() : nullptr;
}

}  // namespace smelt::ops
