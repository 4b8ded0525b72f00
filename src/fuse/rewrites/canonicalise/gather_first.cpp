// Before   Gather(f(table, ..), indices) along the first axis, where f is pointwise and all that it reads is constant: an embedding whose
//          table the model keeps in few bits, with Cast and Mul or with DequantizeLinear
// After    f(Gather(table, indices), ..): the rows that a run needs are computed, not the table
// Unless   the table has another reader or is a graph output
//          it is small: then fold_constants computes it once
#include <algorithm>

#include "fuse/match/match.h"
#include "fuse/match/pointwise.h"
#include "fuse/rewrites/canonicalise/folding.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr int deepest = 8;  // nodes in a row

/// Whether v is a constant, or computed from constants by pointwise nodes.
bool is_made_of_constants(const Graph& g, ValueId v, int depth = 0) {
  const Value& value = g.value(v);
  if (value.is_constant()) return true;
  if (value.producer == NodeId::none || depth == deepest || not_pointwise(g, value.producer)) return false;
  const auto& inputs = g.node(value.producer).inputs;
  return std::ranges::all_of(inputs, [&](ValueId in) { return in == ValueId::none || is_made_of_constants(g, in, depth + 1); });
}

enum class Part : uint8_t { rows, same, one_row };

/// What of an input each row of a table [rows, ..] is computed from; nothing where its shape is not known.
std::optional<Part> part_of(const Value& v, int table_rank, int64_t rows) {
  if (!v.shape || !is_static(*v.shape)) return {};
  if (static_cast<int>(v.shape->size()) < table_rank) return Part::same;
  return to_shape(*v.shape)[0] == rows ? Part::rows : Part::one_row;
}

std::optional<SymShape> gathered_shape(const Graph& g, ValueId indices, ValueId data) {
  if (!g.value(indices).shape) return {};
  SymShape s = *g.value(indices).shape;
  const SymShape& row = *g.value(data).shape;
  s.insert(s.end(), row.begin() + 1, row.end());
  return s;
}

ValueId gathered(Graph& g, const Node& gather, ValueId data) {
  Node n = gather;
  n.inputs = {data, gather.in(1)};
  n.outputs = {g.add_value(gather.name + "_of_" + g.value(data).name, g.value(data).type, gathered_shape(g, gather.in(1), data))};
  n.attrs["axis"] = int64_t{0};
  const ValueId out = n.out();
  g.add_node(std::move(n));
  return out;
}

}  // namespace

Outcome gather_first(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("Gather")) return NotHere{};
  const ValueId table = node.in(0);
  const Value& v = g.value(table);
  const NodeId f = v.producer;
  if (f == NodeId::none || !v.shape || v.shape->empty() || !is_static(*v.shape) || !is_made_of_constants(g, table))
    return NotHere{};
  const int r = static_cast<int>(v.shape->size());
  if (const int64_t axis = node.get_int("axis", 0); axis != 0 && axis != -r) return NotHere{};
  if (bytes(v.type, elements(to_shape(*v.shape))) <= folded_always) return NotHere{};
  if (const auto only = reader_of(g, table); !only) return only.refusal();
  const int64_t rows = to_shape(*v.shape)[0];
  for (const ValueId in : g.node(f).inputs) {
    if (in == ValueId::none) continue;
    const auto part = part_of(g.value(in), r, rows);
    if (!part || (*part == Part::one_row && !g.value(in).is_constant()))
      return refuse(Reason::unknown_shape, f, "what a row of {} is computed from is not known", describe(g, f));
  }
  return Match{{f, n}, [n, f, r, rows](Graph& graph) {
                 const Node gather = graph.node(n);
                 Node after = graph.node(f);
                 graph.remove_node(n);
                 graph.remove_node(f);
                 for (ValueId& in : after.inputs) {
                   if (in == ValueId::none) continue;
                   const Value input = graph.value(in);
                   const auto part = part_of(input, r, rows);
                   if (part == Part::rows) in = gathered(graph, gather, in);
                   if (part == Part::one_row) {
                     const Shape& shape = input.constant.shape();
                     in = graph.add_constant(input.name + "_row", input.constant.reshaped({shape.begin() + 1, shape.end()}));
                   }
                 }
                 after.outputs = {gather.out()};
                 after.order = gather.order;
                 return graph.add_node(std::move(after));
               }};
}

}  // namespace smelt::fuse
