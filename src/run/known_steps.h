// Steps that a plan for other sizes has too: their kernels serve again.
#pragma once

#include <map>
#include <vector>

#include "run/bound.h"

namespace smelt::run {

class KnownSteps {
 public:
  /// `before`: a segment that the same Execution runs, so that no kernel is run by two threads; null: nothing is known.
  explicit KnownSteps(const Segment* before);
  /// The step of that segment whose kernel does the same: of the same node, on tensors of the same form. Null where none does.
  const Step* find(const Segment& s, const Step& step) const;

 private:
  const Segment* before_;
  std::map<NodeId, std::vector<const Step*>> steps_;
};

}  // namespace smelt::run
