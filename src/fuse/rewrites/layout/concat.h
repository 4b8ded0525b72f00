// When a Concat needs no copy.
#pragma once

#include <optional>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// Why the producers of a Concat's inputs cannot write straight into its output; nothing when they can. They can when each
/// input is computed by a kernel (no constant, graph input, view of another value or control flow), for this Concat alone
/// and once, is no output of the graph, and its slice is known: along an axis before which all extents are 1 slices are
/// contiguous, otherwise the producer and the readers must be such that write and read rows apart. What else reads an input
/// reads it from the slice.
std::optional<Refusal> not_in_place(const Graph& g, NodeId concat);

/// The factor by which a nearest-neighbour Resize repeats every spatial element, the same for all axes, so that output element i
/// is input element i / factor; nothing for other Resizes.
std::optional<int64_t> nearest_factor(const Graph& g, NodeId resize);

}  // namespace smelt::fuse
