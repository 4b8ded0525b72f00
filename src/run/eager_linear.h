// A linear layer of single tensors, run at once and without a graph around it (smelt.ops.linear in Python): the kernels that plans
// run, chosen the same way.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::run {

struct EagerLinear {
  std::string epilogue;    // a function of the expression language of one argument ("gelu"); empty: none
  bool by_columns = true;  // the weights are [n, k], as PyTorch's; else [k, n]
  bool measures = true;    // kernels are chosen by measuring where the tuning cache does not know the problem; else estimated
};

/// Weights that kernels may pack: what they hold must not change while this lives. They lie in the host's memory.
class LinearWeights {
 public:
  explicit LinearWeights(Tensor weights);
  ~LinearWeights();
  LinearWeights(const LinearWeights&) = delete;

 private:
  friend void eager_linear(const EagerLinear&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, Tensor&,
                           LinearWeights*, void*);
  struct State;
  std::unique_ptr<State> state_;
};

/// y = epilogue(x · w + bias) · gate + residual, each of the last three left out where not valid(). x (m…, k), y, gate and residual
/// (m…, n), bias (n), all dense, of one type among f32, f16 and bf16. All lie in the host's memory, or all on one GPU: the kernel is
/// put on `stream` (a CUstream) then and not waited for. Sums and the epilogue are f32.
///
/// `packed`: what w holds, for kernels that pack it; null: w is read at each call as it is then.
///
/// A problem's kernel is chosen at its first call and kept for the process, of packed weights as long as these. Thread-safe. Throws
/// Error (usage) for tensors that do not fit together, and for a first call on a stream that is being captured.
void eager_linear(const EagerLinear& how, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& gate,
                  const Tensor& residual, Tensor& y, LinearWeights* packed, void* stream);

}  // namespace smelt::run
