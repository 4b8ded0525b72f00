// Which tensors lie channels-last. Convolutions and pooling read and write [N, H, W, C]; pointwise operators and
// concatenations between them follow; reorders stand where a channels-last image meets an operator that wants it plain. (On AVX2,
// oneDNN's and smelt's convolutions reach 90 to 98 % of the measured peak on channels-last images, 30 to 60 % on plain ones.)
#pragma once

#include <set>

#include "plan/segment.h"

namespace smelt::plan {

/// Sets layouts and inserts reorder steps, and gives the inputs of channels-last concatenations the strides of their slices
/// where every kernel that touches them takes strides, so that nothing is copied. A step's images are channels-last only where
/// some tactic that `tuner` allows is offered for exactly those layouts, and no step of a node in `plain` asks for it.
void assign_layouts(Segment& s, const tune::Tuner& tuner, const std::set<NodeId>& plain = {});

}  // namespace smelt::plan
