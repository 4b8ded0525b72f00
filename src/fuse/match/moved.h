// Nodes that move data, which a match adds around a fused operator.
#pragma once

#include <string>
#include <vector>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// The shape of a value whose rank is known. Throws Error where it is not.
const SymShape& shape_of(const Graph& g, ValueId v);

/// A node in the place of `of`, with its name and sources, whose result is a new value of the type of inputs[0]. The caller adds it.
Node moved_in_place_of(Graph& g, NodeId of, std::string op, std::vector<ValueId> inputs, SymShape shape);

/// 0, 1, …, rank - 1 with the last two exchanged.
std::vector<int64_t> swapped_axes(int rank);
SymShape with_last_two_swapped(SymShape s);

/// Adds a Transpose of x in the place of `of`, and gives its result, of this shape.
ValueId add_transpose(Graph& g, NodeId of, ValueId x, std::vector<int64_t> perm, SymShape shape);
/// The same of x's last two axes. x's rank must be known.
ValueId add_swap(Graph& g, NodeId of, ValueId x);

}  // namespace smelt::fuse
