// Reductions on a GPU: what is reduced, whatever operator says so, and the kernels that are generated for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "expr/program.h"
#include "ops/core/strides.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {

struct ReduceForm {
  std::string state;  // of src/kernels/reduce/fold.cuh: "Sum<float>"
  std::string start;  // what Max and Min start from, a CUDA expression; empty for the others
  int64_t state_bytes = 4;
  bool indexed = false;                             // the state asks where its values lie: one axis is reduced
  expr::Program before, after;                      // values from the operands; the result and further operands to y
  std::vector<size_t> before_inputs, after_inputs;  // the node's inputs that they read
  Shape shape;                                      // of all operands of `before`, broadcast
  std::vector<int64_t> axes;                        // reduced, normalised
  bool keepdims = true;
};

/// Whether reduce_form knows the operator.
bool is_reduction(const Node& n);
/// The same for ONNX's reductions, ArgMax, ArgMin, GlobalAveragePool, GlobalMaxPool and ai.smelt.Reduce; refused for what
/// is none.
Result<ReduceForm> reduce_form(const BoundNode& b);

/// "cuda": cuda_reduce.cpp. "rows …" where the reduced elements lie side by side, "columns …" where the results do.
void offer_folds_cuda(const BoundNode& b, const ReduceForm& form, const Gpu& gpu, Offer& offer);

}  // namespace smelt::ops
