// A problem set up to be timed: buffers filled with random data, and kernels of the candidates on them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/tactic.h"

namespace smelt::tune {

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
