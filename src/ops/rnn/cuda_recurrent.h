// What the GPU's kernels of RNN, GRU and LSTM share: the layer as they take it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/rnn/recurrent.h"
#include "ops/core/tactic.h"
#include "ops/cuda/launches.h"

namespace smelt::ops {

/// A node's activations: a struct for each direction, and their names as a kernel template's arguments.
struct ActivationSource {
  std::string structs, names;
};

struct LayerOnGpu {
  kernels::RecurrentArgs<void, void> args{};
  int64_t gates = 1, element_bytes = 4;
  ActivationSource activations;
  std::string types;                             // of the elements and of the lengths: "f16, i32"
  std::vector<std::optional<BufferRef>> inputs;  // where those that are given lie
  std::vector<bool> outputs;                     // which are given
  bool rounded = false;                          // the state is rounded to 8 bits before its products
  /// Launches before the layer's, which make some of its inputs; empty: none.
  std::function<void(LaunchPlan&, LayerOnGpu&)> before;

  /// Of a copy of `args` that a launch holds.
  std::vector<TensorMember> tensors(const kernels::RecurrentArgs<void, void>& of) const;
};

Result<LayerOnGpu> layer_on_gpu(const BoundNode& b);

/// Every kernel of the layer: cuda_recurrent.cpp.
void offer_layer_cuda(const LayerOnGpu& layer, const Machine& machine, Offer& offer);

/// "cuda" "resident …": cuda_resident.cpp.
void offer_resident_cuda(const LayerOnGpu& layer, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
