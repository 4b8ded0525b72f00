// A problem set up to be timed: buffers filled with random data, and kernels of the candidates on them.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/core/tactic.h"

namespace smelt::tune {

/// Fills the tensor's bytes as elements of `type`: uniform in [-1, 1), bytes of 8-bit integers uniform. Kernels may branch on
/// values (a requantization near a half), and zeros cost less power. Other types, those of indices, stay as they are.
void fill_random(Tensor& t, DType type, std::mt19937& random);

class Trial {
 public:
  /// Constants are used as they are; other floating-point inputs are uniform in [-1, 1), integers and booleans 0, which
  /// is a valid index everywhere. Packed weights are the trial's own and go with it.
  Trial(const ops::BoundNode& node, const ops::Machine& machine);

  /// Prepares the candidate of that name and returns what runs it once. The trial must outlive it.
  std::function<void()> runner(const std::string& tactic, const std::string& config);

 private:
  ops::WeightStore weights_;
  ops::BoundNode node_;
  ops::Offer offer_;
  std::vector<Tensor> inputs_, outputs_, workspaces_;
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace smelt::tune
