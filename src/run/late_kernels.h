// The processor's kernels of nodes whose outputs' extents follow from values that only a run knows, as those of Range and
// ConstantOfShape do: chosen once the values are there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "tune/tuner.h"

namespace smelt::run {

class LateKernels {
 public:
  /// The node's outputs, by the kernel with the lowest estimate that needs no code made for it. Nothing where the reference is to run it:
  /// values do not decide the extents, there is no other kernel, or the results are too few to choose one for.
  std::optional<std::vector<Tensor>> run(const Node& node, std::span<const Tensor> in, const tune::Tuner& tuner);

 private:
  /// What a node's kernel was chosen for, and the kernel: null where the reference alone runs it.
  struct Chosen {
    ops::BoundNode bound;
    std::unique_ptr<ops::Kernel> kernel;
    Tensor workspace;
  };
  std::map<const Node*, Chosen> chosen_;
};

}  // namespace smelt::run
