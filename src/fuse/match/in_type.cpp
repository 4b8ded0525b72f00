#include "fuse/match/in_type.h"

#include <map>
#include <set>
#include <string>

namespace smelt::fuse {
namespace {

class InType {
 public:
  InType(Graph& g, bool (*replaced)(DType), DType to)
      : g_(g), replaced_(replaced), to_(to), suffix_("_" + std::string(name(to))) {}

  void run(const std::vector<NodeId>& nodes) {
    const std::set<NodeId> inside(nodes.begin(), nodes.end());
    std::vector<std::pair<ValueId, DType>> made;
    for (NodeId id : nodes) {
      for (size_t i = 0; i < g_.node(id).inputs.size(); ++i)
        if (const ValueId v = g_.node(id).inputs[i]; is_replaced(v)) g_.set_input(id, i, converted(v, id));
      for (const ValueId v : std::vector<ValueId>(g_.node(id).outputs))
        if (is_replaced(v)) made.emplace_back(v, g_.value(v).type), g_.set_type(v, to_);
    }
    for (const auto& [v, type] : made) hand_on(v, type, inside);
  }

 private:
  bool is_replaced(ValueId v) const { return v != ValueId::none && g_.value(v).type != to_ && replaced_(g_.value(v).type); }

  /// A constant or another node's value, in that type. All readers share it.
  ValueId converted(ValueId v, NodeId reader) {
    const auto [at, fresh] = converted_.emplace(v, ValueId::none);
    if (!fresh) return at->second;
    const Value value = g_.value(v);
    if (value.is_constant()) return at->second = g_.add_constant(value.name + suffix_, value.constant.cast(to_));
    at->second = g_.add_value(value.name + suffix_, to_, value.shape);
    cast(v, at->second, reader);
    return at->second;
  }

  /// A node's value to others, in the type that they had it in.
  void hand_on(ValueId v, DType type, const std::set<NodeId>& inside) {
    std::vector<Use> others;
    for (const Use& u : g_.readers(v))
      if (!inside.contains(u.node)) others.push_back(u);
    std::vector<size_t> results;
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (g_.outputs()[i] == v) results.push_back(i);
    if (others.empty() && results.empty()) return;
    const NodeId producer = g_.value(v).producer;
    const std::string own = g_.value(v).name;
    if (!results.empty()) g_.rename(v, own + suffix_);  // the graph's output keeps its name
    const ValueId back = g_.add_value(results.empty() ? own + "_" + std::string(name(type)) : own, type, g_.value(v).shape);
    cast(v, back, producer);
    for (const Use& u : others) g_.set_input(u.node, static_cast<size_t>(u.input), back);
    for (size_t i : results) g_.set_output(i, back);
  }

  void cast(ValueId from, ValueId to, NodeId beside) {
    Node n;
    n.op = "Cast";
    n.name = "Cast_" + g_.value(to).name;
    n.opset = g_.node(beside).opset;
    n.inputs = {from};
    n.outputs = {to};
    n.attrs["to"] = static_cast<int64_t>(g_.value(to).type);
    n.sources = g_.node(beside).sources;
    n.order = g_.node(beside).order;
    g_.add_node(std::move(n));
  }

  Graph& g_;
  bool (*replaced_)(DType);
  DType to_;
  std::string suffix_;
  std::map<ValueId, ValueId> converted_;
};

}  // namespace

void compute_in(Graph& g, const std::vector<NodeId>& nodes, bool (*replaced)(DType), DType to) {
  InType(g, replaced, to).run(nodes);
}

}  // namespace smelt::fuse
