// A fused step as the operators that it stands for: their steps, over tensors that lie as the fused step's do.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "plan/context.h"
#include "plan/not_compared.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Parts that a fused node can run as: their graph, planned for the node's tensors.
struct Parts {
  Graph graph;
  Segment segment;
};

/// The node's definition, rewritten without those rewrites. What it reads and writes lies as it does for the step, channels-last or
/// as a slice; between them images are channels-last where a kernel takes them so, and reorders stand around the others.
std::variant<Parts, NotCompared> parts_of(const Segment& s, const Step& step, const std::vector<std::string>& without,
                                          const Context& context);

/// The steps of the parts instead of the step at `at`.
void replace(Segment& s, size_t at, const Parts& parts, const std::shared_ptr<const FusedTimes>& times);

}  // namespace smelt::plan
