// Puts a body in the place of the node that runs it: a branch of an If, a Loop's once for each turn.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace smelt {

/// Why the branch that the If takes cannot stand in its place: its inputs or outputs do not fit. Nothing where it can.
std::optional<std::string> cannot_inline(const Graph& g, NodeId node, bool taken);

/// Replaces the If by the nodes of its branch: `then_branch` where `taken`, else `else_branch`. The branch's inputs become the
/// values that the If captures. Its constants and other values get values of this graph, their names made unique. The If's
/// outputs keep their names; they take over what the branch knows of their shapes. Symbols of the branch do not go with its
/// values: a name may mean another extent here. cannot_inline must have found nothing.
void inline_branch(Graph& g, NodeId node, bool taken);

/// Replaces a Loop by the nodes of its body, once for each of so many turns, one at least; what the body says of going on is left out.
/// Nodes are named NAME/TURN. What each turn gives beside the states is stacked by a Concat. What the body says of its values' shapes is
/// forgotten: a state's may change from turn to turn. The node has a body, with as many inputs and one output more.
void inline_turns(Graph& g, NodeId loop, int64_t turns);

}  // namespace smelt
