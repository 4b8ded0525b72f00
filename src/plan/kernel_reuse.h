// Kernels of a segment that was planned for other sizes, for the steps that those sizes do not change.
#pragma once

#include <map>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

class ReusableKernels {
 public:
  /// `before`: a segment that the same Execution runs, so that no kernel is run by two threads; null: there are none.
  explicit ReusableKernels(const Segment* before);
  /// The step of that segment whose kernel does the same: of the same node, on tensors of the same form. Null where none does.
  const Step* find(const Segment& s, const Step& step) const;

 private:
  const Segment* before_;
  std::map<NodeId, std::vector<const Step*>> steps_;
};

}  // namespace smelt::plan
