// Before   Shape of a computed value whose extents are numbers and symbols of the model's inputs
// After    the same extents, read from the inputs: the value need not be computed to know them
// Unless   an extent is neither a number nor an extent of an input
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The graph input, and its axis, that has this symbol; none when none has.
std::pair<ValueId, int> find_symbol(const Graph& g, const std::string& symbol) {
  for (ValueId in : g.inputs()) {
    const auto& shape = g.value(in).shape;
    for (size_t i = 0; shape && i < shape->size(); ++i)
      if ((*shape)[i].symbol == symbol && !is_made_up((*shape)[i])) return {in, static_cast<int>(i)};
  }
  return {ValueId::none, 0};
}

/// Extent `axis` of an input as a vector of one: a Shape that is there already, or a new one.
ValueId shape_of(Graph& g, ValueId input, int axis, const Node& like) {
  for (const Use& u : g.readers(input)) {
    const Node& n = g.node(u.node);
    if (n.is("Shape") && n.get_int("start", 0) == axis && n.get_int("end", -1) == axis + 1) return n.out();
  }
  Node shape;
  shape.op = "Shape";
  shape.opset = like.opset;
  shape.name = g.value(input).name + "/extent_" + std::to_string(axis);
  shape.attrs["start"] = int64_t{axis};
  shape.attrs["end"] = int64_t{axis + 1};
  shape.order = like.order;
  shape.sources = like.sources;
  shape.inputs = {input};
  shape.outputs = {g.add_value("", DType::i64, SymShape{Dim(1)})};
  const ValueId out = shape.outputs[0];
  g.add_node(std::move(shape));
  return out;
}

}  // namespace

Outcome shape_from_inputs(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Shape") || g.is_input(n.in(0))) return NotHere{};
  auto wanted = shape_values(g, n.out());
  if (!wanted) return refuse(Reason::unknown_shape, g.producer(id, 0), "the rank of {} is not known", g.value(n.in(0)).name);
  for (const Extent& e : *wanted)
    if (!e.known() && (e.symbol.empty() || find_symbol(g, e.symbol).first == ValueId::none))
      return refuse(Reason::unknown_shape, g.producer(id, 0), "{} of {} is not an extent of an input", to_string(Extents{e}),
                    g.value(n.in(0)).name);
  if (wanted->empty()) return NotHere{};
  return Match{{id}, [id, wanted = *wanted](Graph& graph) {
                 const Node old = graph.node(id);
                 std::vector<ValueId> parts;
                 for (size_t i = 0; i < wanted.size();) {
                   if (!wanted[i].known()) {
                     auto [input, axis] = find_symbol(graph, wanted[i].symbol);
                     parts.push_back(shape_of(graph, input, axis, old));
                     ++i;
                     continue;
                   }
                   std::vector<int64_t> numbers;
                   for (; i < wanted.size() && wanted[i].known(); ++i) numbers.push_back(wanted[i].number);
                   parts.push_back(graph.add_constant("", Tensor::of({static_cast<int64_t>(numbers.size())}, numbers)));
                 }
                 if (parts.size() == 1 && graph.is_output(old.out())) {  // which keeps its name
                   Node identity;
                   identity.op = "Identity";
                   identity.opset = old.opset;
                   identity.inputs = parts;
                   identity.outputs = {old.out()};
                   return replace(graph, {id}, identity);
                 }
                 if (parts.size() == 1) {
                   graph.replace_uses(old.out(), parts[0]);
                   graph.remove_node(id);
                   return graph.value(parts[0]).producer;
                 }
                 Node concat;
                 concat.op = "Concat";
                 concat.opset = old.opset;
                 concat.attrs["axis"] = int64_t{0};
                 concat.inputs = parts;
                 concat.outputs = {old.out()};
                 return replace(graph, {id}, concat);
               }};
}

}  // namespace smelt::fuse
