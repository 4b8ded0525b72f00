// Inputs of channels-last concatenations as slices of the whole, so that nothing is copied.
#pragma once

#include <functional>
#include <map>

#include "plan/segment.h"

namespace smelt::plan {

/// Whether some kernel that is allowed runs the step with these tensors.
using Runs = std::function<bool(const Step&, const ops::BoundNode&)>;

/// Gives the inputs of channels-last concatenations of channels the strides of their slices where every kernel that touches them takes
/// strides. `seen`: tensors that lie with strides of their own.
void slice_concatenations(Segment& s, const std::map<TensorIndex, Shape>& seen, bool on_gpu, const Runs& runs);

}  // namespace smelt::plan
