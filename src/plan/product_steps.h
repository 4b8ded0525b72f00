// What passes that make one product of several steps ask of them.
#pragma once

#include "plan/segment.h"

namespace smelt::plan {

/// A product of two matrices, neither transposed nor scaled.
bool is_plain_product(const Step& step);
/// Whether one step alone reads the tensor, and no caller.
bool is_read_once(const Segment& s, TensorIndex t);
/// Adds the sources of `from` to the node's.
void add_sources(Node& node, const Node& from);
/// Takes out the steps at these places.
void erase_steps(Segment& s, std::vector<size_t> at);

}  // namespace smelt::plan
