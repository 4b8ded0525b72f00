// What is known of the extents of a value when shapes are symbolic. A Dim of the graph says a number or a name or nothing; this
// follows the graph further, through operators that keep an extent and through shape arithmetic (Shape, Slice, Concat, …), so
// that two extents can be proven equal though neither has a number. Nothing is ever assumed of an extent that is not proven.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace smelt::fuse {

/// Symbols that onnx's shape inference makes up: two of them may differ although the extents are the same.
bool is_made_up(const Dim& d);

/// A number, a symbol of the model, or "whatever extent `axis` of `value` has" where nothing more is known.
struct Extent {
  int64_t number = -1;
  std::string symbol;
  ValueId value = ValueId::none;
  int axis = 0;

  static Extent of(int64_t n) { return {n, {}, ValueId::none, 0}; }
  bool known() const { return number >= 0; }
  bool is(int64_t n) const { return number == n; }
  /// Equal extents are proven equal; unequal ones may still turn out equal at run time, unless both are numbers.
  bool operator==(const Extent&) const = default;
};
using Extents = std::vector<Extent>;

/// Extent `axis` (negative: from the end) of a value of known rank. Throws Error when the rank is not known or the axis is
/// outside.
Extent extent(const Graph& g, ValueId v, int axis);
/// All extents; nothing when the rank is not known.
std::optional<Extents> extents(const Graph& g, ValueId v);
/// The elements of an integer scalar or vector as extents, -1 as number -1 (as in Reshape's shape): constants and shape
/// arithmetic. Nothing when any of them is computed otherwise.
std::optional<std::vector<Extent>> shape_values(const Graph& g, ValueId v);

/// Proven to have the same shape.
bool same_shape(const Graph& g, ValueId a, ValueId b);
/// Proven that v broadcasts to `to`'s shape without enlarging it.
bool broadcasts_to(const Graph& g, ValueId v, ValueId to);
bool broadcasts_to(const Extents& from, const Extents& to);

std::string to_string(const Extents& e);

/// Gives values the numbers and symbols that can be proven of their extents where the graph has none, for instance after
/// constants have been folded. Returns how many values gained.
int refine_shapes(Graph& g);

}  // namespace smelt::fuse
