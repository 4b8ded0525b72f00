// Taking a node out from between its input and its readers, and putting a constant in the place of what a node computes.
#pragma once

#include <optional>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// Why the readers of n's first output cannot read `v` instead: another type, another output of n is used, or both are seen
/// from outside the graph. The graph's outputs keep their names.
std::optional<Refusal> cannot_bypass(const Graph& g, NodeId n, ValueId v);

/// The match that makes the readers of n's first output read `v`. cannot_bypass must have found nothing.
Match bypass(const Graph& g, NodeId n, ValueId v);

/// The match that puts `t` in the place of n's first output, its only one; an output of the graph keeps its name.
Match become_constant(const Graph& g, NodeId n, Tensor t);

/// The match that gives n another operator, inputs and attributes and leaves the rest of it as it is.
Match become(NodeId n, std::string op, std::vector<ValueId> inputs, std::map<std::string, Attribute> attrs);

/// The match that makes n a Reshape of x to these extents, of which one may be -1.
Match become_reshape(NodeId n, ValueId x, std::vector<int64_t> extents);

}  // namespace smelt::fuse
