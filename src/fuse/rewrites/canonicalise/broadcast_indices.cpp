// Before   GatherElements(data, Expand(indices)) or ScatterElements(data, Expand(indices), updates), or Tile for Expand, whose indices
//          are the same along every axis behind the operator's: torch.gather and scatter_add by whole rows, as graph networks and
//          the queries of detectors have them
// After    GatherND of the rows, of each batch its own; Gather where the indices are those of every batch; ScatterND
// Unless   the result does not hold whole rows, or it is not proven
//          indices differ along the axes before the operator's (GatherElements: only along some of them)
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/moved.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Indices before they were broadcast, and along which of the result's axes they may differ.
struct Broadcast {
  ValueId source = ValueId::none;
  std::vector<bool> differs;
};

std::optional<Broadcast> broadcast_of(const Graph& g, ValueId v, size_t rank) {
  NodeId made = NodeId::none;
  if (!made_by(g, v, "Expand", &made) && !made_by(g, v, "Tile", &made)) return {};
  Broadcast b{.source = g.node(made).in(0), .differs = std::vector<bool>(rank, false)};
  const auto from = extents(g, b.source), to = extents(g, v);
  if (!from || !to || to->size() != rank || from->size() > rank) return {};
  for (size_t i = 0; i < from->size(); ++i) {
    const size_t axis = rank - from->size() + i;
    if ((*from)[i].is(1)) continue;
    if ((*from)[i] != (*to)[axis]) return {};  // a Tile that repeats several
    b.differs[axis] = true;
  }
  return b;
}

/// A node in the place of `of` that only moves x.
ValueId moved(Graph& g, NodeId of, const char* op, ValueId x, const std::vector<int64_t>& numbers, SymShape shape) {
  const auto count = static_cast<int64_t>(numbers.size());
  Node n = moved_in_place_of(g, of, op, {x, g.add_constant("", Tensor::of<int64_t>({count}, numbers))}, std::move(shape));
  const ValueId y = n.outputs[0];
  g.add_node(std::move(n));
  return y;
}

/// Indices in the type that GatherND and ScatterND take.
ValueId as_i64(Graph& g, NodeId of, ValueId x) {
  if (g.value(x).type == DType::i64) return x;
  constexpr int64_t onnx_i64 = 7;
  Node n = moved_in_place_of(g, of, "Cast", {x}, shape_of(g, x));
  n.attrs["to"] = onnx_i64;
  n.outputs = {g.add_value(g.value(x).name + "_i64", DType::i64, shape_of(g, x))};
  const ValueId y = n.outputs[0];
  g.add_node(std::move(n));
  return y;
}

SymShape part(const SymShape& s, size_t begin, size_t end) {
  return {s.begin() + static_cast<int64_t>(begin), s.begin() + static_cast<int64_t>(end)};
}

void become(Graph& g, NodeId n, const char* op, const std::vector<ValueId>& inputs) {
  g.edit(n).op = op;
  g.edit(n).attrs.erase("axis");
  g.set_inputs(n, inputs);
}

/// The indices as a vector, or as [batch.., rows, 1] with the batch's axes.
ValueId flat_indices(Graph& g, NodeId n, const Broadcast& b, size_t axis, bool batch) {
  const SymShape shape = shape_of(g, g.node(n).in(1));
  if (!batch) return moved(g, n, "Reshape", b.source, {-1}, part(shape, axis, axis + 1));
  std::vector<int64_t> numbers(axis + 1, 0);  // as they are
  numbers.push_back(1);
  SymShape rows = part(shape, 0, axis + 1);
  rows.emplace_back(1);
  return as_i64(g, n, moved(g, n, "Reshape", b.source, numbers, std::move(rows)));
}

/// `shared`: every batch has the same rows; `own_rows`: each its own.
Outcome gather(NodeId n, const Broadcast& b, size_t axis, bool shared, bool own_rows) {
  if (!shared && !own_rows) return NotHere{};
  return Match{{n},
               [n, b, axis, own_rows](Graph& g) {
                 const ValueId data = g.node(n).in(0);
                 if (own_rows) {
                   become(g, n, "GatherND", {data, flat_indices(g, n, b, axis, true)});
                   g.edit(n).attrs["batch_dims"] = static_cast<int64_t>(axis);
                 } else {
                   become(g, n, "Gather", {data, flat_indices(g, n, b, axis, false)});
                   g.edit(n).attrs["axis"] = static_cast<int64_t>(axis);
                 }
                 return n;
               },
               own_rows ? "rows of each batch" : "rows"};
}

/// Leading axes of extent 1 go first, and come back.
Outcome scatter(NodeId n, const Broadcast& b, size_t axis) {
  return Match{{n},
               [n, b, axis](Graph& g) {
                 const Node node = g.node(n);
                 std::vector<int64_t> leading;
                 for (size_t i = 0; i < axis; ++i) leading.push_back(static_cast<int64_t>(i));
                 const auto without = [&](ValueId v) {
                   const SymShape s = shape_of(g, v);
                   return axis == 0 ? v : moved(g, n, "Squeeze", v, leading, part(s, axis, s.size()));
                 };
                 const ValueId flat = flat_indices(g, n, b, axis, false);
                 SymShape column = shape_of(g, flat);
                 column.emplace_back(1);
                 const ValueId data = without(node.in(0)), updates = without(node.in(2));
                 const ValueId indices = as_i64(g, n, moved(g, n, "Reshape", flat, {-1, 1}, std::move(column)));
                 if (axis == 0) {
                   become(g, n, "ScatterND", {data, indices, updates});
                   return n;
                 }
                 Node made = moved_in_place_of(g, n, "ScatterND", {data, indices, updates}, shape_of(g, data));
                 if (node.has("reduction")) made.attrs["reduction"] = node.get_string("reduction", "none");
                 const ValueId between = made.outputs[0];
                 g.add_node(std::move(made));
                 g.edit(n).op = "Unsqueeze";
                 g.edit(n).attrs.clear();
                 g.set_inputs(n, {between, g.add_constant("", Tensor::of<int64_t>({static_cast<int64_t>(axis)}, leading))});
                 return n;
               },
               "rows"};
}

}  // namespace

Outcome broadcast_indices(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool scatters = node.is("ScatterElements");
  if (!scatters && !node.is("GatherElements")) return NotHere{};
  const auto data = extents(g, node.in(0)), indices = extents(g, node.in(1));
  if (!data || !indices || data->empty() || data->size() != indices->size()) return NotHere{};
  const size_t rank = data->size();
  const int64_t given = node.get_int("axis", 0), from_front = given < 0 ? given + static_cast<int64_t>(rank) : given;
  if (from_front < 0 || from_front >= static_cast<int64_t>(rank)) return NotHere{};
  const auto axis = static_cast<size_t>(from_front);
  const auto b = broadcast_of(g, node.in(1), rank);
  if (!b || !(b->differs[axis] || (*indices)[axis].is(1))) return NotHere{};
  bool own = true, shared = true, single = true;  // the batch's axes: all differ, none does, all have an extent of 1
  for (size_t i = 0; i < rank; ++i) {
    if (i == axis) continue;
    if (i > axis && b->differs[i]) return NotHere{};
    if (i < axis) {
      own = own && b->differs[i];
      shared = shared && !b->differs[i];
      single = single && (*data)[i].is(1) && (*indices)[i].is(1);
    }
    if ((*data)[i].known() && (*indices)[i].known() && (*data)[i] != (*indices)[i]) return NotHere{};
    if ((*data)[i] != (*indices)[i])
      return refuse(Reason::unknown_shape, n, "extents {} and {} of axis {} are not proven to be equal", to_string({(*data)[i]}),
                    to_string({(*indices)[i]}), i);
  }
  if (!scatters) {
    const bool rows_follow = axis + 1 < rank && fuse::rank(g, b->source) == static_cast<int>(rank);
    return gather(n, *b, axis, shared, own && axis > 0 && rows_follow);
  }
  // Updates have the indices' shape by definition. Kernels of both operators refuse those that have another.
  if (!single || fuse::rank(g, node.in(2)) != static_cast<int>(rank)) return NotHere{};
  return scatter(n, *b, axis);
}

}  // namespace smelt::fuse
